"""USPS as LIBSVM distributes it: bzip2-compressed text, one digit a line."""

from __future__ import annotations

import bz2
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pflrepro.data.arrays import Arrays
from pflrepro.data.sets.types import DatasetSpec
from pflrepro.errors import CorruptFile

_PIXELS = 256
_LIMIT = 100_000_000  # bytes after decompression; the training file has about 20 MB


def usps(spec: DatasetSpec, paths: Mapping[str, Path]) -> Arrays:
    """float32 [9298, 16, 16], grey values -1 .. 1 with the originals' three decimals; training rows first."""
    parts = [_digits(paths[role]) for role in ("train", "test")]
    return Arrays.of_parts(spec.name, parts, spec.class_names)


def _digits(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Lines `label 1:value ... 256:value` with labels 1..10 for the digits 0..9; a pixel that is left out is 0."""
    try:
        with bz2.open(path, "rb") as stream:
            content = stream.read(_LIMIT + 1)
    except FileNotFoundError:
        raise
    except (OSError, EOFError, ValueError) as error:
        raise CorruptFile(f"{path} is corrupt: {error}") from None
    if len(content) > _LIMIT:
        raise CorruptFile(f"{path} is corrupt: it unpacks to more than {_LIMIT:,} bytes")
    lines = [line.split() for line in content.splitlines() if line.strip()]
    if not lines:
        raise CorruptFile(f"{path} is corrupt: it is empty")
    grey, labels = np.zeros((len(lines), _PIXELS)), np.zeros(len(lines), dtype=np.int64)
    for number, fields in enumerate(lines):
        try:
            labels[number] = int(fields[0])
            positions, values = zip(*(field.split(b":") for field in fields[1:]), strict=True)
            columns = np.array(positions, dtype=np.int64)
            grey[number, columns - 1] = np.array(values, dtype=np.float64)
        except (ValueError, IndexError):
            raise CorruptFile(f"{path} is corrupt: line {number + 1} is no label with numbered values") from None
        if columns.min() < 1 or not 1 <= labels[number] <= 10:
            raise CorruptFile(f"{path} is corrupt: line {number + 1} has a label or position out of range")
    if not (np.abs(grey) <= 1).all():
        raise CorruptFile(f"{path} is corrupt: it has grey values outside -1..1")
    return np.rint(grey * 1000).astype(np.float32).reshape(-1, 16, 16) / 1000, labels - 1
