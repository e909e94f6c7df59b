"""Curves of a study over rounds or seconds: one panel a column and kind of curve, one line a row, mean over seeds with a band."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pflrepro.errors import UserError, check_word
from pflrepro.metrics import accuracy
from pflrepro.metrics.curves import largest_loss, mean_loss
from pflrepro.papers.artefact import Row
from pflrepro.papers.result import Cell
from pflrepro.papers.views.rows import axis, chosen, printed, row_looks, title, whose
from pflrepro.papers.views.view import Shown
from pflrepro.viz.lines import MARGIN, Line, LinePanel, at_common_rounds, line_figure, mean_and_spread, smoothed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pflrepro.experiments.result import Run


class Kind(NamedTuple):
    """A kind of curve.

    Attributes:
        printed: the end of the names of the measures whose published numbers are levels of it.
    """

    title: str
    unit: str
    of: Callable[[Mapping[str, np.ndarray]], np.ndarray]
    printed: str = ""


KINDS = {
    "accuracy": Kind("test accuracy", "%", lambda h: 100.0 * accuracy.pooled(h), "-pooled"),
    "accuracy over clients": Kind(
        "mean accuracy of clients", "%", lambda h: 100.0 * accuracy.mean_over_clients(h), "-clients"
    ),
    "train_loss": Kind("training loss", "nats", mean_loss),
    "objective": Kind("objective", "nats", lambda h: mean_loss(h, "objective")),
    "largest train_loss": Kind("largest training loss", "nats", largest_loss),
}


@dataclass(frozen=True)
class Curves(Shown):
    """Curves.

    Attributes:
        kinds: words of `KINDS`; a panel each, column by column.
        over: `rounds`, or `seconds` of training so far.
        columns: keys (none: all that are run).
        smooth: tests of a moving mean, odd; 1: none.
        zoom: whether accuracies show where long curves end, not how they rise.
    """

    kinds: tuple[str, ...] = ("accuracy",)
    over: str = "rounds"
    columns: tuple[str, ...] = ()
    smooth: int = 1
    zoom: bool = True
    name: str = "curves"

    def __post_init__(self) -> None:
        for kind in self.kinds:
            check_word("kind of curve", kind, KINDS)
        check_word("what curves are drawn over", self.over, ("rounds", "seconds"))
        smoothed(np.zeros(1), self.smooth)
        if not self.kinds:
            raise UserError(f"no kind of curve; valid: {', '.join(KINDS)}")

    @property
    def _kinds(self) -> list[Kind]:
        return [KINDS[kind] for kind in self.kinds]

    def figures(self, study: Any) -> dict[str, Figure]:
        """Nothing where nothing was run."""
        drawn, columns, looks = [], chosen(study, "column", self.columns), row_looks(study.artefact)
        for column in columns:
            pairs = [(row, study.cells.get((row.key, column.key))) for row in study.rows]
            for kind in self._kinds:
                lines = [self._line(kind, row, cell, looks[row.key]) for row, cell in pairs if cell and cell.runs]
                lines = [line for line in lines if np.isfinite(line.y).any()]
                if lines:
                    xlabel = "round" if self.over == "rounds" else "seconds of training"
                    # of one column the panels differ in their kind, which the axis says
                    alone = len(columns) == 1 < len(self.kinds) and whose(study, column) == "ours"
                    named = "" if alone else title(study, column)
                    titles = (named, xlabel, axis(kind.title, kind.unit))
                    drawn.append(LinePanel(*titles, tuple(lines), zoom=self.zoom and kind.unit == "%"))
        across = min(len(self.kinds), 3) if len(self.kinds) > 1 else 3
        return {self.name: line_figure(drawn, across=across)} if drawn else {}

    def _line(self, kind: Kind, row: Row, cell: Cell, look: Any) -> Line:
        runs = cell.runs.values()
        curves = [smoothed(kind.of(run.history), self.smooth) for run in runs]
        values, x = at_common_rounds([run.history["round"] for run in runs], curves, [self._x(run) for run in runs])
        mean, spread = mean_and_spread(values)
        there = np.isfinite(mean)  # committed runs keep the losses of some tests, between which the line goes on
        level = self._level(kind, cell)
        published = None if np.isnan(level) else np.full(there.sum(), level)
        return Line(row.label, x.mean(0)[there], mean[there], look, spread[there], published)

    def _level(self, kind: Kind, cell: Cell) -> float:
        """The printed number that is a level of such curves, or NaN."""
        name = cell.measure.name
        judged = kind.printed and name.startswith("accuracy-") and name.endswith(kind.printed)
        return printed(cell) if judged else np.nan

    def _x(self, run: Run) -> np.ndarray:
        return run.history["round"] if self.over == "rounds" else np.cumsum(run.history["seconds"])

    def notes(self, study: Any) -> list[str]:
        cells = [cell for cell in study.cells.values() if cell.runs]
        said = []
        if any(len(cell.runs) > 1 for cell in cells):
            said.append("lines: mean over seeds, as far as all have run; bands: population standard deviation")
        if not all(np.isnan(self._level(kind, cell)) for kind in self._kinds for cell in cells):
            said.append("dashed: the published number")
        if self.smooth > 1:
            said.append(f"moving means over {self.smooth} tests, where tables have single ones")
        if self.zoom and any(kind.unit == "%" for kind in self._kinds):
            said.append(f"accuracies of long curves are shown from {MARGIN:g} points below the lowest line's best")
        return [f"Curves: {'; '.join(said)}."] if said else []
