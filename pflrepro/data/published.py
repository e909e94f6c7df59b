"""The published client x class counts, shipped with the package, and the reader of such tables.

`fmnist_dir0.1_n20` and `mnist_dir0.1_n20` are official published partitions; the others were computed with the papers' recipe
(`partitions/pfllib.py`), which reproduces those two sample by sample. Names: data set, `dir` alpha or `pat` labels a client, `n`
clients.
"""

from __future__ import annotations

import csv
import os
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pflrepro.errors import CorruptFile, UserError, unknown

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


HEADER = ["client", "label", "count"]
_CELLS = 10_000_000  # a larger client x class table is a mistake


def published_names() -> list[str]:
    """The names of the shipped partitions, sorted."""
    names = (entry.name for entry in _folder().iterdir())
    return sorted(name.removesuffix(".csv") for name in names if name.endswith(".csv") and name != "summary.csv")


def published_counts(name: str) -> np.ndarray:
    """The counts of a shipped partition, int64 [clients, classes]; raises `UserError` that lists the names."""
    if name not in published_names():
        raise unknown("published partition", name, published_names())
    return _counts(_folder() / f"{name}.csv", f"{name}.csv")


def published_summary() -> list[dict[str, Any]]:
    """One row a client of every shipped partition: partition, client, samples, train, test, labels_present, provenance."""
    with (_folder() / "summary.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    whole = ("client", "samples", "train", "test", "labels_present")
    return [row | {key: int(row[key]) for key in whole} for row in rows]


def read_counts(path: str | Path) -> np.ndarray:
    """Client x class counts from a csv file with the columns client,label,count; int64 [clients, classes].

    Pairs that are not listed count zero; clients and classes reach up to the largest number named. Raises `UserError` if there is
    no such file, `CorruptFile` (with the line) for anything but whole numbers >= 0, each pair once.
    """
    return _counts(Path(os.path.expanduser(path)), str(path))


def _folder() -> Traversable:
    return files("pflrepro.data") / "published_partitions"


def _counts(source: Traversable, name: str) -> np.ndarray:
    counts: dict[tuple[int, int], int] = {}
    try:
        with source.open(encoding="utf-8", newline="") as stream:
            rows = csv.reader(stream)
            if next(rows, None) != HEADER:
                raise CorruptFile(f"{name} is not a table of counts: its first line must be {','.join(HEADER)}")
            for row in rows:
                client, label, count = _whole(name, rows.line_num, row)
                if (client, label) in counts:
                    raise CorruptFile(f"{name}, line {rows.line_num}: client {client}, label {label} occurs twice")
                counts[client, label] = count
    except FileNotFoundError:
        raise UserError(f"there is no table of counts {name}") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise CorruptFile(f"cannot read the table of counts {name}: {error}") from None
    if not any(counts.values()):
        raise CorruptFile(f"{name} counts no sample")
    clients, classes = (max(pair[axis] for pair in counts) + 1 for axis in (0, 1))
    if clients * classes > _CELLS:
        raise CorruptFile(f"{name} names client {clients - 1} and label {classes - 1}: more than {_CELLS:,} cells")
    table = np.zeros((clients, classes), dtype=np.int64)
    for pair, count in counts.items():
        table[pair] = count
    return table


def _whole(name: str, line: int, row: list[str]) -> list[int]:
    if len(row) == len(HEADER) and all(cell.strip().isdecimal() and len(cell) < 16 for cell in row):
        return [int(cell) for cell in row]
    raise CorruptFile(f"{name}, line {line}: expected three whole numbers >= 0, found {','.join(row)[:60]!r}")
