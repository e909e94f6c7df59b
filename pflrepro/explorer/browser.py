"""`pflrepro.browse()`: runs as one table to filter, to sort and to pick from; what is picked is laid over each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets
import numpy as np
from itables.widget import ITable

from pflrepro.errors import UserError, is_several
from pflrepro.experiments.compare import Compared, check_run
from pflrepro.experiments.listing import listed
from pflrepro.experiments.result import Run
from pflrepro.experiments.run import open_store
from pflrepro.experiments.runs import ALWAYS, RESULTS, Runs, check_filter, fits
from pflrepro.experiments.store import Store
from pflrepro.explorer import pictures
from pflrepro.explorer.controls import Displayed, code, note

if TYPE_CHECKING:
    import pandas as pd

MOST = 30  # runs that are drawn at once
FEW = 20  # lines of the table where widgets are not drawn
SHOWN = 12  # digits of an id
ACCURACIES = ("accuracy", "accuracy_last")
HEAD = (
    "{count:,} runs{whose}. A click on a name sorts, the boxes below the columns filter, a click on a line draws "
    "it (with Shift: several); CSV and Excel take the lines clicked, or where none is, what the filter leaves."
)


def browse(runs: Store | str | Path | Sequence[Run] | None = None, **filter: Any) -> Browser:
    """A table of all finished runs of a store, to filter, sort, pick and export; the curves and clients of what is picked.

    The first time every run is read; what was found is kept in the store, so that later only new runs are.

    Args:
        runs: a store, see `pflrepro.Store`, or the runs themselves: those of a sweep, or of the committed tables
            (`pflrepro.Store().shipped()`); `UserError` for anything else.
        filter: as of `Store.select`.

    Example, the same without a screen:
        browser = pflrepro.browse(dataset="digits", algorithm="fedavg*")
        browser.pick(browser.frame.nlargest(3, "accuracy").index)
        browser.runs
    """
    return Browser(_source(runs), filter)


class Browser(Displayed):
    """What `browse` gives. `frame`: the columns of `Store.frame()`, a line a run; `table`: what is clicked; `runs`: those picked last;
    `after`: whether they are drawn as tested after local training.
    """

    def __init__(self, source: Store | Runs, filter: dict[str, Any]) -> None:
        stored = isinstance(source, Store)
        frame, self._whose = (listed(source.root), f" of {source.root}") if stored else (source.frame(), "")
        fitting = _fitting(frame, filter)
        self.frame, self.runs = frame.iloc[fitting].reset_index(drop=True), Runs()
        # by its place: given runs of one id may differ in their rounds
        given = [] if stored else [source[place] for place in fitting]
        self._read = (lambda row: source.get(self.frame["id"][row])) if stored else given.__getitem__
        self.table = ITable(_shown(self.frame), **_look())
        self.after = widgets.Checkbox(description="after local training", indent=False)
        self._said = widgets.HTML(note(HEAD.format(count=len(self.frame), whose=self._whose)))
        self._picked, self._pictures = widgets.HTML(), widgets.HTML()
        self.table.observe(lambda _: self._draw(), "selected_rows")
        self.after.observe(lambda _: self._draw(), "value")
        self.widget = widgets.VBox([self._said, self.table, self.after, self._picked, self._pictures])

    def pick(self, rows: Any) -> None:
        """Show the runs of these lines of `frame`, as clicks on them do, or of one; `UserError` for a line that there is not."""
        asked = list(rows) if is_several(rows) else [rows]
        for row in asked:
            if is_several(row) or row not in self.frame.index:
                raise UserError(f"no line {row!r} among the {len(self.frame)} of the frame")
        self.table.selected_rows = [int(row) for row in asked]

    def _draw(self) -> None:
        rows = self.table.selected_rows[:MOST]
        self.runs = Runs(run for row in rows if (run := self._read(row)) is not None)
        gone = len(rows) - len(self.runs)
        said = [f"the first {MOST} of {len(self.table.selected_rows)} are drawn"] * (
            len(self.table.selected_rows) > MOST
        )
        said += [f"{gone} of them cannot be read any more"] * (gone > 0)
        commands = "\n".join(f"pflrepro show {run.id[:SHOWN]}" for run in self.runs[:3])
        self._picked.value = note("; ".join(said), wrong=bool(said)) + (code(commands) if commands else "")
        shown = Compared(self.runs).runs if self.runs else {}
        after = self.after.value
        self._pictures.value = pictures.curves(shown, after) + pictures.clients(shown, after) if shown else ""

    def still(self) -> str:
        shown = _shown(self.frame).head(FEW)
        return self._said.value + shown.to_html(index=False, border=0) + self._pictures.value

    def __repr__(self) -> str:
        return f"Browser({len(self.frame):,} runs{self._whose}, {len(self.runs)} picked)"


def _source(runs: Any) -> Store | Runs:
    """The store, or the runs; `UserError` for anything else."""
    if runs is None or isinstance(runs, (Store, str, Path)):
        return open_store(runs)
    given = list(runs) if isinstance(runs, Sequence) else [runs]
    for each in given:
        check_run(each, "browse takes a store, a folder or runs")
    return Runs(given)


def _fitting(frame: pd.DataFrame, filter: dict[str, Any]) -> np.ndarray:
    """The places of the lines that a filter leaves."""
    filter = check_filter(filter)
    if not filter:
        return np.arange(len(frame))
    asked = frame[list(filter)].astype(object)
    asked = asked.where(asked.notna(), None)  # in a column of numbers a frame has NaN for what is not set
    kept = [fits(line, filter) for line in asked.to_dict("records")]
    return np.flatnonzero(kept)


def _shown(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns in which the runs differ and what came out; accuracies in per cent."""
    names = [name for name in frame if name in (*ALWAYS, *RESULTS) or frame[name].nunique(dropna=False) > 1]
    shown = frame[names].copy()
    for name in ACCURACIES:
        shown[name] = (100 * shown[name]).round(2)
    shown["seconds"], shown["id"] = shown["seconds"].round(1), shown["id"].str[:SHOWN]
    return shown.rename(columns={name: f"{name} (%)" for name in ACCURACIES})


def _look() -> dict[str, Any]:
    return {
        "select": True,
        "column_filters": "footer",  # in the head they would take the place of the names, in the exported files too
        "buttons": [{"extend": kind, "footer": False} for kind in ("csvHtml5", "excelHtml5")],
        "maxBytes": 0,  # all lines, not a sample of them
        "showIndex": False,
        "scrollX": True,
        "classes": "display nowrap compact",
        "order": [],
    }
