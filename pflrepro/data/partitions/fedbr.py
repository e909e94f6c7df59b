"""The partitions of FedBR."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pflrepro.data.partitions.dirichlet import Dirichlet, shares
from pflrepro.data.partitions.kind import Attempt


@dataclass(frozen=True, repr=False)
class Lda(Dirichlet):
    """FedBR's split; client by client, classes ~ Dirichlet(ALPHA x distribution of what is left); equal sizes.

    Latent Dirichlet allocation [BR-code: MNIST, CIFAR-10]: floor(n/N) samples for client after client, q ~ Dirichlet over the
    classes that are left; alpha is the sum of the concentrations.
    """

    kind: ClassVar[str] = "lda"
    own_minimum: ClassVar[bool] = True
    default_min_size: ClassVar[int] = 1
    draws: ClassVar[int] = 1

    def concentration(self, left: np.ndarray) -> np.ndarray:
        """Of the prior over the classes that are left, from the samples left of each."""
        return self.alpha * (left / left.sum())

    def drawing(self, class_sizes: np.ndarray, clients: int, random: np.random.Generator) -> Attempt:
        return lambda: self._draw(class_sizes, clients, random)

    def _draw(self, class_sizes: np.ndarray, clients: int, random: np.random.Generator) -> np.ndarray:
        left = class_sizes.astype(np.int64)
        sizes = np.zeros((clients, len(left)), dtype=np.int64)
        for client in range(clients):
            open_ = np.flatnonzero(left)
            prior = np.zeros(len(left))
            prior[open_] = shares(self.concentration(left[open_]), random)
            sizes[client] = self.draw_classes(prior, int(class_sizes.sum()) // clients, left, random)
            left -= sizes[client]
        return sizes

    def draw_classes(self, prior: np.ndarray, wanted: int, left: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """`wanted` samples drawn one by one, class ~ prior, without replacement; an exhausted class leaves the prior.

        Drawing many at once, keeping what there is and drawing the rest anew from the classes that are left is the same distribution.
        Where all of the prior's mass lies on exhausted classes, a new prior is drawn over the others.
        """
        taken = np.zeros_like(left)
        while (missing := wanted - int(taken.sum())) > 0:
            prior = np.where(taken < left, prior, 0.0)
            if not prior.sum() > 0:
                open_ = np.flatnonzero(taken < left)
                prior[open_] = shares(self.concentration((left - taken)[open_]), random)
            taken = np.minimum(taken + random.multinomial(missing, prior / prior.sum()), left)
        return taken


@dataclass(frozen=True, repr=False)
class LdaFlat(Lda):
    """As lda with Dirichlet(ALPHA, ..., ALPHA), much milder (FedBR's code on CIFAR-100)."""

    kind: ClassVar[str] = "lda-flat"

    def concentration(self, left: np.ndarray) -> np.ndarray:
        return np.full(len(left), self.alpha)
