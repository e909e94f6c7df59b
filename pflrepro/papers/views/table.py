"""The table view: the paper's shape first (rows, groups of columns, order as printed), published | ours ± spread | difference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pflrepro.papers.artefact import Column
from pflrepro.papers.result import NOT_RUN, Cell
from pflrepro.papers.texts import mean_and_spread, number
from pflrepro.papers.views.view import Shown

if TYPE_CHECKING:
    import pandas as pd

# Marks, so that a verdict is read without colours.
MARKS = {
    "within tolerance": "≈",
    "ordering kept": "✓",
    "ordering broken": "✗",
    "ordering still rising": "↗",
    "ordering undecided": "?",
    "differs": "≠",
    "stand-in": "·",
}


@dataclass(frozen=True)
class Table(Shown):
    """Rows by columns; the best of a column is bold, the second underlined, as papers print them.

    columns: keys (None: all). difference: whether ours minus the published number is shown behind ours. The spread behind a number is
    over what the paper's is: seeds, or clients.
    """

    columns: tuple[str, ...] | None = None
    difference: bool = True

    def shown(self, study: Any) -> tuple[Column, ...]:
        """The columns of the table that are part of the scale, or were run."""
        return tuple(
            column
            for column in study.artefact.columns
            if (self.columns is None or column.key in self.columns)
            and (column in study.columns or any(study.cells[row.key, column.key].runs for row in study.rows))
        )

    def table(self, study: Any) -> pd.DataFrame:
        import pandas as pd

        frame: dict[str, list[str]] = {"": [row.label for row in study.rows]}
        for column in self.shown(study):
            cells = [study.cells[row.key, column.key] for row in study.rows]
            name = f"{column.group}: {column.label}" if column.group else column.label
            unit = column.measure.title if name != column.measure.title else ""
            head = f"{name} ({', '.join(filter(None, (unit, column.measure.unit)))})"
            frame[f"{head}, published"] = _ranked(cells, [cell.published for cell in cells], self._published)
            frame[f"{head}, ours"] = _ranked(cells, [cell.ours for cell in cells], lambda c: self._ours(study, c))
        return pd.DataFrame(frame)

    def _published(self, cell: Cell) -> str:
        if cell.printed is None:
            return ""
        digits = cell.column.digits if cell.column.digits is not None else cell.measure.digits
        return mean_and_spread(cell.published, cell.published_std, digits) or "none"

    def _ours(self, study: Any, cell: Cell) -> str:
        if not cell.runs:
            return ""
        digits = cell.column.digits if cell.column.digits is not None else cell.measure.digits
        spread = cell.over_clients if study.artefact.spread == "clients" else cell.spread
        text = mean_and_spread(cell.ours, spread, digits) or "none"
        away = cell.ours - cell.published
        if self.difference and not math.isnan(away) and cell.level != "stand-in":
            text += f" [{number(away, digits, sign=True)}]"
        mark = MARKS.get(cell.verdict(study.artefact, study.outcomes), "")
        return f"{text} {mark}".strip()

    def notes(self, study: Any) -> list[str]:
        shown = self.shown(study)
        left = [column.label for column in study.artefact.columns if column not in shown]
        used = {cell.verdict(study.artefact, study.outcomes) for cell in study.cells.values()} - {NOT_RUN}
        notes = [f"{mark}: {verdict}" for verdict, mark in MARKS.items() if verdict in used]
        if left:
            notes.append(f"not part of this scale: {', '.join(left)}")
        lacking = {
            cell.reason for cell in study.cells.values() if cell.column in shown and not cell.runs and cell.reason
        }
        return notes + sorted(f"empty cells: {reason}" for reason in lacking)


def _ranked(cells: list[Cell], values: list[float], said: Any) -> list[str]:
    """The texts of a column; of three numbers or more the best bold, the second underlined."""
    texts = [said(cell) for cell in cells]
    better = cells[0].measure.better
    known = sorted((v for v in values if not math.isnan(v)), reverse=better == "higher")
    if not better or len(known) < 3:
        return texts
    marked = []
    for text, value in zip(texts, values, strict=True):
        number_, _, rest = text.partition(" ")
        if value == known[0]:
            number_ = f"**{number_}**"
        elif value == known[1]:
            number_ = f"<u>{number_}</u>"
        marked.append(f"{number_} {rest}".strip())
    return marked
