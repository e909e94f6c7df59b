"""Practical label skew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pflrepro.checked import Positive
from pflrepro.data.partitions.kind import Attempt, Drawn


@dataclass(frozen=True, repr=False)
class Dirichlet(Drawn):
    """Practical label skew; each class is shared out by a Dirichlet(ALPHA) draw, smaller is more skewed.

    Class by class, shares ~ Dirichlet(alpha) over the clients that hold fewer than n/N samples so far (alpha is the papers' beta). A
    Dirichlet draw restricted to some of its entries and renormalised is a Dirichlet draw over these, so this is the papers' rule (draw
    for all, set the full clients to zero, renormalise) without its division by zero. [LIB-era], [FDA-code]
    """

    kind: ClassVar[str] = "dirichlet"
    numbers: ClassVar[tuple[str, ...]] = ("ALPHA",)
    default_min_size: ClassVar[int] = 40  # batch/(1 - 0.75) at batch 10 [LIB-era]
    alpha: Positive

    def drawing(self, class_sizes: np.ndarray, clients: int, random: np.random.Generator) -> Attempt:
        total = int(class_sizes.sum())

        def attempt() -> np.ndarray:
            sizes = np.zeros((clients, len(class_sizes)), dtype=np.int64)
            held = np.zeros(clients, dtype=np.int64)
            for label in np.flatnonzero(class_sizes):
                open_ = np.flatnonzero(held * clients < total)
                sizes[open_, label] = slices(shares(np.full(len(open_), self.alpha), random), int(class_sizes[label]))
                held += sizes[:, label]
            return sizes

        return attempt


def slices(share: np.ndarray, total: int) -> np.ndarray:
    """Cut `total` samples at floor(cumsum(share) total); the last share takes the rest."""
    cuts = np.floor(np.cumsum(share)[:-1] * total).astype(np.int64)
    return np.diff(np.concatenate([[0], np.minimum(cuts, total), [total]]))


def shares(concentration: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """A Dirichlet draw; where it leaves the range of numbers, its limit for small concentrations: all of it in one place."""
    drawn = random.dirichlet(concentration)
    if abs(drawn.sum() - 1) < 1e-6:
        return drawn
    drawn = np.zeros(len(concentration))
    if np.ptp(concentration) == 0:
        drawn[random.integers(len(drawn))] = 1.0
    else:
        drawn[random.choice(len(drawn), p=concentration / concentration.sum())] = 1.0
    return drawn
