"""FEMNIST as LEAF prepares it from NIST Special Database 19: JSON files with the samples of some writers each."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pflrepro.data.arrays import Arrays
from pflrepro.data.readers.archives import file_tree
from pflrepro.data.sets.types import DatasetSpec
from pflrepro.errors import CorruptFile

_LIMIT = 2_000_000_000  # bytes of one JSON file (100 writers)
_FILE = re.compile(r"(?:^|/)all_data_(\d+)\.json$")


def femnist(spec: DatasetSpec, paths: Mapping[str, Path]) -> Arrays:
    """uint8 [N, 28, 28] on white ground with `group` = writer, numbered in file order [FDA-code].

    The files all_data_<k>.json in the order of k, which counts from 0 and leaves out none: the first writers are those of the first
    files. Each has `users` and `user_data`: user -> `x`, 784 values in 0..1 a sample, and
    `y`, labels 0..61. Pixels are 255 * value, truncated [FDA-code]. All writers with samples are
    kept: the partition `group` leaves out those with too few.
    """
    folder = paths["writers"]
    images, labels, sizes = [], [], []
    users: dict[str, str] = {}
    with file_tree(folder) as tree:
        found = sorted((match for match in map(_FILE.search, tree.names()) if match), key=lambda match: int(match[1]))
        if not found:
            raise CorruptFile(f"{folder} has no files all_data_<number>.json")
        numbers = [int(match[1]) for match in found]
        odd = next((min(k, number) for k, number in enumerate(numbers) if number != k), None)
        if odd is not None:
            raise CorruptFile(f"{folder} must have one file all_data_<k>.json for each k from 0 on; look at k = {odd}")
        for match in found:
            source = f"{folder} ({match.string})"
            for user, samples in _users(tree.read(match.string, _LIMIT), source):
                if user in users:
                    raise CorruptFile(f"{source} has the writer {user}, who is in {users[user]} already")
                users[user] = match.string
                x, y = _writer(samples, f"{source}, writer {user}", spec.classes)
                if not len(y):
                    continue
                images.append(x)
                labels.append(y)
                sizes.append(len(y))
    if not sizes:
        raise CorruptFile(f"{folder} has no writer with samples")
    return Arrays(
        name=spec.name,
        x=np.concatenate(images).reshape(-1, *spec.shape),
        y=np.concatenate(labels),
        group=np.repeat(np.arange(len(sizes)), sizes),
        classes=np.array(spec.class_names),
    )


def _users(content: bytes, source: str) -> list[tuple[str, Any]]:
    try:
        values = json.loads(content)
        return [(str(user), values["user_data"][user]) for user in values["users"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        words = " ".join(str(error).split())[:120]
        raise CorruptFile(f"{source} is corrupt: it is no LEAF file ({words})") from None


def _writer(samples: Any, source: str, classes: int) -> tuple[np.ndarray, np.ndarray]:
    try:
        x, y = np.array(samples["x"], dtype=np.float64), np.array(samples["y"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFile(f"{source} is corrupt: {' '.join(str(error).split())[:120]}") from None
    if y.ndim != 1:
        raise CorruptFile(f"{source} is corrupt: its labels are no list")
    if not len(y) and not x.size:
        return np.zeros((0, 784), np.uint8), np.zeros(0, np.int64)
    if x.ndim != 2 or x.shape != (len(y), 784) or not ((x >= 0) & (x <= 1)).all():
        raise CorruptFile(f"{source} is corrupt: its samples are not 784 values in 0..1 for each of {len(y)} labels")
    if y.dtype.kind not in "iu" or y.min() < 0 or y.max() >= classes:
        raise CorruptFile(f"{source} is corrupt: its labels are not whole numbers in 0..{classes - 1}")
    return (255 * x).astype(np.uint8), y.astype(np.int64)
