"""MNIST-M as the Digit-5 benchmark distributes it: one pickle of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pflrepro.data.arrays import Arrays
from pflrepro.data.readers.pickles import read_pickle
from pflrepro.data.sets.types import DatasetSpec
from pflrepro.errors import CorruptFile

_LIMIT = 1_000_000_000  # bytes; 70,000 pictures have 165 MB


def mnistm(spec: DatasetSpec, paths: Mapping[str, Path]) -> Arrays:
    """uint8 [70000, 3, 28, 28] RGB: the parts train, valid, test in this order [FedBN-code]; `split` is 1 for test.

    The dictionary has `train`, `valid`, `test`, each uint8 [n, 28, 28, 3], and `train_label` and so on, int [n].
    """
    path = paths["pickle"]
    if path.stat().st_size > _LIMIT:
        raise CorruptFile(f"{path} is corrupt: it has more than {_LIMIT:,} bytes")
    values = read_pickle(path.read_bytes(), path)
    parts = [_part(values, name, path) for name in ("train", "valid", "test")]
    return Arrays.of_parts(spec.name, parts, spec.class_names)


def _part(values: dict[str, Any], name: str, path: Path) -> tuple[np.ndarray, np.ndarray]:
    images, labels = values.get(name), np.asarray(values.get(f"{name}_label"))
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape[1:] != (28, 28, 3):
        raise CorruptFile(f"{path} is corrupt: {name!r} is not uint8 of shape [n, 28, 28, 3]")
    if labels.shape != (len(images),) or labels.dtype.kind not in "ui" or not np.isin(labels, np.arange(10)).all():
        raise CorruptFile(f"{path} is corrupt: '{name}_label' is not one digit for each of {len(images):,} images")
    return images.transpose(0, 3, 1, 2), labels.astype(np.int64)
