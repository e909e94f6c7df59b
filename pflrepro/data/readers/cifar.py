"""CIFAR-10 and CIFAR-100: the authors' archives for Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pflrepro.data.arrays import Arrays, read_arrays
from pflrepro.data.datasets import as_described
from pflrepro.data.readers.archives import tar_members
from pflrepro.data.readers.pickles import read_pickle
from pflrepro.data.sets.types import DatasetSpec
from pflrepro.errors import CorruptFile

_LIMIT = 200_000_000  # bytes of a member; CIFAR-100's training file has 155 MB
_SHAPE = (3, 32, 32)
# Rows of CIFAR-10 (training, then test) that no copy behind the first `cifar10-half` had; left out everywhere, so that there is one.
_NOT_HELD = (
    *(4298, 5949, 7066, 7237, 7248, 7630, 8006, 8831, 8968),
    *(9415, 10336, 10408, 10572, 11027, 12762, 12834, 13546, 21493),
    *(50260, 50722, 51259, 51369, 51422, 51556, 52245, 52737, 52935, 53630, 53695, 53718, 54085, 54496),
)


def cifar10(spec: DatasetSpec, paths: Mapping[str, Path]) -> Arrays:
    """uint8 [60000, 3, 32, 32] RGB: data_batch_1 to 5 in order, then test_batch."""
    batches = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    return _read(spec, paths["archive"], "cifar-10-batches-py", batches, "labels", ("batches.meta", "label_names"))


def cifar100(spec: DatasetSpec, paths: Mapping[str, Path]) -> Arrays:
    """uint8 [60000, 3, 32, 32] RGB with the 100 fine labels: the file train, then the file test."""
    return _read(
        spec,
        paths["archive"],
        "cifar-100-python",
        ["train", "test"],
        "fine_labels",
        ("meta", "fine_label_names"),
    )


def half(spec: DatasetSpec, paths: Mapping[str, Path]) -> Arrays:
    """Of CIFAR-10's array cache the first half of the training rows and the first half of the test rows, without `_NOT_HELD`."""
    whole = as_described(spec, read_arrays(paths["cifar10"], "cifar10"))
    split = np.zeros(0) if whole.split is None else whole.split
    train, test = np.flatnonzero(split == 0), np.flatnonzero(split == 1)
    if not (len(train) and len(test)) or train[-1] > test[0]:
        raise CorruptFile(
            f"{paths['cifar10']} does not say which rows are official training rows, all before the test rows"
        )
    rows = np.setdiff1d(np.concatenate([train[: len(train) // 2], test[: len(test) // 2]]), _NOT_HELD)
    return Arrays(spec.name, whole.x[rows], whole.y[rows], split=split[rows], classes=np.array(spec.class_names))


def _read(spec: DatasetSpec, path: Path, folder: str, batches: list[str], labels: str, meta: tuple[str, str]) -> Arrays:
    members = tar_members(path, [f"{folder}/{name}" for name in (*batches, meta[0])], _LIMIT)
    _check_names(spec, read_pickle(members[f"{folder}/{meta[0]}"], f"{path} ({meta[0]})"), meta[1], path)
    images, numbers, parts = [], [], []
    for name in batches:
        x, y = _batch(read_pickle(members[f"{folder}/{name}"], f"{path} ({name})"), labels, f"{path} ({name})")
        images.append(x)
        numbers.append(y)
        parts.append(np.full(len(y), name.startswith("test"), dtype=np.uint8))
    return Arrays(
        name=spec.name,
        x=np.concatenate(images),
        y=np.concatenate(numbers),
        split=np.concatenate(parts),
        classes=np.array(spec.class_names),
    )


def _batch(values: dict[str, Any], labels: str, source: str) -> tuple[np.ndarray, np.ndarray]:
    data, numbers = values.get("data"), values.get(labels)
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != 3072:
        raise CorruptFile(f"{source} is corrupt: 'data' is not one line of 3,072 bytes an image")
    if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
        raise CorruptFile(f"{source} is corrupt: '{labels}' is not a list of whole numbers")
    if len(numbers) != len(data):
        raise CorruptFile(f"{source} is corrupt: it has {len(numbers):,} labels for {len(data):,} images")
    if not numbers or min(numbers) < 0 or max(numbers) > 99:
        raise CorruptFile(f"{source} is corrupt: '{labels}' has values that are no labels")
    return data.reshape(len(data), *_SHAPE), np.array(numbers, dtype=np.int64)


def _check_names(spec: DatasetSpec, values: dict[str, Any], key: str, path: Path) -> None:
    """The archive's own list of classes must be ours, in order."""
    names = values.get(key)
    if not isinstance(names, list) or any(not isinstance(name, (bytes, str)) for name in names):
        raise CorruptFile(f"{path} is corrupt: it names no classes")
    found = tuple(name.decode("latin1") if isinstance(name, bytes) else name for name in names)
    if found != spec.class_names:
        other = next((name for name in found if name not in spec.class_names), f"{len(found)} of them in another order")
        raise CorruptFile(f"{path} is corrupt: its classes are not those of {spec.name}: {other}")
