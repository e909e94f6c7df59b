"""FedMix (Yoon et al., ICLR 2021): Mixup with averages of other clients' samples, to first order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pflrepro.algorithms.contract import Method, below, mean, one_hot
from pflrepro.algorithms.phases import Clock, Draw, Phase
from pflrepro.algorithms.task import Context, Source
from pflrepro.errors import check_range, check_word
from pflrepro.trees import Tree, concatenate


@dataclass(frozen=True)
class FedMix(Method):
    """FedMix: with averages (xbar, ybar) of M samples each, which the clients exchange once, FedAvg on

    (1 - l) CE(f((1-l) x), y) + l CE(f((1-l) x), ybar) + l (1 - l) <d CE(f(x'), y) / dx' at x' = (1-l) x, xbar>, l = lambda.

    This is Mixup of (x, y) with (xbar, ybar), up to terms of second order in l. Both implementations that were read have the third
    term's factor (1 - l) [BR-code]. Its input gradient is taken inside the loss and differentiated with it; the forward-mode
    derivative in direction xbar takes as long and gives the same (measured).

    The pool of averages: a client's samples in random order, cut into floor(n_i / M) groups of M; a client with fewer gives the mean
    of what it has. Each step draws one average a sample, with replacement, from all clients'.
    Norm layers see (1-l) x only: their statistics, running ones too, are those of the scaled batch, and the derivative goes through
    the batch statistics. Tested: w.

    Attributes:
        mixing: lambda; 0.1 [BR-code], from the grid 0.01, 0.1, 0.2 [BR].
        samples: M; 10 [BR-code].
        scaling: of the third term: `per-sample` (recommended: the mean over the batch of the samples' products); `paper`, the same
            without the factor 1 - l, as printed; `released`, over the batch's size once more, as in both implementations that were
            read [BR-code].
        pool_refresh: the pool is made `once`, the paper's exchange [inferred]; anew every `round`; or there is no pool and every `step`
            makes new averages, each of M samples drawn with replacement from one random client [BR-code].
        common_draws: the averages of a step are drawn once for all clients of the cohort [BR-code], or each draws its own.
    """

    large_supply: ClassVar[bool] = True
    mixes_samples: ClassVar[bool] = True

    mixing: float = 0.1
    samples: int = 10
    scaling: str = "per-sample"
    pool_refresh: str = "once"
    common_draws: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("mixing of FedMix", self.mixing, 0, 1)
        check_range("samples of FedMix", self.samples, 1, integer=True)
        check_word("scaling of FedMix", self.scaling, ("per-sample", "paper", "released"))
        check_word("pool_refresh of FedMix", self.pool_refresh, ("once", "round", "step"))

    # ---- on the host -------------------------------------------------------------------------------------------------------
    def supply(self, source: Source, t: int) -> Tree | None:
        given = super().supply(source, t)
        if t > 0 and self.pool_refresh != "round":
            return given
        if self.pool_refresh == "step":
            return (given or Tree()) | Tree(others=rows_of_clients(source))
        return (given or Tree()) | Tree(averages=self.pool(source, t))

    def pool(self, source: Source, t: int = 0) -> Tree:
        """`x` [P, ...] and `y` [P, C], the averages of all clients."""
        averages = []
        for client, rows in enumerate(source.rows):
            if len(rows):
                order = source.generator("fedmix", t, client).permutation(rows)
                groups = max(1, len(rows) // self.samples)
                averages.append(source.means(order[: groups * self.samples].reshape(groups, -1)))
        return concatenate(averages)

    def phases(self, clock: Clock) -> list[Phase]:
        # the average that a sample is mixed with; or the client it is made of, and which of its samples
        numbers = (1 + self.samples,) if self.pool_refresh == "step" else ()

        def drawn(phase: Phase) -> Phase:
            shape = (phase.batch or clock.batch_size, *numbers)
            return phase.drawing(average=Draw("uniform", shape, common=self.common_draws))

        return [drawn(phase) if phase.local else phase for phase in super().phases(clock)]

    # ---- one client --------------------------------------------------------------------------------------------------------
    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        if "average" not in batch:
            return super().loss(params, local, batch, ctx)
        drawn = self.drawn(batch, ctx)
        plain = super().loss

        def along(x: Tensor) -> tuple[Tensor, Tree]:
            return plain(params, local, batch | Tree(x=x), ctx)

        scaled = (1 - self.mixing) * batch.x
        towards, (value, out) = torch.func.grad_and_value(along, has_aux=True)(scaled)
        slope = (towards * drawn.x).sum()  # the loss is a mean over the batch, and so is this
        if self.scaling == "released":
            slope = slope / batch.mask.sum().clamp(min=1)
        other = mean(F.cross_entropy(out.logits, drawn.y, reduction="none"), batch)
        shrunk = 1.0 if self.scaling == "paper" else 1 - self.mixing
        return (1 - self.mixing) * value + self.mixing * (shrunk * slope + other), out

    def drawn(self, batch: Tree, ctx: Context) -> Tree:
        """`x` [B, ...] and `y` [B, C], the average that each sample of the batch is mixed with."""
        u = batch.average[: len(batch.y)]
        if self.pool_refresh == "step":
            return self.fresh(u, ctx)
        averages = ctx.common.supplied.averages
        return averages[below(u, len(averages.y))]

    def fresh(self, u: Tensor, ctx: Context) -> Tree:
        """New averages from numbers u [B, 1 + M] in [0, 1): the client, and its samples."""
        others = ctx.common.supplied.others
        client = below(u[:, 0], len(others.count))
        place = below(u[:, 1:], others.count[client][:, None])
        x, y = ctx.samples(others.rows[others.first[client][:, None] + place])
        hot = one_hot(y.flatten(), ctx.task.classes, x.dtype).unflatten(0, y.shape)
        return Tree(x=x.mean(1), y=hot.mean(1))


def rows_of_clients(source: Source) -> Tree:
    """`rows`: the training rows of all clients one behind the other; of each client that has any, where its begin, `first`, and how
    many it has, `count`."""
    held = [rows for rows in source.rows if len(rows)]
    count = np.array([len(rows) for rows in held], dtype=np.int64)
    return source.integers(rows=np.concatenate(held), first=count.cumsum() - count, count=count)
