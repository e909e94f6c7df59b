"""What the methods of fairness and robustness share: every client also reports a loss."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from pflrepro.algorithms.contract import Method, cross_entropy
from pflrepro.algorithms.phases import Clock, Phase
from pflrepro.algorithms.task import Context
from pflrepro.errors import check_word
from pflrepro.trees import Tree


@dataclass(frozen=True)
class ReportedLoss(Method):
    """FedAvg whose upload also holds F_i, the mean cross-entropy of the received model w^t on the client's training samples.

    One more forward pass over the training samples before training, norm layers with their running statistics. F_i is 0 for a
    client without samples, and where no pass is made (`scans`), until a method sets it.
    """

    @property
    def scans(self) -> bool:
        """Whether the pass is made."""
        return True

    def phases(self, clock: Clock) -> list[Phase]:
        scan = [Phase("received", scan=True)] if self.scans else []
        return [*scan, *super().phases(clock)]

    def begin(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        return super().begin(common, own, client, ctx) | Tree(F=torch.zeros_like(ctx.scalars.rate))

    def observe(self, local: Tree, batch: Tree, ctx: Context) -> Tree:
        logits = self.forward(local.params, batch.x, ctx).logits
        return Tree(loss=cross_entropy(logits, batch) * batch.mask.sum())

    def leave(self, local: Tree, sums: Tree, ctx: Context) -> Tree:
        changed = super().leave(local, sums, ctx)
        if not ctx.phase.scan:
            return changed
        return changed | Tree(F=sums.loss / ctx.info.n.clamp(min=1))

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        kept, upload = super().finish(local, client, ctx)
        return kept, upload | local.only(["F"])


@dataclass(frozen=True)
class ReceivedLoss(ReportedLoss):
    """FedAvg whose upload also holds F_i, the loss of the received model; 0 with `first` for a client that takes no step.

    Attributes:
        loss_of: over which samples. `all`: one more forward pass over the training samples before training, norm layers with their
            running statistics. `first`: the batch of the round's first step, mixed where the run mixes; costs nothing.
    """

    loss_of: str = field(default="all", kw_only=True)  # behind the own options of a method

    def __post_init__(self) -> None:
        super().__post_init__()
        check_word("samples that the received model's loss is taken over", self.loss_of, ("all", "first"))

    @property
    def scans(self) -> bool:
        return self.loss_of == "all"

    def begin(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        return super().begin(common, own, client, ctx) | Tree(taken=torch.zeros_like(ctx.scalars.rate))

    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        value, out = super().loss(params, local, batch, ctx)
        if self.scans:
            return value, out
        kept = Tree(F=torch.where(local.taken > 0, local.F, value), taken=torch.ones_like(local.taken))
        return value, out | Tree(keep=kept)
