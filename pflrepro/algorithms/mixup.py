"""Mixup (Zhang et al., ICLR 2018) as a plug-in: local training on mixed batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.phases import Clock, Draw, Phase
from pflrepro.algorithms.task import Context
from pflrepro.checked import Positive
from pflrepro.trees import Tree


@dataclass(frozen=True)
class Mixup(Method):
    """Mixup: the client trains on mixtures of the samples of its own batch, and on their labels mixed alike.

        x~ = lambda x + (1 - lambda) x_pi, lambda ~ Beta(a, a)
        lambda CE(f(x~), y) + (1 - lambda) CE(f(x~), y_pi)

    One lambda and one random permutation pi of the batch, for every batch [BR-code]. Everything in the host's loss sees x~:
    contrastive and decorrelation terms its features, terms with labels both labels (`contract.by_label`). It acts in all training of
    clients on their training data, that of personal models included, not in passes without training, on validation data, at the
    server, nor where a copy is tuned to be tested [inferred].

    Attributes:
        mixup_beta: a; 0.2 [BR].
    """

    mixes_samples: ClassVar[bool] = True

    mixup_beta: Positive = 0.2

    def phases(self, clock: Clock) -> list[Phase]:
        share = Draw("beta", (), (self.mixup_beta, self.mixup_beta))

        def drawn(phase: Phase) -> Phase:
            order = Draw("uniform", (phase.batch or clock.batch_size,))
            return phase.drawing(mixup_share=share, mixup_order=order)

        return [drawn(phase) if _mixes(phase) else phase for phase in super().phases(clock)]

    def transform(self, batch: Tree, ctx: Context) -> Tree:
        batch = super().transform(batch, ctx)
        if not _mixes(ctx.phase):
            return batch
        share = batch.mixup_share
        # a permutation of the true rows: they come first, in the order of their numbers; padded rows stay behind
        numbers = batch.mixup_order[: len(batch.y)]
        order = torch.where(batch.mask > 0, numbers, 2.0).argsort(stable=True)
        mixed = {"x": share * batch.x + (1 - share) * batch.x[order], "partner": batch.y[order], "share": share}
        mixed["unmixed"] = batch.x
        return type(batch)({**batch, **mixed})  # a batch without padding stays one


def _mixes(phase: Phase) -> bool:
    return phase.local and phase.data == "train"
