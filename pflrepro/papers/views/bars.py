"""Bars: the cells of a study, and numbers of every class that a function reads from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pflrepro.papers.views.points import numbers, whiskers
from pflrepro.papers.views.rows import axis, chosen, own_rows, row_looks, title, whose
from pflrepro.papers.views.view import Shown
from pflrepro.viz.bars import bar_figure, share_figure
from pflrepro.viz.dots import Number, NumberPanel

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Bars(Shown):
    """Bars of cells.

    Attributes:
        groups: (title, row keys), a panel each, by default one of all rows; a row may stand in several, and keeps its place where it
            was not run.
        columns: keys, by default all of the scale: each group once a column.
    """

    groups: tuple[tuple[str, tuple[str, ...]], ...] = ()
    columns: tuple[str, ...] = ()
    name: str = "bars"

    def figures(self, study: Any) -> dict[str, Figure]:
        """Nothing where there is no number."""
        artefact, looks = study.artefact, row_looks(study.artefact)
        columns, drawn = chosen(study, "column", self.columns), []
        for name, keys in self.groups or (("", artefact.row_keys),):
            for column in columns:
                rows = [artefact.row(key) for key in keys if column.has(artefact.row(key))]
                found = {each.row: each for each in numbers(study, rows, column, looks)}
                shown = tuple(found.get(row.label) or Number(row.label, looks[row.key]) for row in rows)
                alone = name and len(columns) == 1 and whose(study, column) == "ours"
                named = ": ".join(filter(None, [name, "" if alone else title(study, column)]))
                if found:
                    drawn.append(NumberPanel(named, axis(column.measure.title, column.measure.unit), shown))
        strong = {artefact.rows[place].label for place in own_rows(artefact)}
        return {self.name: bar_figure(drawn, strong)} if drawn else {}

    def notes(self, study: Any) -> list[str]:
        return [f"Whiskers: {whiskers(study.artefact)}; hatched: less than the paper's setting, or other data."]


@dataclass(frozen=True)
class ClassBars(Shown):
    """Bars of every class (or client), a panel a column.

    Attributes:
        read: gives of a study percents, a line a class, its name as index, and a column a panel; None where nothing was run.
        xlabel: what is counted.
        compared: the first panel is what the others are compared with.
        kept: whether its numbers are the artefact's csv, in place of the cells.
    """

    read: Callable[[Any], pd.DataFrame | None]
    xlabel: str
    compared: bool = False
    kept: bool = True
    name: str = "shares"

    def figures(self, study: Any) -> dict[str, Figure]:
        """Nothing where nothing was run."""
        found = self.read(study)
        if found is None:
            return {}
        panels = {title: found[title].to_numpy() for title in found}
        return {self.name: share_figure(panels, tuple(found.index), self.xlabel, self.compared)}

    def frame(self, study: Any) -> pd.DataFrame | None:
        """A line a class."""
        found = self.read(study) if self.kept else None
        return None if found is None else found.rename_axis("class").reset_index()
