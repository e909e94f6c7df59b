"""FedPHP of the platform, as GPFL's tables most likely have it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from pflrepro.algorithms.fedphp import FedPHP
from pflrepro.algorithms.task import Context
from pflrepro.trees import Tree

BANDWIDTHS = (10.0, 15.0, 20.0, 50.0)  # [LIB]


@dataclass(frozen=True)
class PlatformFedPHP(FedPHP):
    """FedPHP of the papers' platform until November 2024 [LIB], which GPFL's numbers come from most likely [inferred]:
    GPFL says that FedPHP aligns features of the personal and the global extractor.

        start: w_i = (1 - mu_t) w^t + mu_t w_i^old, mu_t = inheritance t / T
        (1 - lambda) CE(f(x; w_i), y) + lambda MMD(z, z^t)

    w_i^old is the client's last trained model, T the rounds of the run; the start is also what is tested. The teacher is w^t, in a
    client's first round too, its layers in training mode as the student's; the MMD is taken between the features of both; no gradient
    is scaled down. There an absent client's model is mixed in every round too, here only when it is used. GPFL's rows: weight=0.01,
    inheritance=0.9, a later remark of the author [author]. Another reading of the platform tests the model just trained [?].
    """

    clip: ClassVar[float] = math.inf
    teacher_trains: ClassVar[bool] = True
    revision: ClassVar[int] = 2  # 2: the teacher's batch norm

    def inherited(self, client: Tree, ctx: Context) -> Tensor:
        return self.inheritance * (ctx.scalars.t / max(ctx.task.rounds, 1)).clamp(0, 1)

    def model(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        received = super().model(common, own, client, ctx) | ctx.pick(common.params, "shared")
        return received | received.only(client.history).lerp(client.history, self.inherited(client, ctx))

    def begin(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        return Tree(params=self.model(common, own, client, ctx))

    def teacher(self, ctx: Context) -> Tree:
        return ctx.pick(ctx.common.params, "shared")

    def lesson(self, weight: Tensor, ctx: Context) -> Tensor:
        return weight

    def regulariser(self, out: Tree, taught: Tree, batch: Tree) -> Tensor:
        return mmd(out.z, taught.z, batch.mask)

    def trained(self, local: Tree, ctx: Context) -> Tree:
        return local.params


def mmd(x: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    """The squared maximum mean discrepancy of the true rows of x and y [B, K]: the mean of k(x, x') + k(y, y') - 2 k(x, y) over all
    pairs, k = sum_a exp(-d^2 / (2 a))."""
    rows, weights = torch.cat([x, y]), torch.cat([mask, -mask])
    squares = ((rows[:, None] - rows) ** 2).sum(2)
    kernel = sum(torch.exp(-squares / (2 * a)) for a in BANDWIDTHS)
    return (weights[:, None] * weights * kernel).sum() / mask.sum().clamp(min=1) ** 2
