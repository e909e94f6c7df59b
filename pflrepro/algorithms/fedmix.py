"""FedMix (Yoon et al., ICLR 2021): Mixup with averages of other clients' samples, to first order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from pflrepro.algorithms.contract import Method, below, mean
from pflrepro.algorithms.phases import Clock, Draw, Phase
from pflrepro.algorithms.task import Context, Source
from pflrepro.checked import AtLeastOne, Share
from pflrepro.trees import Tree, concatenate


@dataclass(frozen=True)
class FedMix(Method):
    """FedMix: Mixup with averages (xbar, ybar) of M samples each, which the clients exchange once, in place of single samples.

        (1 - lambda) CE(f(x'), y) + lambda CE(f(x'), ybar) + lambda (1 - lambda) <grad_{x'} CE(f(x'), y), xbar>
        x' = (1 - lambda) x

    This is Mixup of (x, y) with (xbar, ybar), up to terms of second order in lambda. Both implementations that were read have the
    third term's factor (1 - lambda) [BR-code]; the paper prints none. Its input gradient is taken inside the loss and differentiated
    with it; the forward-mode derivative in direction xbar takes as long and gives the same (measured).

    The pool of averages: a client's samples in random order, cut into floor(n_i / M) groups of M; a client with fewer gives the mean
    of what it has. Made once, the paper's exchange [inferred]. Each step draws one average a sample, with replacement, from all
    clients'.
    Norm layers see x' only: their statistics, running ones too, are those of the scaled batch, and the derivative goes through the
    batch statistics. Averaged with p_i. Tested: w.

    Attributes:
        mixing: lambda; 0.1 [BR-code], from the grid 0.01, 0.1, 0.2 [BR].
        samples: M; 10 [BR-code].
    """

    large_supply: ClassVar[bool] = True
    mixes_samples: ClassVar[bool] = True

    mixing: Share = 0.1
    samples: AtLeastOne = 10

    # ---- on the host -------------------------------------------------------------------------------------------------------
    def supply(self, source: Source, t: int) -> Tree | None:
        given = super().supply(source, t)
        return given if t > 0 else (given or Tree()) | self.exchanged(source)

    def exchanged(self, source: Source) -> Tree:
        """The pool, `averages`: `x` [P, ...] and `y` [P, C] of all clients."""
        pool = []
        for client, rows in enumerate(source.rows):
            if len(rows):
                order = source.generator("fedmix", client=client).permutation(rows)
                groups = max(1, len(rows) // self.samples)
                pool.append(source.means(order[: groups * self.samples].reshape(groups, -1)))
        return Tree(averages=concatenate(pool))

    def phases(self, clock: Clock) -> list[Phase]:
        def drawing(phase: Phase) -> Phase:
            return phase.drawing(average=self.draw(phase.batch or clock.batch_size))

        return [drawing(phase) if phase.local else phase for phase in super().phases(clock)]

    def draw(self, batch_size: int) -> Draw:
        """The numbers that a step's averages follow from: one a sample, its place in the pool."""
        return Draw("uniform", (batch_size,))

    # ---- one client --------------------------------------------------------------------------------------------------------
    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        if "average" not in batch:
            return super().loss(params, local, batch, ctx)
        others = self.drawn(batch.average[: len(batch.y)], ctx)
        plain = super().loss

        def along(x: Tensor) -> tuple[Tensor, Tree]:
            return plain(params, local, batch | Tree(x=x), ctx)

        scaled = (1 - self.mixing) * batch.x
        towards, (value, out) = torch.func.grad_and_value(along, has_aux=True)(scaled)
        slope = self.slope(towards, others.x, batch)
        other = mean(F.cross_entropy(out.logits, others.y, reduction="none"), batch)
        return (1 - self.mixing) * value + self.mixing * ((1 - self.mixing) * slope + other), out

    def drawn(self, u: Tensor, ctx: Context) -> Tree:
        """`x` [B, ...] and `y` [B, C], the average that each sample of the batch is mixed with."""
        averages = ctx.common.supplied.averages
        return averages[below(u, len(averages.y))]

    def slope(self, towards: Tensor, averages: Tensor, batch: Tree) -> Tensor:
        """The batch's mean of the samples' products: `towards` is the derivative of a mean over the batch."""
        return (towards * averages).sum()
