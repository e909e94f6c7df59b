"""Partitions that are given: as counts, or row by row."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pflrepro.data.partitions.kind import Data, Spec
from pflrepro.errors import CorruptFile, UserError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, repr=False)
class Counts(Spec):
    """Replay given client x class counts (a published partition, or client,label,count rows)."""

    kind: ClassVar[str] = "counts"
    own_minimum: ClassVar[bool] = True
    counted: ClassVar[bool] = True
    source: str  # the name of a published partition, or the path of a csv file

    @classmethod
    def form(cls) -> str:
        return "counts:NAME or counts:FILE.csv"

    @property
    def is_file(self) -> bool:
        return self.source.endswith(".csv") or "/" in self.source or "\\" in self.source

    @property
    def value(self) -> str:
        return self.source

    def owners(self, data: Data) -> tuple[Tensor, int, Tensor | None]:
        from pflrepro.data.partitions.rows import by_class
        from pflrepro.data.published import published_counts, read_counts

        sizes = read_counts(self.source) if self.is_file else published_counts(self.source)
        if len(sizes) > len(data.labels):
            raise UserError(
                f"{self.source} names client {len(sizes) - 1}, but the data set has {len(data.labels):,} samples: clients count from 0"
            )
        return by_class(data.labels, sizes, data.seed), len(sizes), None


@dataclass(frozen=True, repr=False)
class File(Spec):
    """Arrays `client` (-1 = unused) and `is_test`, one entry a row of the data set's array cache.

    `Partition.save` writes such a file.
    """

    kind: ClassVar[str] = "file"
    counted: ClassVar[bool] = True
    own_rows: ClassVar[bool] = True
    path: str

    @classmethod
    def form(cls) -> str:
        return "file:FILE.npz"

    @property
    def value(self) -> str:
        return self.path

    def owners(self, data: Data) -> tuple[Tensor, int, Tensor | None]:
        import torch

        client, is_test = _fitting(Path(self.path), len(data.labels))
        rows = torch.from_numpy(client.astype(np.int64)).to(data.labels.device)
        return rows, int(client.max()) + 1, torch.from_numpy(is_test.astype(bool)).to(data.labels.device)


def read_rows(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """`client` (whole numbers) and `is_test` (0 and 1, or booleans) of a partition file, one entry a row, as they are there.

    `UserError` where there is no such file, `CorruptFile` for arrays of anything else.
    """
    from pflrepro.data.arrays import read_members

    path = Path(os.path.expanduser(path))  # which leaves the ~ of nobody as it is
    try:
        members = read_members(path, ("client", "is_test"))
    except FileNotFoundError:
        raise UserError(f"there is no partition file {path}") from None
    client, is_test = members["client"], members["is_test"]
    for key, values, kinds in (("client", client, "iu"), ("is_test", is_test, "biu")):
        if values.ndim != 1 or values.dtype.kind not in kinds:
            raise CorruptFile(
                f"{path}: '{key}' has dtype {values.dtype} and shape {values.shape}, not one whole number a row"
            )
    if not np.isin(is_test, (0, 1)).all():
        raise CorruptFile(f"{path}: 'is_test' has values other than 0 and 1")
    return client, is_test


def _fitting(path: Path, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """`read_rows`, for a data set of so many samples."""
    client, is_test = read_rows(path)
    for key, values in (("client", client), ("is_test", is_test)):
        if len(values) != samples:
            raise CorruptFile(f"{path}: '{key}' has {len(values):,} entries; the data set has {samples:,} rows")
    low, high = int(client.min()), int(client.max())
    if low < -1 or high < 0 or high >= samples:
        raise CorruptFile(
            f"{path}: 'client' has values from {low} to {high}; expected -1 (unused) or 0 .. {samples - 1}"
        )
    return client, is_test
