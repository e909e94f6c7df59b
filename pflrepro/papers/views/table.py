"""The table view: the paper's shape first (rows, groups of columns, order as printed), published | ours ± spread [difference] mark."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pflrepro.papers.artefact import INSTEAD, STAND_IN, Column, Row
from pflrepro.papers.result import MARKS, VERDICTS, Cell
from pflrepro.papers.texts import mean_and_spread, number, span
from pflrepro.papers.views.rows import whose
from pflrepro.papers.views.view import Shown

if TYPE_CHECKING:
    import pandas as pd

OWN = "own methods"
FORMS = {
    "points": "the difference to",
    "percent": "the change in percent to",
    "times": "how many times fewer than",
}


@dataclass(frozen=True)
class Change:
    """What a paper prints in brackets behind a number: how it differs from another number of the same table.

    Both sides are computed, the published one from the printed numbers: papers round some of theirs wrongly.

    Attributes:
        form: of `FORMS`.
        columns: keys of those whose numbers have it.
        row, column: key of the other number's row ("": the same row) or column ("": the same column).
        rows: keys of those that have it (none: all but `row`).
    """

    form: str
    columns: tuple[str, ...]
    row: str = ""
    column: str = ""
    rows: tuple[str, ...] = ()

    def has(self, row: str, column: str) -> bool:
        """Whether a number has it."""
        return column in self.columns and (row in self.rows if self.rows else row != self.row)

    def text(self, value: float, other: float, digits: int) -> str:
        """`(+23.86)`, `(-5.7 %)` or `(1.9X)`; empty where a number is missing.

        Example:
            >>> change = Change("times", ("rounds",), row="fedavg")
            >>> change.text(294.0, 550.0, 0), change.text(294.0, float("nan"), 0)
            ('(1.9X)', '')
        """
        if math.isnan(value) or math.isnan(other) or (self.form != "points" and not (value and other)):
            return ""
        if self.form == "times":
            return f"({other / value:.1f}X)"
        if self.form == "percent":
            return f"({number(100.0 * (value / other - 1.0), 2, sign=True)} %)"
        return f"({number(value - other, digits, sign=True)})"


@dataclass(frozen=True)
class Table(Shown):
    """Rows by columns; the best of a column is bold, the second underlined, as papers print them.

    A column of the scale has its published numbers, and ours where something was run; one that has neither, or that the scale
    leaves out, is named in the notes.

    Attributes:
        changes: what stands in round brackets behind numbers, as papers print it.
    """

    changes: tuple[Change, ...] = ()

    def table(self, study: Any) -> pd.DataFrame:
        import pandas as pd

        paper = len(study.rows) - len(study.also)
        heading = [OWN] if study.also else []
        labels = [row.label for row in study.rows]
        columns = [(("", "", ""), [*labels[:paper], *heading, *labels[paper:]])]
        units = self._units(study)
        for column in self._shown(study):
            cells = [study.cells.get((row.key, column.key)) for row in study.rows]
            label = study.artefact.label_of(column)
            head = f"{label} ({column.measure.unit})" if len(units) > 1 and column.measure.unit else label
            ours = whose(study, column)
            for kind, texts in (("published", self._published(study, cells)), (ours, self._ours(study, cells))):
                if any(texts):
                    lines = [*texts[:paper], *[""] * len(heading), *texts[paper:]]
                    columns.append(((column.group, head, kind), lines))
        frame = pd.DataFrame([lines for _, lines in columns]).T
        frame.columns = pd.MultiIndex.from_tuples([names for names, _ in columns])
        return frame if any(group for (group, *_), _ in columns) else frame.droplevel(0, axis=1)

    def notes(self, study: Any) -> list[str]:
        shown = self._shown(study)
        cells = [cell for cell in study.cells.values() if cell.column in shown]
        verdicts = {cell.verdict(study.artefact, study.outcomes) for cell in cells}
        run = any(cell.runs for cell in cells)
        return [
            *self._units(study),
            *([self._spread(study)] if run else []),
            *self._changed(study, shown),
            *(f"{row.label}: {row.note}" for row in study.rows if self._noted(study, row, shown)),
            *(f"{mark} {verdict}: {VERDICTS[verdict]}" for verdict, mark in MARKS.items() if verdict in verdicts),
            *_lacking(cells, len(study.rows)),
            *self._left(study, shown),
        ]

    def _noted(self, study: Any, row: Row, shown: Sequence[Column]) -> bool:
        """Whether a row's note is of what is shown: one of options for some data sets only, if these are among them."""
        here = {study.setting(column).dataset for column in shown} | {column.setting.dataset for column in shown}
        return (
            bool(row.note) and row.key not in study.also and (not row.by_data or bool(here & dict(row.by_data).keys()))
        )

    # ---- columns -----------------------------------------------------------------------------------------------------------
    def _shown(self, study: Any) -> list[Column]:
        """The columns that have anything to show: published numbers of the scale, or runs."""

        def has(column: Column) -> bool:
            cells = [cell for cell in study.cells.values() if cell.column is column]
            known = any(not math.isnan(cell.published) for cell in cells)
            return (known and column in study.columns) or any(cell.runs for cell in cells)

        return [column for column in study.artefact.columns if has(column)]

    def _units(self, study: Any) -> list[str]:
        """What is measured in which unit, each once."""
        measures = [column.measure for column in self._shown(study)]
        return list(dict.fromkeys(f"{each.title}{f' in {each.unit}' if each.unit else ''}" for each in measures))

    def _left(self, study: Any, shown: Sequence[Column]) -> list[str]:
        """What is not shown, by the reason."""
        left = [column for column in study.artefact.columns if column not in shown]
        names = {
            part: [study.artefact.name_of(c) for c in left if (c in study.columns) is part] for part in (True, False)
        }
        out, empty = names[False], names[True]
        return [
            *([f"not part of the scale {study.scale.name}: {'; '.join(out)}"] if out else []),
            *([f"nothing printed, and nothing run: {'; '.join(empty)}"] if empty else []),
        ]

    # ---- cells -------------------------------------------------------------------------------------------------------------
    def _published(self, study: Any, cells: Sequence[Cell | None]) -> list[str]:
        def said(cell: Cell) -> str:
            if cell.printed is None:
                return ""
            text = cell.published_text or "none"
            return text + self._change(study, cell, lambda each: each.published)

        return _ranked(cells, lambda cell: cell.published, said)

    def _ours(self, study: Any, cells: Sequence[Cell | None]) -> list[str]:
        def said(cell: Cell) -> str:
            if not cell.runs:
                return ""
            text = mean_and_spread(cell.ours, cell.spread_over(study.artefact.spread), cell.digits) or "none"
            if cell.fidelity != STAND_IN:
                text += self._change(study, cell, lambda each: each.ours)
            away = cell.ours - cell.published
            if not math.isnan(away) and cell.fidelity not in (STAND_IN, INSTEAD):
                text += f" [{number(away, cell.digits, sign=True)}]"
            return f"{text} {MARKS.get(cell.verdict(study.artefact, study.outcomes), '')}".rstrip()

        return _ranked(cells, lambda cell: math.nan if cell.fidelity == STAND_IN else cell.ours, said)

    def _change(self, study: Any, cell: Cell, value: Callable[[Cell], float]) -> str:
        """What stands in round brackets behind a number of a cell, with a space before it."""
        row, column = cell.key
        change = next((each for each in self.changes if each.has(row, column)), None)
        other = change and study.cells.get((change.row or row, change.column or column))
        text = change.text(value(cell), value(other), cell.digits) if other else ""
        return f" {text}" if text else ""

    def _changed(self, study: Any, shown: Sequence[Column]) -> list[str]:
        """What the round brackets are."""
        keys, artefact, said = {column.key for column in shown}, study.artefact, []
        for change in self.changes:
            other = artefact.row(change.row).label if change.row else artefact.column(change.column).label
            if keys & set(change.columns):
                said.append(
                    f"in round brackets {FORMS[change.form]} {other}'s, computed from the numbers that are shown"
                )
        return list(dict.fromkeys(said))

    def _spread(self, study: Any) -> str:
        """What stands behind a number of ours."""
        over = study.artefact.spread
        as_printed = ", as the paper prints it" if study.artefact.sources else ""
        means = f"clients{as_printed}" if over == "clients" else "seeds (population deviation)"
        compared = any(
            cell.fidelity not in (STAND_IN, INSTEAD) and not math.isnan(cell.ours - cell.published)
            for cell in study.cells.values()
        )
        brackets = "; in brackets ours minus published" if compared else ""
        return f"ours: mean ± spread over {means}{brackets}"


def _lacking(cells: Sequence[Cell], rows: int) -> list[str]:
    """Why cells are empty, or have fewer seeds than asked for: how many, and of which rows where they are few."""
    lacking = sorted((cell for cell in cells if cell.reason), key=lambda cell: (bool(cell.runs), cell.reason))
    notes = []
    for reason, group in groupby(lacking, key=lambda cell: cell.reason):
        found = list(group)
        labels = list(dict.fromkeys(cell.row.label for cell in found))
        named = f" ({'; '.join(labels)})" if len(labels) < min(rows, 5) else ""
        notes.append(f"{span([len(found)], 'cell')}{named}: {reason}")
    return notes


def _ranked(cells: Sequence[Cell | None], value: Callable[[Cell], float], said: Callable[[Cell], str]) -> list[str]:
    """The texts of a column; of three numbers or more the best bold, the second underlined, unless all are alike."""
    texts = ["" if cell is None else said(cell) for cell in cells]
    values = [math.nan if cell is None else value(cell) for cell in cells]
    better = next(cell.measure.better for cell in cells if cell is not None)
    numbers = [each for each in values if not math.isnan(each)]
    known = sorted({*numbers}, reverse=better == "higher")
    if not better or len(numbers) < 3 or len(known) < 2:
        return texts
    best, second = known[:2]
    return [_marked(text, each == best, each == second) for text, each in zip(texts, values, strict=True)]


def _marked(text: str, best: bool, second: bool) -> str:
    mean, _, rest = text.partition(" ")
    shown = f"**{mean}**" if best else f"<u>{mean}</u>" if second else mean
    return f"{shown} {rest}".rstrip()
