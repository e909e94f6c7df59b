"""FedCM as FedBR's code runs it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pflrepro.algorithms.fedcm import FedCM
from pflrepro.algorithms.task import Context
from pflrepro.trees import Tree


@dataclass(frozen=True)
class FedBRFedCM(FedCM):
    """FedCM mixed into the momentum buffer itself [BR-code, there with momentum 0.9 and always with Mixup].

        b <- rho b + g + decay w, b <- alpha b + (1 - alpha) Delta, w <- w - eta b

    So little momentum is left (alpha rho); in the first round, where Delta is 0, b is not scaled by alpha. T_i is the run's number of
    local steps whatever was taken, also behind a first round of one step (the steps taken where the run has no such number). Without
    momentum only the first round and T_i differ.
    """

    def share(self, ctx: Context) -> Tensor:
        t = ctx.scalars.t
        return (t > 0).to(t.dtype) * (1 - self.alpha)

    def added(self, group: str, local: Tree, ctx: Context) -> Tree | float:
        decayed = super().added(group, local, ctx)
        return decayed if ctx.momentum is None else ctx.momentum * local.optimiser.params[group] + decayed

    def steps(self, ctx: Context) -> Tensor:
        taken, rate = ctx.steps.train, ctx.scalars.rate
        fixed = torch.where(taken > 0, ctx.task.local_steps, taken) if ctx.task.local_steps else taken
        return fixed.to(rate.dtype)
