"""Partition: a pure function (labels or groups, specification, seed) -> row numbers of each client's training and test part.

Randomness is drawn on the host from keyed streams of the partition's own seed; sorting and gathering run on the labels' device, so
that a CPU and a GPU give the same partition bit for bit. The kinds are listed in `PARTITIONS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pflrepro.atomic import replacing
from pflrepro.data.partitions.dividing import divide
from pflrepro.data.partitions.kind import Data, Spec
from pflrepro.data.partitions.parse import PARTITIONS, parse
from pflrepro.data.partitions.rows import as_integers
from pflrepro.data.picture import counts_html, plot_counts
from pflrepro.errors import UserError, check_range, refuse_ids

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PARTITIONS", "Partition", "partition"]


@dataclass(frozen=True, eq=False)
class Partition:
    """Row numbers (int64, on the labels' device) of each client's training part and test part; all are disjoint.

    The papers' own recipes keep the order of the papers' files; all other kinds list rows in ascending order. A partition with labels
    shows itself with its class counts.

    Attributes:
        labels: int64 [n] of the divided data set, where they are known.
        spec: the specification's text, where it is known.
    """

    train: Sequence[Tensor]
    test: Sequence[Tensor]
    labels: Tensor | None = None
    spec: str = ""

    @property
    def clients(self) -> int:
        return len(self.train)

    def sizes(self) -> list[int]:
        """Samples (training + test) of each client."""
        return [len(train) + len(test) for train, test in zip(self.train, self.test, strict=True)]

    def counts(self, labels: Tensor | None = None, classes: int | None = None) -> Tensor:
        """Samples (training + test) of each client and class: int64 [N, C]; C defaults to the largest label + 1.

        Args:
            labels: of the data set, by default the partition's own; `UserError` if it has none.
        """
        labels = self.labels if labels is None else labels
        if labels is None:
            raise UserError("this partition does not know its labels; give them to counts(labels)")
        classes = int(labels.max()) + 1 if classes is None else classes
        rows = torch.cat([*self.train, *self.test])
        owner = torch.arange(self.clients, device=rows.device)
        sizes = torch.tensor([len(part) for part in (*self.train, *self.test)], device=rows.device)
        cells = owner.repeat(2).repeat_interleave(sizes) * classes + labels[rows]
        return torch.bincount(cells, minlength=self.clients * classes).view(self.clients, classes)

    def assignment(self, samples: int) -> tuple[Tensor, Tensor]:
        """The same partition row by row: `client` int64 [samples] (-1 = unused) and `is_test` bool [samples]."""
        device = self.train[0].device
        client = torch.full((samples,), -1, dtype=torch.int64, device=device)
        is_test = torch.zeros(samples, dtype=torch.bool, device=device)
        for number, (train, test) in enumerate(zip(self.train, self.test, strict=True)):
            client[train], client[test], is_test[test] = number, number, True
        return client, is_test

    def save(self, path: str | Path, samples: int) -> None:
        """Write the row-by-row form as an npz file that `file:PATH` reads (atomic); `samples` is the length of the data set."""
        client, is_test = self.assignment(samples)
        with replacing(Path(path)) as file:
            np.savez_compressed(file, client=client.cpu().numpy(), is_test=is_test.cpu().numpy())

    def __repr__(self) -> str:
        sizes = self.sizes()
        return (
            f"Partition({self.spec or 'given rows'}: {self.clients} clients, {sum(sizes):,} samples "
            f"({min(sizes):,}..{max(sizes):,} a client))"
        )

    def _repr_html_(self) -> str:
        if self.labels is None:
            return f"<code>{escape(repr(self))}</code>"
        sizes = {"training": [len(part) for part in self.train], "test": [len(part) for part in self.test]}
        return counts_html(self.spec, self.counts().cpu().numpy(), sizes)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Bubbles of samples per client and class, training and test together; the area is proportional to the samples."""
        return plot_counts(self.counts().cpu().numpy(), ax, self.spec)


def partition(
    spec: str | Spec,
    labels: Tensor,
    clients: int | None = None,
    seed: int = 1,
    *,
    groups: Any = None,
    min_size: int | None = None,
    test_share: float = 0.25,
) -> Partition:
    """Divide a data set among clients, and each client's samples into a training and a test part.

    With an option such as "+of=50" the data are divided among 50 clients, and `clients` of these are returned; min_size is that of
    the 50. With "+of=all" they are chosen from as many as the data have (group, group-classes, counts, file). Clients that join
    later are `new_clients` of `pflrepro.data.partitions.parse`.

    Raises `UserError` for an impossible request, at the latest after 1,000 draws (pFedFDA's kinds: 50,000).

    A client with a single sample would have nothing to train on: it is an error too unless min_size is 0 (or the split a file's).

    Args:
        labels: int64 [n], on any device.
        clients: N; None where the specification itself tells it (counts, group, group-classes, file).
        seed: of the partition, apart from any run's seed.
        groups: [n], needed by the kinds that start with `group`.
        min_size: smallest total (training + test) of a client; default 40 for label skew by classes [LIB-era], 63 for pFedFDA's, 1
            else; 0 allows empty clients. For pfllib-pathological it enters the sizes' lower bound; a given partition (counts,
            group, group-classes, file) is taken as it is, without empty clients unless min_size is 0.
        test_share: floor((1 - test_share) n_i) samples of client i are training samples, with "+stratified" nearly so in each of
            its classes, a single one of a class being a training sample; a `file` brings its own split.

    Example:
        >>> parts = partition("pathological:2", torch.arange(100) % 10, clients=5, seed=1, min_size=1)
        >>> parts.counts().gt(0).sum(1).tolist()  # classes of each client
        [2, 2, 2, 2, 2]
    """
    spec = parse(spec)
    labels = _checked_labels(labels)
    if clients is not None:
        clients = check_range("clients", clients, 1, integer=True)
    seed = check_range("partition seed", seed, 0, integer=True)
    min_size = spec.default_min_size if min_size is None else check_range("min_size", min_size, 0, integer=True)
    if check_range("test_share", test_share, 0, 1) == 1:
        raise UserError("test_share must be >= 0 and < 1, not 1")
    if groups is not None:
        groups = as_integers("groups", groups, labels.device)
    train, test = divide(spec, Data(labels, groups, clients, seed, min_size, float(test_share)))
    return Partition(train=train, test=test, labels=labels, spec=str(spec))


def _checked_labels(labels: Any) -> torch.Tensor:
    labels = as_integers("labels", labels, None)
    if not len(labels):
        raise UserError("cannot divide an empty data set")
    if int(labels.min()) < 0:
        raise UserError(f"labels must be >= 0, not {int(labels.min())}")
    refuse_ids(int(labels.max()), len(labels))
    return labels
