"""Figures of partitions: samples a client and class, which of them is the more heterogeneous, shares of the classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pflrepro.data.datasets import DATASETS
from pflrepro.errors import unknown
from pflrepro.papers.judging import BROKEN, KEPT, UNDECIDED
from pflrepro.papers.result import DIFFERS, EQUAL, NOT_RUN, STAND_IN, marked
from pflrepro.papers.shown_partitions import MEASURE, NO_REFERENCE, SEED, Panel, ShownPartition, make_panel
from pflrepro.papers.views.exact import line
from pflrepro.papers.views.view import Shown
from pflrepro.viz.bars import share_figure
from pflrepro.viz.counts import count_figure

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

VERDICTS = {
    EQUAL: "every count equals the shipped reference (the paper prints a picture only)",
    DIFFERS: "some counts differ from the shipped reference",
    NO_REFERENCE: "no counts are known to compare with (the paper prints a picture only)",
    STAND_IN: "small stand-in data: not comparable with the paper",
    NOT_RUN: "the data are not at hand",
}


@dataclass(frozen=True)
class Counts(Shown):
    """Partitions.

    Attributes:
        partitions: one panel each.
        orderings: (label, label, source): the first partition is claimed to be the more heterogeneous, by the mean total variation
            of its clients; one draw of each, so the sign decides.
        shares: the classes of all clients together and of selected ones as bars are the main picture, of the first partition.
    """

    partitions: tuple[ShownPartition, ...]
    orderings: tuple[tuple[str, str, str], ...] = ()
    shares: bool = False
    name: str = ""
    of_cells: ClassVar = False

    def __post_init__(self) -> None:
        labels = [each.setting.label for each in self.partitions]
        for label in (label for claim in self.orderings for label in claim[:2] if label not in labels):
            raise unknown("partition", label, labels)

    def panels(self, study: Any) -> list[Panel]:
        """The partitions at the study's scale."""
        return [make_panel(each, study.scale.stand_in, study.data_root) for each in self.partitions]

    def table(self, study: Any) -> pd.DataFrame:
        """One line a partition, as texts: sizes, classes a client, heterogeneity, and how many counts equal the reference."""
        import pandas as pd

        return pd.DataFrame(
            {"partition": panel.label, "recipe": panel.setting.partition}
            | panel.sizes
            | {"verdict": marked(panel.verdict[0])}
            for panel in self.panels(study)
        )

    def figures(self, study: Any) -> dict[str, Figure]:
        """Nothing where the data of no partition are at hand."""
        panels = self.panels(study)
        if all(panel.counts is None for panel in panels):
            return {}
        drawn = count_figure([(panel.label, panel.counts, panel.lacking) for panel in panels])
        if not self.shares or panels[0].counts is None:
            return {self.name: drawn}
        names = DATASETS[panels[0].setting.dataset].class_names
        return {
            self.name: share_figure(panels[0].shares(), names, "samples (%)", compared=True),
            f"{self.name}-counts".strip("-"): drawn,
        }

    def frame(self, study: Any) -> pd.DataFrame | None:
        """Every count that is not zero in both: partition, client, class, samples, reference (empty: none)."""
        import pandas as pd

        parts = [panel.cells() for panel in self.panels(study) if panel.counts is not None]
        return pd.concat(parts, ignore_index=True) if parts else None

    def judged(self, study: Any) -> list[dict[str, Any]]:
        """One line of the frame of cells a partition: `ours` all its samples, `difference` the largest one of a count."""
        return [_line(study, panel) for panel in self.panels(study)]

    def notes(self, study: Any) -> list[str]:
        panels = {panel.label: panel for panel in self.panels(study)}
        there = [panel.verdict[0] for panel in panels.values()]
        said = [f"{marked(verdict)}: {VERDICTS[verdict]}." for verdict in VERDICTS if verdict in there]
        said += [f"reference {panel.origin}." for panel in panels.values() if panel.reference is not None]
        prints = ", ".join(f"{p.setting.dataset} {p.fingerprint}" for p in panels.values() if p.fingerprint)
        said += [f"Partition seed {SEED}; data: {prints or 'none, class sizes are enough'}."]
        said += ["Area (discs) or square of the darkness (maps) in proportion to the samples, a scale a panel."]
        pairs = ((panels[more], panels[less], source) for more, less, source in self.orderings)
        return said + [_ordering(*each) for each in pairs if not each[0].stand_in and not each[1].stand_in]


def _ordering(more: Panel, less: Panel, source: str) -> str:
    difference = more.heterogeneity - less.heterogeneity
    word = KEPT if difference > 0 else BROKEN if difference < 0 else UNDECIDED
    numbers = f"{more.heterogeneity:.3f}, {less.heterogeneity:.3f}, difference {difference:+.3f}"
    return f"{MEASURE}: {more.label} > {less.label}: {numbers}: {marked(word)} ({source})."


def _line(study: Any, panel: Panel) -> dict[str, Any]:
    verdict, reason = panel.verdict
    found = {"row": panel.label, "method": panel.setting.partition, "column": "samples a client and class"}
    found |= {"dataset": panel.setting.dataset, "source": panel.origin, "tolerance": 0.0, "verdict": verdict}
    if panel.counts is not None:
        found |= {"ours": float(panel.counts.sum()), "n": 1}
    if panel.differences is not None:
        found["difference"] = float(panel.differences.flat[abs(panel.differences).argmax()])
    return line(study, measure="samples", reason=reason, **found)
