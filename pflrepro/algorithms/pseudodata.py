"""FedBR's pseudo-data: means of random samples, which say little of any one of them, the same for all clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from pflrepro.algorithms.contract import Method, by_label, one_hot
from pflrepro.algorithms.phases import Clock, Draw, Phase
from pflrepro.algorithms.task import Context, Source
from pflrepro.checked import AtLeastOne, Count
from pflrepro.errors import UserError
from pflrepro.trees import Tree


@dataclass(frozen=True)
class PseudoData(Method):
    """Makes x_p with soft labels y_p, means of `pseudo_mean` random samples each, drawn with replacement.

    `rsm` (Alg. 2): training samples of one client each, drawn uniformly among those that have any [BR-code], y_p uniform; `proxy`: of
    the run's proxy data, y_p uniform; `mixture` (Eq. 4): at every step each proxy mean is averaged with K = `mixed_samples` random
    samples of the current batch [BR-code], and y_p likewise. Mixup's batches are mixed before that.

    Attributes:
        pseudo: `rsm` [BR-code] or `mixture` (Table 3, Figure 6c), `proxy`. The latter two need a run with proxy=DATASET.
        pseudo_samples: 0 = the run's batch size [BR].
        pseudo_mean: 10 [BR-code].
        pseudo_balanced: an RSM mean takes all classes equally often, from all clients (figure 6d) [inferred].
        pseudo_refresh: `round` [BR], or `once` [BR-code; tables 2 and 3].
        mixed_samples: 1 [BR, BR-code]. 0: K = 0 of figure 6c, which is `proxy`.
    """

    pseudo: Literal["rsm", "proxy", "mixture"] = "rsm"
    pseudo_samples: Count = 0
    pseudo_mean: AtLeastOne = 10
    pseudo_balanced: bool = False
    pseudo_refresh: Literal["round", "once"] = "round"
    mixed_samples: Count = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pseudo_balanced and self.pseudo != "rsm":
            raise UserError(f"pseudo_balanced=true is for pseudo=rsm, not {self.pseudo}: proxy labels are not used")

    @property
    def mixes(self) -> bool:
        """Whether pseudo-samples are mixed anew with samples of every batch."""
        return self.pseudo == "mixture" and self.mixed_samples > 0

    def phases(self, clock: Clock) -> list[Phase]:
        table = Draw("uniform", (self.pseudo_samples or clock.batch_size, self.mixed_samples))
        phases = super().phases(clock)
        return [phase.drawing(mixed=table) if self.mixes and trains(phase) else phase for phase in phases]

    def supply(self, source: Source, t: int) -> Tree | None:
        given = super().supply(source, t)
        if t > 0 and self.pseudo_refresh == "once":
            return given
        own = balanced if self.pseudo_balanced else of_one_client
        means = own if self.pseudo == "rsm" else of_proxy
        count = self.pseudo_samples or source.batch_size
        pseudo = means(source, source.generator("fedbr", t), count, self.pseudo_mean)
        return (given or Tree()) | Tree(pseudo=pseudo)

    def pseudo_batch(self, batch: Tree, ctx: Context) -> tuple[Tensor, Tensor]:
        """x_p [P, ...] and y_p [P, C] of this step."""
        x, classes = ctx.common.supplied.pseudo, ctx.task.classes
        uniform = x.new_full((len(x), classes), 1 / classes)
        if not self.mixes:
            return x, uniform
        rows = batch.mask.sum()
        chosen = torch.minimum((batch.mixed * rows).long(), rows.long() - 1).clamp(min=0)  # [P, mixed_samples]
        own = by_label(lambda labels: one_hot(labels, classes, x.dtype), batch)
        share = 1 + self.mixed_samples
        return (x + batch.x[chosen].sum(1)) / share, (uniform + own[chosen].sum(1)) / share


def trains(phase: Phase) -> bool:
    """Whether clients train in the phase on data of theirs."""
    return phase.local and phase.data != "none"


def of_one_client(source: Source, draw: np.random.Generator, count: int, width: int) -> Tensor:
    """[count, ...]: each the mean of `width` training samples of one client, drawn uniformly among those that have any."""
    holders = [rows for rows in source.rows if len(rows)]
    return source.means(np.stack([draw.choice(holders[draw.integers(len(holders))], width) for _ in range(count)])).x


def balanced(source: Source, draw: np.random.Generator, count: int, width: int) -> Tensor:
    """[count, ...]: each the mean of `width` training samples of all clients, every present class equally often (up to one)."""
    rows = np.concatenate(source.rows)
    labels = source.labels[rows]
    of_class = [rows[labels == label] for label in np.unique(labels)]

    def line() -> list[int]:
        orders = [draw.permutation(len(of_class)) for _ in range(-(-width // len(of_class)))]
        return [draw.choice(of_class[k]) for k in np.concatenate(orders)[:width]]

    return source.means(np.stack([line() for _ in range(count)])).x


def of_proxy(source: Source, draw: np.random.Generator, count: int, width: int) -> Tensor:
    """[count, ...]: each the mean of `width` samples of the run's proxy data."""
    if not source.proxy_rows:
        raise UserError("this pseudo-data needs samples of another data set: give the run proxy=DATASET, or pseudo=rsm")
    means = source.proxy_means(draw.integers(source.proxy_rows, size=(count, width)))
    if tuple(means.shape[1:]) != tuple(source.shape):
        raise UserError(
            f"proxy samples must have the shape of the clients', {list(source.shape)}, not {list(means.shape[1:])}"
        )
    return means
