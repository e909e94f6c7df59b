"""The idx files of MNIST and its kin."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pflrepro.data.arrays import Arrays
from pflrepro.data.sets.types import DatasetSpec
from pflrepro.errors import CorruptFile

LIMIT = 1 << 28  # bytes after decompression; the largest file read here has 47 MB
_UNSIGNED_BYTES = 0x08  # the idx type code of uint8


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """Read a gzip-compressed idx file of unsigned bytes with `dimensions` axes; returns uint8.

    The format: two zero bytes, the type code (0x08), the number of axes, each axis as a big-endian uint32, then the values.
    Never decompresses more than the header announces (plus one byte to notice what trails), nor more than `LIMIT` bytes.
    Raises `CorruptFile` for a wrong magic number, too few or too many values, damaged compression.
    """
    header_size = 4 + 4 * dimensions
    try:
        with gzip.open(path, "rb") as file:
            header = file.read(header_size)
            if len(header) < header_size:
                raise CorruptFile(f"{path} is corrupt: the idx header ends after {len(header)} bytes")
            magic, *shape = struct.unpack(f">{1 + dimensions}I", header)
            expected = (_UNSIGNED_BYTES << 8) | dimensions
            if magic != expected:
                raise CorruptFile(f"{path} is corrupt: magic number {magic}, expected {expected}")
            size = math.prod(shape)
            if size > LIMIT:
                raise CorruptFile(f"{path} is corrupt: its header announces {size:,} bytes, more than {LIMIT:,}")
            values = file.read(size + 1)
    except (OSError, EOFError, zlib.error) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise CorruptFile(f"{path} is corrupt: {error}") from None
    if len(values) != size:
        found = "trailing bytes" if len(values) > size else f"only {len(values):,}"
        raise CorruptFile(f"{path} is corrupt: expected {size:,} values, found {found}")
    return np.frombuffer(values, dtype=np.uint8).reshape(shape)


def images_and_labels(spec: DatasetSpec, paths: Mapping[str, Path]) -> Arrays:
    """Pool the four idx files of MNIST and its kin: the official training rows first, then the test rows.

    `paths` maps the roles train_images, train_labels, test_images, test_labels to files.
    """
    images = [read_idx(paths[f"{part}_images"], 3) for part in ("train", "test")]
    labels = [read_idx(paths[f"{part}_labels"], 1) for part in ("train", "test")]
    for part, x, y in zip(("train", "test"), images, labels, strict=True):
        if len(x) != len(y):
            raise CorruptFile(f"{paths[f'{part}_labels']} has {len(y):,} labels for {len(x):,} images")
    if images[0].shape[1:] != images[1].shape[1:]:
        raise CorruptFile(f"{paths['test_images']} has images of another size than {paths['train_images']}")
    parts = [(x, y.astype(np.int64)) for x, y in zip(images, labels, strict=True)]
    return Arrays.of_parts(spec.name, parts, spec.class_names)
