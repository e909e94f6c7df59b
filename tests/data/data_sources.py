"""Small idx files, and a data set made of them."""

from __future__ import annotations

import gzip
import hashlib
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np

from pflrepro.data.arrays import Arrays
from pflrepro.data.datasets import DATASETS, DatasetSpec, SourceFile
from pflrepro.data.readers.idx import images_and_labels

ROLES = ("train_images", "train_labels", "test_images", "test_labels")


def has_form(spec: DatasetSpec, arrays: Arrays) -> bool:
    """Whether a few made-up rows look like the data set's."""
    return arrays.shape == spec.shape and int(arrays.y.max()) < spec.classes


def idx_bytes(
    values: np.ndarray, *, magic: int | None = None, shape: tuple[int, ...] | None = None, tail: bytes = b""
) -> bytes:
    """An uncompressed idx file of unsigned bytes; the keywords falsify its header or its end."""
    shape = values.shape if shape is None else shape
    magic = 0x0800 | values.ndim if magic is None else magic
    return struct.pack(f">{1 + len(shape)}I", magic, *shape) + values.astype(np.uint8).tobytes() + tail


def tiny_sources(seed: int = 0) -> dict[str, bytes]:
    """The four compressed idx files of a data set with 30 + 10 images of 4x5 and 3 classes."""
    rng = np.random.default_rng(seed)
    parts = {}
    for part, count in (("train", 30), ("test", 10)):
        parts[f"{part}_images"] = idx_bytes(rng.integers(0, 256, (count, 4, 5)))
        parts[f"{part}_labels"] = idx_bytes(rng.integers(0, 3, count))
    return {f"{role}.gz": gzip.compress(parts[role], mtime=0) for role in ROLES}


def tiny_spec(sources: dict[str, bytes], *mirrors: str, **changes: object) -> DatasetSpec:
    """The spec of `tiny_sources`, with true checksums."""
    files = tuple(
        SourceFile(
            role,
            f"{role}.gz",
            len(sources[f"{role}.gz"]),
            sha256=hashlib.sha256(sources[f"{role}.gz"]).hexdigest(),
            md5=hashlib.md5(sources[f"{role}.gz"], usedforsecurity=False).hexdigest(),
        )
        for role in ROLES
    )
    return replace(
        DATASETS["mnist"],
        **{
            "name": "tiny",
            "shape": (4, 5),
            "samples": 40,
            "train_samples": 30,
            "class_names": ("a", "b", "c"),
            "fingerprint": None,
            "files": files,
            "mirrors": mirrors,
            **changes,
        },
    )


def decode(sources: dict[str, bytes], folder: Path) -> Arrays:
    """The arrays of `tiny_sources`, through files in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {}
    for role in ROLES:
        paths[role] = folder / f"{role}.gz"
        paths[role].write_bytes(sources[f"{role}.gz"])
    return images_and_labels(tiny_spec(sources), paths)
