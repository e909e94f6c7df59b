"""The raw inertial signals of UCI's "Human Activity Recognition Using Smartphones": text files in a zip archive."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pflrepro.data.arrays import Arrays
from pflrepro.data.readers.archives import FileTree, file_tree
from pflrepro.data.sets.types import DatasetSpec
from pflrepro.errors import CorruptFile

STEPS = 128  # 2.56 s at 50 Hz; windows overlap by half
CHANNELS = tuple(f"{signal}_{axis}" for signal in ("body_acc", "body_gyro", "total_acc") for axis in "xyz")
_LIMIT = 50_000_000  # bytes of one text file; the largest has about 16 MB
_ACTIVITIES, _PEOPLE = 6, 30


def windows(spec: DatasetSpec, paths: Mapping[str, Path]) -> Arrays:
    """float32 [10299, 9, 1, 128], channels in the order of `CHANNELS` (g and rad/s); training rows first, group = person 1..30."""
    parts = []
    with file_tree(paths["archive"]) as tree:
        for part in ("train", "test"):
            signals = [_table(tree, f"{part}/Inertial Signals/{channel}_{part}.txt", STEPS) for channel in CHANNELS]
            numbers = [_numbers(tree, f"{part}/{name}_{part}.txt", high) for name, high in _COLUMNS]
            _same_length(paths["archive"], part, [*signals, *numbers])
            parts.append((np.stack(signals, axis=1)[:, :, None], *numbers))
    return Arrays.of_parts(spec.name, [(x, y - 1, person) for x, y, person in parts], spec.class_names)


_COLUMNS = (("y", _ACTIVITIES), ("subject", _PEOPLE))


def interleaved_windows(spec: DatasetSpec, paths: Mapping[str, Path]) -> Arrays:
    """The same numbers as PFLlib arranges them [LIB]: a window's [128 steps, 9 channels] read row by row as [9, 1, 128].

    So "channel" 0 holds the first 14 steps of all nine channels in turn. The papers were trained on this.
    """
    right = windows(spec, paths)
    x = np.ascontiguousarray(right.x[:, :, 0].transpose(0, 2, 1)).reshape(right.x.shape)
    return Arrays(spec.name, x, right.y, right.split, right.group, right.classes)


def _table(tree: FileTree, ending: str, columns: int) -> np.ndarray:
    """float32 [rows, columns] from the one file whose name ends so; numbers between white space."""
    name = _member(tree, ending)
    text = tree.read(name, _LIMIT)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # numpy only warns where a text breaks off
            values = np.fromstring(text, dtype=np.float64, sep=" ")
    except (ValueError, DeprecationWarning):
        raise CorruptFile(f"{name} is corrupt: it holds something that is not a number") from None
    lines = len(text.splitlines())
    if not len(values) or len(values) != lines * columns:
        raise CorruptFile(f"{name} is corrupt: {len(values):,} values on {lines:,} lines, expected {columns} on each")
    if not np.isfinite(values).all():
        raise CorruptFile(f"{name} is corrupt: it holds a value that is not finite")
    return values.reshape(-1, columns).astype(np.float32)


def _numbers(tree: FileTree, ending: str, high: int) -> np.ndarray:
    """Whole numbers 1 .. high, one a line."""
    values = _table(tree, ending, 1)[:, 0]
    if not np.isin(values, np.arange(1, high + 1)).all():
        raise CorruptFile(
            f"{_member(tree, ending)} is corrupt: it holds something else than whole numbers from 1 to {high}"
        )
    return values.astype(np.int64)


def _member(tree: FileTree, ending: str) -> str:
    pattern = re.compile(rf"(?:^|/){re.escape(ending)}$")
    found = [name for name in tree.names() if pattern.search(name) and "__MACOSX" not in name]
    if len(found) != 1:
        raise CorruptFile(f"the archive has {len(found)} files {ending}, expected one")
    return found[0]


def _same_length(path: Path, part: str, columns: list[np.ndarray]) -> None:
    lengths = sorted({len(column) for column in columns})
    if len(lengths) > 1:
        raise CorruptFile(
            f"{path} is corrupt: its {part} files have {lengths[0]:,} to {lengths[-1]:,} lines, expected equally many"
        )
