"""The partitions of GRP-FED; their formula is not printed, so the reading is ours [?]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from pflrepro.checked import Between
from pflrepro.data.partitions.kind import Attempt, Drawn

Ratio = Annotated[float, Between(0, 1, open_low=True)]


@dataclass(frozen=True, repr=False)
class LongTail(Drawn):
    """GRP-FED; sizes fall geometrically to RHO of the first, a client's classes by powers of TAU.

    A class that runs out passes its deficit to the client's next classes in its order, in circles; all samples are used.

    Attributes:
        rho: size of the last client over that of the first.
        tau: the class at position j of a client's random order has a share proportional to tau^j.
    """

    kind: ClassVar[str] = "long-tail"
    numbers: ClassVar[tuple[str, ...]] = ("RHO", "TAU")
    own_minimum: ClassVar[bool] = True
    draws: ClassVar[int] = 1
    rho: Ratio
    tau: Ratio

    def client_sizes(self, total: int, clients: int) -> np.ndarray:
        """Samples of each client, `total` in all."""
        return _rounded(self.rho ** (np.arange(clients) / max(clients - 1, 1)), total)

    def drawing(self, class_sizes: np.ndarray, clients: int, random: np.random.Generator) -> Attempt:
        return lambda: self._draw(class_sizes, clients, random)

    def _draw(self, class_sizes: np.ndarray, clients: int, random: np.random.Generator) -> np.ndarray:
        left, wanted = class_sizes.astype(np.int64), self.client_sizes(int(class_sizes.sum()), clients)
        sizes = np.zeros((clients, len(left)), dtype=np.int64)
        for client in range(clients):
            order = random.permutation(np.flatnonzero(class_sizes))
            profile = _rounded(self.tau ** np.arange(len(order), dtype=float), int(wanted[client]))
            deficit = 0
            for label, share in [*zip(order, profile, strict=True), *((label, 0) for label in order)]:
                given = min(int(share) + deficit, int(left[label]))
                deficit += int(share) - given
                sizes[client, label] += given
                left[label] -= given
        return sizes


def _rounded(weights: np.ndarray, total: int) -> np.ndarray:
    """`total` shared out in proportion to the weights, in whole numbers that add up (largest remainders first)."""
    exact = weights / weights.sum() * total
    whole = np.floor(exact).astype(np.int64)
    whole[np.argsort(whole - exact, kind="stable")[: total - int(whole.sum())]] += 1
    return whole
