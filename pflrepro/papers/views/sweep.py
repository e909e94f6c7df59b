"""A measure over a setting that the rows differ in: an option of the method, or a field of the protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pflrepro.errors import UserError
from pflrepro.papers.artefact import Column, Row
from pflrepro.papers.views.rows import any_printed, axis, cell, chosen, printed, row_looks
from pflrepro.papers.views.view import Shown
from pflrepro.style import MARKERS, PALETTE
from pflrepro.viz.lines import Line, LinePanel, line_figure
from pflrepro.viz.looks import Look

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def option(name: str) -> Callable[[Row], float]:
    """The x of a row: an option of its method."""
    return lambda row: _named("option", name, row, dict(row.options))


def changed(name: str) -> Callable[[Row], float]:
    """The x of a row: a field of the protocol that it changes."""
    return lambda row: _named("change", name, row, dict(row.changes))


def _named(kind: str, name: str, row: Row, given: dict[str, Any]) -> float:
    if name not in given:
        raise UserError(
            f"row {row.key!r} has no {kind} {name!r} to be drawn over; it has: {', '.join(given) or 'none'}"
        )
    return float(given[name])


@dataclass(frozen=True)
class Sweep(Shown):
    """Lines over a setting.

    Attributes:
        x: of a row, such as `option("beta")`.
        xlabel: what it is.
        lines: (label, row keys), by default one line of all rows.
        together: whether the columns are a line each in one panel, not a panel each.
        log: x in powers of ten.
        ylabel: where several measures share a panel; by default their unit.
    """

    x: Callable[[Row], float]
    xlabel: str
    lines: tuple[tuple[str, tuple[str, ...]], ...] = ()
    together: bool = False
    log: bool = False
    ylabel: str = ""

    def figures(self, study: Any) -> dict[str, Figure]:
        """Nothing where nothing was run and nothing is printed."""
        columns = chosen(study, "column")
        groups = self.lines or (("", study.artefact.row_keys),)
        looks = self._looks(study, columns, groups)
        made: dict[str, list[Line]] = {}
        for column in columns:
            for label, keys in groups:
                # a panel of one column is named by its title
                named = " ".join(filter(None, [label, column.label if self.together else ""]))
                line = self._line(study, column, keys, named, looks[column.key, label])
                if line is not None:
                    made.setdefault("" if self.together else column.key, []).append(line)
        by_key = {column.key: column for column in columns}
        drawn = []
        for key, lines in made.items():
            shown = [by_key[key]] if key else columns
            measures = [column.measure for column in shown]
            titles, units = (dict.fromkeys(getattr(each, name) for each in measures) for name in ("title", "unit"))
            alike = len(titles) == len(units) == 1
            ylabel = self.ylabel or (axis(*titles, *units) if alike else ", ".join(units))
            title = "" if self.together else shown[0].label
            drawn.append(LinePanel(title, self.xlabel, ylabel, tuple(lines), log=self.log))
        return {"sweep": line_figure(drawn, measured=True)} if drawn else {}

    def _looks(self, study: Any, columns: list[Column], groups: Any) -> dict[tuple[str, str], Look]:
        """(column key, line) -> look: of the line's method; of several columns in one panel, a colour and marker each."""
        if self.together and len(columns) > 1:
            pairs = [(column.key, label) for column in columns for label, _ in groups]
            return {pair: Look(PALETTE[i % len(PALETTE)], MARKERS[i % len(MARKERS)]) for i, pair in enumerate(pairs)}
        rows = row_looks(study.artefact)
        return {(column.key, label): rows[keys[0]] for column in columns for label, keys in groups}

    def _line(self, study: Any, column: Column, keys: tuple[str, ...], label: str, look: Look) -> Line | None:
        pairs = [(row, cell(study, row, column)) for row in chosen(study, "row", keys)]
        known = sorted(((self.x(row), found) for row, found in pairs if found), key=lambda pair: pair[0])
        if not known:
            return None
        x, ours, spread = (
            np.array(values, float)
            for values in zip(*((at, found.ours, found.spread) for at, found in known), strict=True)
        )
        published = np.array([printed(found) for _, found in known])
        return Line(label, x, ours, look, spread, None if np.isnan(published).all() else published)

    def notes(self, study: Any) -> list[str]:
        said = []
        if any(len(found.runs) > 1 for found in study.cells.values()):
            said.append("marks: mean over seeds; whiskers: population standard deviation")
        if any_printed(study):
            said.append("dashed: the published numbers")
        return [f"Lines: {'; '.join(said)}."] if said else []
