"""Data that come with an installed package."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from pflrepro.data.arrays import Arrays


def bundled_digits(name: str) -> Arrays:
    """The UCI digits that scikit-learn carries: uint8 [1797, 8, 8] with values 0..16, in its row order. No download."""
    bunch = load_digits()
    return Arrays(
        name=name,
        x=bunch.images.astype(np.uint8),
        y=bunch.target.astype(np.int64),
        classes=np.array([str(value) for value in bunch.target_names]),
    )
