"""A table as a picture: ours beside the published numbers, one panel a column."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pflrepro.papers.artefact import STAND_IN, Artefact, Column, Row
from pflrepro.papers.result import Cell
from pflrepro.papers.views.rows import any_printed, axis, cell, chosen, full, instead, own_rows, row_looks, title
from pflrepro.papers.views.view import Shown
from pflrepro.viz.dots import LESS, Number, NumberPanel, dot_figure
from pflrepro.viz.looks import Look

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Points(Shown):
    """Dots: a panel a column, a row a method.

    Attributes:
        columns: keys (none: all of the scale); a column with no number is left out, and so is a row.
    """

    columns: tuple[str, ...] = ()

    def figures(self, study: Any) -> dict[str, Figure]:
        """Nothing where there is no number."""
        artefact, looks = study.artefact, row_looks(study.artefact)
        columns = chosen(study, "column", self.columns)
        found = [(column, its) for column in columns if (its := numbers(study, artefact.rows, column, looks))]
        made_on = {instead(study, column) for column, its in found if _any_ours(its)}
        alike = made_on.pop() if len(made_on) == 1 else ""  # said once, in the legend, not over every panel
        drawn = [
            NumberPanel(
                title(study, column, _any_ours(its) and not alike),
                axis(column.measure.title, column.measure.unit),
                its,
                column.measure.unit,
            )
            for column, its in found
        ]
        rows = {each.row for _, its in found for each in its}
        ordered = [row.label for row in artefact.rows if row.label in rows]
        strong = {artefact.rows[place].label for place in own_rows(artefact)}
        less = f"ours: {alike}" if alike else LESS
        return {"points": dot_figure(drawn, ordered, strong, less)} if drawn else {}

    def notes(self, study: Any) -> list[str]:
        found = [cell for cell in study.cells.values() if len(cell.numbers)]
        said = [
            f"Whiskers: {whiskers(study.artefact)} (ours){', as printed (published)' if any_printed(study) else ''}"
        ]
        pale = [cell for cell in found if not math.isnan(_interval(cell, study.artefact.spread)[0])]
        if pale:
            over = dict.fromkeys(value.each for cell in pale for value in cell.values.values())
            said.append(f"pale: 95 % interval over {', '.join(over)}, of one seed")
        if any(not full(cell) for cell in found):
            said.append("hollow: less than the paper's setting, or other data")
        return ["; ".join(said) + "."]


def _any_ours(found: Iterable[Number]) -> bool:
    return any(each.ours == each.ours for each in found)


def whiskers(artefact: Artefact) -> str:
    """What the whiskers of our numbers are."""
    over_clients = artefact.spread == "clients"
    return "standard deviation over clients" if over_clients else "population standard deviation over seeds"


def numbers(study: Any, rows: Iterable[Row], column: Column, looks: Mapping[str, Look]) -> tuple[Number, ...]:
    """The cells of a column that have a number, as they are drawn; `looks`: by row key."""
    found = ((row, cell(study, row, column)) for row in rows)
    return tuple(_number(each, looks[row.key], study.artefact.spread) for row, each in found if each is not None)


def _number(found: Cell, look: Look, spread: str) -> Number:
    """A cell as it is drawn, with its spread over `trials` or `clients`; a stand-in without what is printed."""
    printed = (float("nan"),) * 2 if found.fidelity == STAND_IN else (found.published, found.published_std)
    interval = _interval(found, spread)
    return Number(found.row.label, look, found.ours, found.spread_over(spread), *printed, full(found), interval)


def _interval(found: Cell, spread: str) -> tuple[float, float]:
    """(low, high) of a number that has no whisker; NaN of others."""
    return found.interval()[:2] if math.isnan(found.spread_over(spread)) else (math.nan, math.nan)
