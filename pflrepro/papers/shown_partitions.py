"""A partition of a figure: how a setting divides the samples among the clients, beside shipped reference counts where there are any.

The papers print pictures, no counts; so a reference is a published or validated count file, and agreement means equal counts.
PyTorch is loaded where samples are divided, not before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pflrepro.data.datasets import DATASETS, load_arrays
from pflrepro.data.heterogeneity import heterogeneity, selected_clients, total_variation
from pflrepro.data.partitions.parse import parse
from pflrepro.data.published import published_counts, published_summary
from pflrepro.errors import CorruptFile, UserError
from pflrepro.experiments.identity import data_fingerprint
from pflrepro.papers.availability import missing_data
from pflrepro.papers.counted import counted
from pflrepro.papers.result import DIFFERS, EQUAL, NOT_RUN, STAND_IN
from pflrepro.papers.settings import Setting

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

MEASURE = "mean total variation"
SELECTED = 4  # clients shown beside the global data
SEED = 1  # of every partition: the papers' data were made with it [LIB]; pFedFDA's seed is not known
NO_REFERENCE = "no reference"


@dataclass(frozen=True)
class ShownPartition:
    """A partition as it is declared.

    Attributes:
        reference: name of shipped counts, "" without.
        equal: the recipe needs the class sizes only, and all classes are equally large; else the labels of the data are read.
    """

    setting: Setting
    reference: str = ""
    equal: bool = True


@dataclass(frozen=True, eq=False)
class Panel:
    """A partition as it is drawn.

    Attributes:
        setting: the declared one, or its stand-in.
        counts: ours, int64 [clients, classes]; None where the data are not at hand, and then `lacking` says so.
        reference: the shipped counts, or None.
        origin: what they are.
        names: the clients' names.
        fingerprint: of the data behind the counts, "" where class sizes were enough.
    """

    label: str
    setting: Setting
    counts: np.ndarray | None
    reference: np.ndarray | None = None
    origin: str = NO_REFERENCE
    lacking: str = ""
    names: tuple[str, ...] = ()
    fingerprint: str = ""
    stand_in: bool = False

    @property
    def differences(self) -> np.ndarray | None:
        """Ours minus the reference, int64 [clients, classes]; None where one of them is missing."""
        return None if self.counts is None or self.reference is None else self.counts - self.reference

    @property
    def heterogeneity(self) -> float:
        """The mean total-variation distance between a client's label distribution and the pooled one; NaN without counts."""
        return math.nan if self.counts is None else heterogeneity(self.counts)

    @property
    def verdict(self) -> tuple[str, str]:
        """Verdict and reason."""
        if self.counts is None:
            return NOT_RUN, self.lacking
        if self.stand_in:
            return STAND_IN, ""
        if self.differences is None:
            return NO_REFERENCE, ""
        wrong = int((self.differences != 0).sum())
        return (DIFFERS, f"{wrong} of {self.differences.size} counts differ") if wrong else (EQUAL, "")

    @property
    def sizes(self) -> dict[str, str]:
        """What a table says of it: clients, classes, samples, how heterogeneous it is, and how many counts equal the reference."""
        names = ("clients", "classes", "samples", "samples a client", "classes a client", MEASURE)
        counts, differences = self.counts, self.differences
        known = {"reference": self.origin.split(":")[0]}
        known["equal counts"] = "" if differences is None else f"{(differences == 0).sum():,} of {differences.size:,}"
        if counts is None:
            return dict.fromkeys(names, "") | {"samples": self.lacking} | known
        sizes, present = counts.sum(1), (counts > 0).sum(1)
        values = (
            *(f"{len(counts):,}", f"{counts.shape[1]:,}", f"{counts.sum():,}"),
            f"{sizes.min():,} to {sizes.max():,}",
            f"{present.min()} to {present.max()}, mean {present.mean():.1f}",
            f"{self.heterogeneity:.3f}",
        )
        return dict(zip(names, values, strict=True)) | known

    def cells(self) -> pd.DataFrame:
        """Every count that is not zero in both: partition, client, class, samples, reference (empty: none)."""
        import pandas as pd

        reference = np.zeros_like(self.counts) if self.reference is None else self.reference
        client, label = np.nonzero(self.counts + reference)
        part = pd.DataFrame({"partition": self.label, "client": client, "class": label})
        part["samples"] = self.counts[client, label]
        known = [pd.NA] * len(part) if self.reference is None else reference[client, label]
        return part.assign(reference=pd.array(known, dtype="Int64"))

    def shares(self) -> dict[str, np.ndarray]:
        """Percent of the samples in each class: of all clients together, and of selected ones with their total variation."""
        counts, distances = self.counts, total_variation(self.counts)
        found = {f"all {len(counts)} clients": counts.sum(0) / counts.sum()}
        for client in selected_clients(counts, SELECTED):
            found[f"{self.names[client]} ({distances[client]:.2f})"] = counts[client] / counts[client].sum()
        return {name: 100.0 * values for name, values in found.items()}


def make_panel(shown: ShownPartition, stand_in: bool, data_root: str | Path | None) -> Panel:
    """The counts of a partition.

    Args:
        stand_in: what needs data is shown on small embedded ones.
    """
    stand_in = stand_in and not shown.equal
    setting = shown.setting.stand_in() if stand_in else shown.setting
    lacking = None if shown.equal else missing_data(setting.dataset, data_root)
    reference, origin = _reference("" if stand_in else shown.reference)
    if lacking is not None:
        return Panel(shown.setting.label, setting, None, reference, origin, lacking)
    counts, names, fingerprint = _counted(setting, shown.equal, data_root)
    if reference is not None and reference.shape != counts.shape:
        shapes = f"{reference.shape}, expected {counts.shape}"
        raise CorruptFile(f"the counts {shown.reference!r} have the shape {shapes}")
    found = {"names": names, "fingerprint": fingerprint, "stand_in": stand_in}
    return Panel(shown.setting.label, setting, counts, reference, origin, **found)


@lru_cache(maxsize=32)
def _counted(setting: Setting, equal: bool, data_root: str | Path | None) -> tuple[np.ndarray, tuple[str, ...], str]:
    """Counts [clients, classes], the clients' names, and the fingerprint of the data."""
    fingerprint = "" if equal else data_fingerprint(setting.dataset, data_root)
    key = f"{setting.dataset} {fingerprint or 'equal classes'} {setting.partition} {setting.clients}"
    counts, names = counted(key, lambda: _divided(setting, equal, data_root))
    return np.asarray(counts, dtype=np.int64), tuple(names), fingerprint


def _divided(setting: Setting, equal: bool, data_root: str | Path | None) -> tuple[list[list[int]], list[str]]:
    """Counts, a list a client, and the clients' names."""
    import torch

    from pflrepro.data.partition import partition

    spec, groups = DATASETS[setting.dataset], None
    if equal:
        labels = equal_classes(spec.samples, spec.classes)
    else:
        arrays = load_arrays(setting.dataset, data_root)
        labels, groups = torch.from_numpy(arrays.y), arrays.group
    parts = partition(setting.partition, labels, setting.clients, SEED, groups=groups)
    counts = parts.counts(classes=spec.classes).tolist()
    names = [f"client {number}" for number in range(len(counts))]
    if groups is not None and parse(setting.partition).kind == "group":
        names = [f"{spec.groups} {groups[rows[0]]}" for rows in parts.train]
    return counts, names


def equal_classes(samples: int, classes: int) -> Tensor:
    """Labels with equally many samples of every class: the recipes of label skew depend on the class sizes only."""
    import torch

    if samples % classes:
        raise UserError(f"{samples} samples cannot be equally many in {classes} classes")
    return torch.arange(classes).repeat_interleave(samples // classes)


def _reference(name: str) -> tuple[np.ndarray | None, str]:
    if not name:
        return None, NO_REFERENCE
    origin = next(row["provenance"] for row in published_summary() if row["partition"] == name)
    return published_counts(name), f"{name}: {origin}"
