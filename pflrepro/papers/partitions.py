"""Figures of partitions: samples a client and class by each column's recipe, beside shipped reference counts where there are any.

The papers print pictures, no counts; so a reference is a published or validated count file, and agreement means equal counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pflrepro.errors import CorruptFile, MissingData, UserError
from pflrepro.papers.artefact import Artefact, Column, Scale
from pflrepro.papers.comparing import FRAME_COLUMNS, Result
from pflrepro.papers.verdicts import DIFFERS, EQUAL, NOT_RUN, STAND_IN, is_stand_in

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import torch

SEED = 1  # of every partition: the papers' data were made with it [LIB]; pFedFDA's seed is not known
MEASURE = "mean total variation"
SELECTED = 4  # clients shown beside the global data
NO_REFERENCE = "no reference"
VERDICTS = {
    EQUAL: "every count equals the shipped reference (the paper prints a picture only)",
    DIFFERS: "some counts differ from the shipped reference",
    NO_REFERENCE: "no counts are known to compare with (the paper prints a picture only)",
    STAND_IN: "small stand-in data: not comparable with the paper",
    NOT_RUN: "the data are not at hand",
}


@dataclass(frozen=True, eq=False)
class Panel:
    """One partition of a figure.

    column: as it is drawn at the scale (a stand-in, where the scale has one). counts: ours, int64 [clients, classes]; None where the
    data are not at hand, and then `lacking` says so. reference: the shipped counts, or None; origin: what they are. names: the
    clients' names. fingerprint: of the data behind the counts, "" where class sizes were enough.
    """

    column: Column
    counts: np.ndarray | None
    reference: np.ndarray | None
    origin: str
    lacking: str = ""
    names: tuple[str, ...] = ()
    fingerprint: str = ""

    @property
    def differences(self) -> np.ndarray | None:
        """Ours minus the reference, int64 [clients, classes]; None where one of them is missing."""
        return None if self.counts is None or self.reference is None else self.counts - self.reference

    @property
    def heterogeneity(self) -> float:
        """The mean total-variation distance between a client's label distribution and the pooled one; NaN without counts."""
        from pflrepro.data.heterogeneity import heterogeneity

        return math.nan if self.counts is None else heterogeneity(self.counts)


@dataclass(frozen=True, eq=False)
class Ordering:
    """A claim that one partition is more heterogeneous than another, on one draw of each."""

    more: Panel
    less: Panel
    source: str

    @property
    def difference(self) -> float:
        """The difference of the mean total-variation distances."""
        return self.more.heterogeneity - self.less.heterogeneity

    @property
    def outcome(self) -> str:
        return "kept" if self.difference > 0 else "broken" if self.difference < 0 else "undecided"


@dataclass(frozen=True)
class PartitionResult(Result):
    """The partitions of a figure; `frame` has one line a partition: `ours` all its samples, `difference` the largest one of a count."""

    panels: tuple[Panel, ...] = ()
    orderings: tuple[Ordering, ...] = ()

    @property
    def drawn(self) -> tuple[Panel, ...]:
        """The partitions whose counts are known; `MissingData` if there is none."""
        known = tuple(panel for panel in self.panels if panel.counts is not None)
        if known:
            return known
        stand_ins = [scale.name for scale in self.artefact.scales if is_stand_in(scale)]
        offline = f"; offline works: --scale {stand_ins[0]}" if stand_ins else ""
        raise MissingData(f"{self.artefact.id} at scale {self.scale.name}: {self.panels[0].lacking}{offline}")

    def _repr_html_(self) -> str:
        return table(self).to_html(index=False)


def partition_result(artefact: Artefact, scale: Scale, data_root: str | Path | None = None) -> PartitionResult:
    """Every partition of the artefact, compared with its reference; data that are not at hand leave theirs `not run`."""
    import pandas as pd

    columns = [run_as for column in artefact.columns if (run_as := scale.column(column)) is not None]
    panels = tuple(make_panel(column, data_root) for column in columns)
    claims = () if is_stand_in(scale) else _orderings(artefact, panels)
    frame = pd.DataFrame([_line(artefact, scale, panel) for panel in panels], columns=list(FRAME_COLUMNS))
    return PartitionResult(artefact, scale, frame, panels=panels, orderings=claims)


def make_panel(column: Column, data_root: str | Path | None = None) -> Panel:
    """The counts of a column's partition, by its recipe on class sizes alone or on the labels of its data set."""
    import numpy as np

    from pflrepro.data.datasets import DATASETS
    from pflrepro.data.partition import partition
    from pflrepro.papers.availability import missing_data

    spec = DATASETS[column.dataset]
    reference, origin = _reference(column)
    lacking = None if column.equal_classes else missing_data(column.dataset, data_root)
    if lacking is not None:
        return Panel(column, None, reference, origin, lacking)
    if column.equal_classes:
        labels, groups, fingerprint = equal_classes(column.samples, spec.classes), None, ""
    else:
        labels, groups, fingerprint = _labels(column.dataset, data_root)
    parts = partition(column.partition, labels, column.clients, SEED, groups=groups)
    counts = np.asarray(parts.counts(classes=spec.classes), dtype=np.int64)
    if reference is not None and reference.shape != counts.shape:
        raise CorruptFile(f"the counts {column.counts!r} have the shape {reference.shape}, expected {counts.shape}")
    if groups is not None and column.partition == "group":
        names = tuple(f"{spec.groups} {groups[rows[0]]}" for rows in parts.train)
    else:
        names = tuple(f"client {number}" for number in range(len(counts)))
    return Panel(column, counts, reference, origin, names=names, fingerprint=fingerprint)


def equal_classes(samples: int, classes: int) -> torch.Tensor:
    """Labels with equally many samples of every class: the recipes of label skew depend on the class sizes only."""
    import torch

    if samples % classes:
        raise UserError(f"{samples} samples cannot be equally many in {classes} classes")
    return torch.arange(classes).repeat_interleave(samples // classes)


def _labels(dataset: str, data_root: str | Path | None) -> tuple[torch.Tensor, np.ndarray | None, str]:
    import torch

    from pflrepro.data.datasets import load_arrays

    arrays = load_arrays(dataset, data_root)
    return torch.from_numpy(arrays.y), arrays.group, arrays.fingerprint()


def _reference(column: Column) -> tuple[np.ndarray | None, str]:
    from pflrepro.data.published import published_counts, published_summary

    if not column.counts:
        return None, "no reference"
    origin = next(row["provenance"] for row in published_summary() if row["partition"] == column.counts)
    return published_counts(column.counts), f"{column.counts}: {origin}"


def _orderings(artefact: Artefact, panels: tuple[Panel, ...]) -> tuple[Ordering, ...]:
    """The claims whose two partitions are known, decided by the sign of the difference."""
    known = {panel.column.key: panel for panel in panels if panel.counts is not None}
    return tuple(
        Ordering(known[claim.better], known[claim.worse], claim.source)
        for claim in artefact.claims
        if {claim.better, claim.worse} <= known.keys()
    )


def _line(artefact: Artefact, scale: Scale, panel: Panel) -> dict[str, Any]:
    """The frame's line of one partition."""
    differences, column = panel.differences, panel.column
    total = math.nan if panel.counts is None else float(panel.counts.sum())
    verdict, reason = _judged(panel, is_stand_in(scale))
    return {
        "artefact": artefact.id,
        "row": column.label,
        "algorithm": column.partition,
        "column": "samples a client and class",
        "dataset": column.dataset,
        "model": "",
        "published": math.nan,
        "published_std": math.nan,
        "source": panel.origin,
        "ours": total,
        "spread": 0.0,
        "low": math.nan,
        "high": math.nan,
        "interval": "",
        "difference": math.nan if differences is None else float(differences.flat[abs(differences).argmax()]),
        "tolerance": 0.0,
        "n": int(panel.counts is not None),
        "scale": scale.name,
        "rounds": 0,
        "selection": artefact.selection,
        "verdict": verdict,
        "reason": reason,
    }


def _judged(panel: Panel, stand_in: bool) -> tuple[str, str]:
    """Verdict and reason."""
    if panel.counts is None:
        return NOT_RUN, panel.lacking
    if stand_in:
        return STAND_IN, ""
    if panel.differences is None:
        return NO_REFERENCE, ""
    wrong = int((panel.differences != 0).sum())
    return (DIFFERS, f"{wrong} of {panel.differences.size} counts differ") if wrong else (EQUAL, "")


def orderings(result: PartitionResult) -> pd.DataFrame:
    """One line a claimed ordering, as texts: which partition is said to be the more heterogeneous, and whether ours is."""
    import pandas as pd

    return pd.DataFrame(
        [
            {
                "claimed": f"{claim.more.column.label} > {claim.less.column.label}",
                MEASURE: f"{claim.more.heterogeneity:.3f}, {claim.less.heterogeneity:.3f}",
                "ours, difference": f"{claim.difference:+.3f}",
                "outcome": claim.outcome,
                "source": claim.source,
            }
            for claim in result.orderings
        ]
    )


def table(result: PartitionResult) -> pd.DataFrame:
    """One line a partition, as texts: sizes, classes a client, heterogeneity, and how many counts equal the reference."""
    import pandas as pd

    return pd.DataFrame(
        [
            {"partition": panel.column.label, "recipe": panel.column.partition}
            | _sizes(panel)
            | {"reference": panel.origin.split(":")[0], "equal counts": _equal(panel), "verdict": verdict}
            for panel, verdict in zip(result.panels, result.frame["verdict"], strict=True)
        ]
    )


def _sizes(panel: Panel) -> dict[str, str]:
    names = ("clients", "classes", "samples", "samples a client", "classes a client", MEASURE)
    counts = panel.counts
    if counts is None:
        return dict.fromkeys(names, "") | {"samples": panel.lacking}
    sizes, held = counts.sum(1), (counts > 0).sum(1)
    values = (
        *(f"{len(counts):,}", f"{counts.shape[1]:,}", f"{counts.sum():,}"),
        f"{sizes.min():,} to {sizes.max():,}",
        f"{held.min()} to {held.max()}, mean {held.mean():.1f}",
        f"{panel.heterogeneity:.3f}",
    )
    return dict(zip(names, values, strict=True))


def _equal(panel: Panel) -> str:
    differences = panel.differences
    return "" if differences is None else f"{(differences == 0).sum():,} of {differences.size:,}"


def cells(result: PartitionResult) -> pd.DataFrame:
    """Every count of the drawn partitions that is not zero in both: partition, client, class, samples, reference (empty: none)."""
    import numpy as np
    import pandas as pd

    parts = []
    for panel in result.panels:
        if panel.counts is None:
            continue
        reference = np.zeros_like(panel.counts) if panel.reference is None else panel.reference
        client, label = np.nonzero(panel.counts + reference)
        columns = {"partition": panel.column.key, "client": client, "class": label}
        part = pd.DataFrame(columns | {"samples": panel.counts[client, label]})
        known = panel.reference is not None
        part["reference"] = pd.array(reference[client, label] if known else [pd.NA] * len(part), dtype="Int64")
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def selected_clients(counts: np.ndarray, number: int = SELECTED) -> list[int]:
    """Clients from the nearest to the global label distribution to the farthest, at about even steps of total variation.

    Example:
        >>> import numpy as np
        >>> selected_clients(np.array([[5, 5], [10, 0], [9, 1], [6, 4], [0, 10]]), 3)
        [3, 2, 4]
    """
    import numpy as np

    from pflrepro.data.heterogeneity import total_variation

    distances = total_variation(counts)
    left = np.flatnonzero(~np.isnan(distances)).tolist()
    chosen = []
    for target in np.linspace(np.nanmin(distances), np.nanmax(distances), min(number, len(left))):
        nearest = min(left, key=lambda client: abs(distances[client] - target))
        left.remove(nearest)
        chosen.append(nearest)
    return sorted(chosen, key=lambda client: distances[client])


def shares(panel: Panel) -> pd.DataFrame:
    """Percent of the samples in each class: of all clients together, and of the selected ones with their total variation."""
    import pandas as pd

    from pflrepro.data.datasets import DATASETS
    from pflrepro.data.heterogeneity import total_variation

    counts, distances = panel.counts, total_variation(panel.counts)
    columns = {f"all {len(counts)} clients": counts.sum(0) / counts.sum()}
    for client in selected_clients(counts):
        columns[f"{panel.names[client]} ({distances[client]:.2f})"] = counts[client] / counts[client].sum()
    names = DATASETS[panel.column.dataset].class_names
    return pd.DataFrame(columns, index=pd.Index(names, name="class")) * 100.0
