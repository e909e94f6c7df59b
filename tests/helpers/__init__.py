"""What several tests need."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np


def equal(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays of any type are the same, NaN where the other has NaN."""
    if one.dtype.kind != "f":
        return np.array_equal(one, other)
    return np.array_equal(one, other, equal_nan=True)


def differing(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> list[str]:
    """The names of two mappings whose arrays are not the same, the clock aside."""
    names = sorted(set(one) | set(other))
    return [n for n in names if "seconds" not in n and (n not in one or n not in other or not equal(one[n], other[n]))]
