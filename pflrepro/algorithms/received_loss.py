"""What the methods of fairness and robustness share: every client also reports a loss of the received model."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pflrepro.algorithms.contract import Method, cross_entropy
from pflrepro.algorithms.phases import Clock, Phase
from pflrepro.algorithms.task import Context
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
class FirstLoss(ReportedLoss):
    """The same, F_i being the loss of the round's first step, on a mixed batch where the run mixes; 0 for a client without a step.

    The model is still the received one there, so no further pass is made.
    """

    @property
    def scans(self) -> bool:
        return False

    def begin(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        return super().begin(common, own, client, ctx) | Tree(taken=torch.zeros_like(ctx.scalars.rate))

    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        value, out = super().loss(params, local, batch, ctx)
        first = Tree(F=torch.where(local.taken > 0, local.F, value), taken=torch.ones_like(local.taken))
        return value, out | Tree(keep=first)
