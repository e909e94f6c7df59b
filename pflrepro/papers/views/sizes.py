"""Tables of numbers that follow from networks and methods alone: each equal to the printed one, to its last digit, or not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pflrepro.papers.counted import counted
from pflrepro.papers.numbers import PublishedNumber, find_number
from pflrepro.papers.result import DIFFERS, EQUAL, FRAME_COLUMNS, MARKS, NOT_RUN, UNPUBLISHED, marked
from pflrepro.papers.views.exact import line
from pflrepro.papers.views.view import Shown

if TYPE_CHECKING:
    import pandas as pd

VERDICTS = {
    EQUAL: "equal to the printed number, to its last printed digit",
    DIFFERS: "not the printed number",
    UNPUBLISHED: "nothing printed",
    NOT_RUN: "cannot be counted, the reason is below",
}
MARK = {EQUAL: "=", DIFFERS: MARKS[DIFFERS]}  # behind a number of ours


@dataclass(frozen=True)
class Size:
    """One cell of such a table.

    Attributes:
        row, column: its labels.
        method, dataset, model, metric, setting: where the published file has it.
        digits: printed decimals.
        count: gives ours; None where the package cannot count it, and then `lacking` says why.
        remark: what explains a difference.
    """

    row: str
    column: str
    method: str
    dataset: str
    model: str
    metric: str
    setting: str
    digits: int = 0
    count: Callable[[], float] | None = None
    lacking: str = ""
    remark: str = ""

    def printed(self, sources: tuple[str, ...]) -> PublishedNumber | None:
        """The published number."""
        where = {"dataset": self.dataset, "model": self.model, "setting": self.setting}
        return find_number(sources, (self.method,), where, self.metric)

    def verdict(self, published: float, ours: float) -> str:
        """One of `VERDICTS`."""
        if math.isnan(ours):
            return NOT_RUN
        if math.isnan(published):
            return UNPUBLISHED
        return EQUAL if round(ours, self.digits) == round(published, self.digits) else DIFFERS

    def text(self, value: float) -> str:
        """With the digits that are printed; empty for NaN."""
        return "" if math.isnan(value) else f"{value:,.{self.digits}f}"


@dataclass(frozen=True)
class Sizes(Shown):
    """Every size beside its printed value, which the sources of the artefact hold."""

    sizes: tuple[Size, ...]

    def judged(self, study: Any) -> list[dict[str, Any]]:
        """One line of the frame of cells a size."""
        return [self._line(study, size) for size in self.sizes]

    def _line(self, study: Any, size: Size) -> dict[str, Any]:
        found = size.printed(study.artefact.sources)
        published = math.nan if found is None else found.value
        ours = math.nan
        if size.count is not None:
            ours = counted(f"{study.artefact.id} {size.row} {size.column}", lambda: float(size.count()))
        return line(
            study,
            row=size.row,
            method=size.method,
            column=size.column,
            measure=size.metric,
            dataset=size.dataset,
            model=size.model,
            published=published,
            source="" if found is None else found.source,
            ours=ours,
            difference=ours - published,
            tolerance=0.5 * 10.0**-size.digits,
            n=int(size.count is not None),
            verdict=size.verdict(published, ours),
            reason=size.lacking or size.remark,
        )

    def table(self, study: Any) -> pd.DataFrame:
        """The paper's shape, as texts: of each column the published numbers, and ours with their marks where any is counted."""
        import pandas as pd

        found = {(size.row, size.column): (size, line) for size, line in self._lines(study)}
        rows, columns = (list(dict.fromkeys(names)) for names in zip(*found, strict=True))
        shown = [(("", ""), rows)]
        for column in columns:
            cells = [found[row, column] for row in rows]
            for kind in ("published", "ours"):
                mark = MARK if kind == "ours" else {}
                texts = [f"{size.text(line[kind])} {mark.get(line['verdict'], '')}".strip() for size, line in cells]
                if any(texts):
                    shown.append(((column, kind), texts))
        frame = pd.DataFrame([texts for _, texts in shown]).T
        frame.columns = pd.MultiIndex.from_tuples([names for names, _ in shown])
        return frame

    def _lines(self, study: Any) -> list[tuple[Size, dict[str, Any]]]:
        return list(zip(self.sizes, self.judged(study), strict=True))

    def frame(self, study: Any) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(self.judged(study), columns=list(FRAME_COLUMNS))

    def notes(self, study: Any) -> list[str]:
        lines = self._lines(study)
        there = {found["verdict"] for _, found in lines}
        said = [f"{marked(verdict)}: {VERDICTS[verdict]}." for verdict in VERDICTS if verdict in there]
        places: dict[tuple[str, str], list[str]] = {}
        for size, found in lines:
            if found["reason"]:
                places.setdefault((size.column, found["reason"]), []).append(size.row)
        return said + [f"{column} ({', '.join(rows)}): {reason}." for (column, reason), rows in places.items()]
