"""MATLAB files (version 5): SVHN and the synthetic digits, EMNIST with its writers."""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
from scipy.io.matlab import MatReadError

from pflrepro.data.arrays import DAMAGE, Arrays
from pflrepro.data.readers.archives import file_tree
from pflrepro.data.sets.types import DatasetSpec
from pflrepro.errors import CorruptFile

_MOST_IMAGES = 1_000_000
_EMNIST = "matlab/emnist-byclass.mat"
_EMNIST_LIMIT = 1 << 30  # bytes of the .mat file in the archive


def house_numbers(spec: DatasetSpec, paths: Mapping[str, Path]) -> Arrays:
    """SVHN's format 2 and its like: `X` uint8 [32, 32, 3, n] and `y` [n, 1] of a training and a test file; label 10 is digit 0.

    uint8 [N, 3, 32, 32] RGB.
    """
    parts = [_house_numbers(paths[role]) for role in ("train", "test")]
    return Arrays.of_parts(spec.name, parts, spec.class_names)


def _house_numbers(path: Path) -> tuple[np.ndarray, np.ndarray]:
    declared = {name: shape for name, shape, _ in _matlab(path, path, "whosmat")}
    for name, rank in (("X", 4), ("y", 2)):
        if name not in declared or len(declared[name]) != rank:
            raise CorruptFile(f"{path} is corrupt: it has no array {name!r} with {rank} axes")
    if declared["X"][:3] != (32, 32, 3) or declared["X"][3] > _MOST_IMAGES:
        raise CorruptFile(f"{path} is corrupt: 'X' has shape {declared['X']}, expected (32, 32, 3, images)")
    values = _matlab(path, path, "loadmat", variable_names=["X", "y"])
    x, y = values["X"], values["y"].reshape(-1)
    if x.dtype != np.uint8 or y.dtype.kind not in "uif":
        raise CorruptFile(f"{path} is corrupt: 'X' and 'y' have types {x.dtype} and {y.dtype}, not uint8 and numbers")
    if len(y) != x.shape[3]:
        raise CorruptFile(f"{path} is corrupt: it has {len(y):,} labels for {x.shape[3]:,} images")
    if not np.isin(y, np.arange(11)).all():
        raise CorruptFile(f"{path} is corrupt: 'y' has values other than 0..10")
    return np.ascontiguousarray(x.transpose(3, 2, 0, 1)), y.astype(np.int64) % 10


def emnist_by_class(spec: DatasetSpec, paths: Mapping[str, Path]) -> Arrays:
    """EMNIST "by class" with `group` = writer: uint8 [814255, 28, 28], the training rows first.

    The struct `dataset` has `train` and `test` with `images` [n, 784] (an image column by column), `labels` and `writers` [n, 1],
    and `mapping` [62, 2] from labels to character codes.
    """
    path = paths["archive"]
    with file_tree(path) as tree:
        content = io.BytesIO(tree.read(_EMNIST, _EMNIST_LIMIT))
    source = f"{path} ({_EMNIST})"
    dataset = _field(_matlab(content, source, "loadmat", variable_names=["dataset"]), "dataset", source)
    _check_mapping(spec, _field(dataset, "mapping", source), source)
    parts = [_characters(_field(dataset, part, source), f"{source}, {part}") for part in ("train", "test")]
    return Arrays.of_parts(spec.name, parts, spec.class_names)


def _characters(part: Any, source: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    images = _field(part, "images", source)
    labels, writers = (np.asarray(_field(part, name, source)).reshape(-1) for name in ("labels", "writers"))
    if images.ndim != 2 or images.shape[1] != 784 or images.dtype != np.uint8:
        raise CorruptFile(f"{source} is corrupt: images of shape {images.shape} and type {images.dtype}")
    for name, values in (("labels", labels), ("writers", writers)):
        if len(values) != len(images) or values.dtype.kind not in "uif" or (values != np.floor(values)).any():
            raise CorruptFile(f"{source} is corrupt: {len(values):,} {name} for {len(images):,} images, or no numbers")
    upright = images.reshape(-1, 28, 28).transpose(0, 2, 1)
    return np.ascontiguousarray(upright), labels.astype(np.int64), writers.astype(np.int64)


def _check_mapping(spec: DatasetSpec, mapping: Any, source: str) -> None:
    """Label k must stand for the k-th class name."""
    expected = [[label, ord(name)] for label, name in enumerate(spec.class_names)]
    if np.asarray(mapping).shape != (len(expected), 2) or np.asarray(mapping).tolist() != expected:
        raise CorruptFile(f"{source} is corrupt: its labels do not stand for the {len(expected)} characters")


def _field(value: Any, name: str, source: str) -> Any:
    """A field of a MATLAB struct (1 x 1), or a variable of a file."""
    try:
        found = value[name]
        if isinstance(found, np.ndarray) and found.dtype == object:
            found = found.reshape(-1)[0]
        if isinstance(found, np.ndarray) and found.dtype.names:
            found = found.reshape(-1)[0]
    except (KeyError, IndexError, ValueError, TypeError):
        raise CorruptFile(f"{source} is corrupt: it has no field {name!r}") from None
    return found


def _matlab(file: Any, source: str | Path, action: str, **options: Any) -> Any:
    """scipy's `loadmat` or `whosmat`; every way in which it stumbles over a damaged file is a `CorruptFile`."""
    stumbles = (*DAMAGE, MatReadError, AssertionError, AttributeError, IndexError, OverflowError, struct.error, Warning)
    try:
        return getattr(scipy.io, action)(file, **options)
    except FileNotFoundError:
        raise
    except stumbles as error:
        words = " ".join(str(error).split())[:200] or type(error).__name__
        raise CorruptFile(f"{source} is corrupt: {words}") from None
