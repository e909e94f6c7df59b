"""Partitions that are given: as counts, or row by row."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pflrepro.data.partitions.kind import Data, Spec
from pflrepro.errors import CorruptFile, UserError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
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
        return by_class(data.labels, sizes, data.seed), len(sizes), None


@dataclass(frozen=True)
class File(Spec):
    """Arrays `client` (-1 = unused) and `is_test`, one entry a row of the data set's array cache."""

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

        client, is_test = _read(Path(self.path), len(data.labels))
        rows = torch.from_numpy(client.astype(np.int64)).to(data.labels.device)
        return rows, int(client.max()) + 1, torch.from_numpy(is_test.astype(bool)).to(data.labels.device)


def _read(path: Path, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """`client` and `is_test` of a partition file, checked."""
    from pflrepro.data.arrays import read_members

    try:
        members = read_members(path, ("client", "is_test"))
    except FileNotFoundError:
        raise UserError(f"there is no partition file {path}") from None
    client, is_test = members["client"], members["is_test"]
    for key, values, kinds in (("client", client, "iu"), ("is_test", is_test, "biu")):
        if values.ndim != 1 or values.dtype.kind not in kinds:
            raise CorruptFile(f"{path}: '{key}' has dtype {values.dtype} and shape {values.shape}, not one entry a row")
        if len(values) != samples:
            raise CorruptFile(f"{path}: '{key}' has {len(values):,} entries; the data set has {samples:,} rows")
    if not np.isin(is_test, (0, 1)).all():
        raise CorruptFile(f"{path}: 'is_test' has values other than 0 and 1")
    low, high = int(client.min()), int(client.max())
    if low < -1 or high < 0 or high >= samples:
        raise CorruptFile(
            f"{path}: 'client' has values from {low} to {high}; expected -1 (unused) or 0 .. {samples - 1}"
        )
    return client, is_test
