"""FedMix as FedBR's code runs it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from pflrepro.algorithms.contract import below, one_hot
from pflrepro.algorithms.fedmix import FedMix
from pflrepro.algorithms.phases import Draw
from pflrepro.algorithms.task import Context, Source
from pflrepro.trees import Tree


@dataclass(frozen=True)
class FedBRFedMix(FedMix):
    """FedMix with new averages at every step, each of M samples drawn with replacement from one random client, and no pool [BR-code].

    They are drawn once a step for all clients of the cohort. The third term is divided by the batch's size once more.
    """

    def exchanged(self, source: Source) -> Tree:
        """`others`: the training `rows` of the clients one behind the other; of each that has any where its begin, `first`, and their
        number, `count`."""
        held = [rows for rows in source.rows if len(rows)]
        count = np.array([len(rows) for rows in held], dtype=np.int64)
        return Tree(others=source.integers(rows=np.concatenate(held), first=count.cumsum() - count, count=count))

    def draw(self, batch_size: int) -> Draw:
        """For each sample the client that its average is made of, and which of its samples."""
        return Draw("uniform", (batch_size, 1 + self.samples), common=True)

    def drawn(self, u: Tensor, ctx: Context) -> Tree:
        others = ctx.common.supplied.others
        client = below(u[:, 0], len(others.count))
        place = below(u[:, 1:], others.count[client][:, None])
        x, y = ctx.samples(others.rows[others.first[client][:, None] + place])
        hot = one_hot(y.flatten(), ctx.task.classes, x.dtype).unflatten(0, y.shape)
        return Tree(x=x.mean(1), y=hot.mean(1))

    def slope(self, towards: Tensor, averages: Tensor, batch: Tree) -> Tensor:
        return super().slope(towards, averages, batch) / batch.mask.sum().clamp(min=1)
