"""A table as a picture: ours beside the published numbers, one panel a column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pflrepro.papers.artefact import STAND_IN, Artefact
from pflrepro.papers.result import Cell
from pflrepro.papers.views.rows import axis, cell, chosen, full, own_rows, row_looks
from pflrepro.papers.views.view import Shown
from pflrepro.viz.dots import Number, NumberPanel, dot_figure
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
        drawn, rows = [], {}
        for column in chosen(study, "column", self.columns):
            found = [(row, cell(study, row, column)) for row in artefact.rows]
            numbers = tuple(
                number(row.label, each, looks[row.key], artefact.spread) for row, each in found if each is not None
            )
            if numbers:
                title = ", ".join(filter(None, (column.group, column.label)))
                drawn.append(NumberPanel(title, axis(column.measure.title, column.measure.unit), numbers))
                rows |= dict.fromkeys(each.row for each in numbers)
        ordered = [row.label for row in artefact.rows if row.label in rows]
        strong = {artefact.rows[place].label for place in own_rows(artefact)}
        return {"points": dot_figure(drawn, ordered, strong)} if drawn else {}

    def notes(self, study: Any) -> list[str]:
        return [f"Whiskers: {whiskers(study.artefact)} (ours), as printed (published); hollow: see the levels."]


def whiskers(artefact: Artefact) -> str:
    """What the whiskers of our numbers are."""
    over_clients = artefact.spread == "clients"
    return "standard deviation over clients" if over_clients else "population standard deviation over seeds"


def number(label: str, found: Cell, look: Look, spread: str) -> Number:
    """A cell as it is drawn, with its spread over `trials` or `clients`; a stand-in without what is printed."""
    printed = (float("nan"),) * 2 if found.level == STAND_IN else (found.published, found.published_std)
    return Number(label, look, found.ours, found.spread_over(spread), *printed, full=full(found))
