"""Where training came apart: a loss that is no finite number, or larger than any that means something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pflrepro.metrics.accuracy import column

EXPLODED = 1e6  # nats a sample; a guess among 1,000 classes costs 7
MOST_NAMED = 5  # clients in a message


@dataclass(frozen=True)
class Divergence:
    """round: of the first test that shows it. clients: whose losses show it there, in ascending order."""

    round: int
    clients: tuple[int, ...]

    def __str__(self) -> str:
        few = ", ".join(map(str, self.clients[:MOST_NAMED])) + (" ..." if len(self.clients) > MOST_NAMED else "")
        return f"diverged by round {self.round} (client{'s' if len(self.clients) > 1 else ''} {few})"


def divergence(history: Mapping[str, Any]) -> Divergence | None:
    """When and at which clients a run diverged, from its history; None where it did not.

    A client's model shows it by a test loss a sample that is no finite number or above `EXPLODED`, or by a loss of its local training
    that is infinite or above it. A training loss of NaN alone says nothing: it also stands where nothing was trained. Nor does a test
    loss below 0, which is not kept.

    Example:
        >>> history = {"round": [0, 1], "loss": [[2.0, 9.0], [2.0, float("nan")]], "test_samples": [1, 4]}
        >>> str(divergence(history | {"train_loss": [[1.0, 1.0], [1.0, 1.0]]}))
        'diverged by round 1 (client 1)'
    """
    each = np.asarray(column(history, "loss"), np.float64) / np.maximum(column(history, "test_samples"), 1)
    apart = ~(each <= EXPLODED) | (column(history, "train_loss") > EXPLODED)
    tests = np.flatnonzero(apart.any(1))
    if not len(tests):
        return None
    return Divergence(int(history["round"][tests[0]]), tuple(np.flatnonzero(apart[tests[0]]).tolist()))
