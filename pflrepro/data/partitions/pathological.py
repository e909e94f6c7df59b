"""Pathological label skew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pflrepro.checked import AtLeastOne
from pflrepro.data.partitions.dirichlet import shares, slices
from pflrepro.data.partitions.kind import Attempt, Drawn
from pflrepro.errors import UserError


@dataclass(frozen=True, repr=False)
class Pathological(Drawn):
    """Each client holds K classes; data are disjoint, sizes unequal.

    Every class has an equal number of holders (up to one): the classes, in random order and repeated, are handed to the clients in
    random order. A class is cut at uniformly random points (Dirichlet(1)), after each of its q holders got floor(n_k / (10 q)) samples,
    at least 1 (the papers' lower bound).
    """

    kind: ClassVar[str] = "pathological"
    numbers: ClassVar[tuple[str, ...]] = ("K",)
    default_min_size: ClassVar[int] = 40
    labels: AtLeastOne

    def drawing(self, class_sizes: np.ndarray, clients: int, random: np.random.Generator) -> Attempt:
        holders = self._holders(class_sizes, clients, random)

        def attempt() -> np.ndarray:
            sizes = np.zeros((clients, len(class_sizes)), dtype=np.int64)
            for label, who in holders.items():
                low = max(1, int(class_sizes[label]) // (10 * len(who)))
                rest = int(class_sizes[label]) - low * len(who)
                sizes[who, label] = low + slices(shares(np.ones(len(who)), random), rest)
            return sizes

        return attempt

    def _holders(
        self, class_sizes: np.ndarray, clients: int, random: np.random.Generator
    ) -> dict[np.int64, np.ndarray]:
        """Class -> the clients that hold it."""
        present = np.flatnonzero(class_sizes)
        if self.labels > len(present):
            raise UserError(f"K in {self.form()} must be <= {len(present)}, the number of classes, not {self.labels}")
        if clients * self.labels < len(present):
            raise UserError(
                f"{clients} clients with {self.labels} classes each leave {len(present) - clients * self.labels} of "
                f"{len(present)} classes unassigned; use more clients or a larger K"
            )
        deck = random.permutation(present)[np.arange(clients * self.labels) % len(present)]
        hands = deck.reshape(clients, self.labels)[random.permutation(clients)]
        holders = {label: np.flatnonzero((hands == label).any(1)) for label in present}
        for label, who in holders.items():
            if class_sizes[label] < len(who):
                raise UserError(
                    f"class {label} has {class_sizes[label]} samples, too few for the {len(who)} clients that must hold it"
                )
        return holders
