"""Bars: the cells of a study, and numbers of every class that a function reads from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pflrepro.papers.views.points import number
from pflrepro.papers.views.rows import axis, cell, chosen, own_rows, row_looks
from pflrepro.papers.views.view import Shown
from pflrepro.viz.bars import bar_figure, share_figure
from pflrepro.viz.dots import NumberPanel

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Bars(Shown):
    """Bars of cells.

    Attributes:
        groups: (title, row keys), a panel each, by default one of all rows; a row may stand in several.
        columns: keys, by default all of the scale: each group once a column.
    """

    groups: tuple[tuple[str, tuple[str, ...]], ...] = ()
    columns: tuple[str, ...] = ()
    name: str = "bars"

    def figures(self, study: Any) -> dict[str, Figure]:
        """Nothing where there is no number."""
        artefact, looks = study.artefact, row_looks(study.artefact)
        columns, drawn = chosen(study, "column", self.columns), []
        for title, keys in self.groups or (("", artefact.row_keys),):
            for column in columns:
                found = [(row, cell(study, row, column)) for row in map(artefact.row, keys)]
                numbers = tuple(number(row.label, each, looks[row.key]) for row, each in found if each is not None)
                named = ": ".join(filter(None, [title, column.label if len(columns) > 1 or not title else ""]))
                if numbers:
                    drawn.append(NumberPanel(named, axis(column.measure.title, column.measure.unit), numbers))
        strong = {artefact.rows[place].label for place in own_rows(artefact)}
        return {self.name: bar_figure(drawn, strong)} if drawn else {}

    def notes(self, study: Any) -> list[str]:
        return ["Whiskers: population standard deviation over seeds; hatched: less than the paper's setting."]


@dataclass(frozen=True)
class ClassBars(Shown):
    """Bars of every class.

    Attributes:
        read: gives of a study title -> [C] percent, empty where nothing was run.
        xlabel: what is counted.
        names: of the classes, by default their numbers.
        compared: the first is what the others are compared with.
    """

    read: Callable[[Any], Mapping[str, np.ndarray]]
    xlabel: str
    names: tuple[str, ...] = ()
    compared: bool = False
    name: str = "shares"

    def figures(self, study: Any) -> dict[str, Figure]:
        """Nothing where nothing was run."""
        found = self.read(study)
        return {self.name: share_figure(found, self._names(found), self.xlabel, self.compared)} if found else {}

    def frame(self, study: Any) -> pd.DataFrame | None:
        """A line a class."""
        import pandas as pd

        found = self.read(study)
        return pd.DataFrame(found, index=pd.Index(self._names(found), name="class")).reset_index() if found else None

    def _names(self, found: Mapping[str, np.ndarray]) -> tuple[str, ...]:
        return self.names or tuple(map(str, range(len(next(iter(found.values()))))))
