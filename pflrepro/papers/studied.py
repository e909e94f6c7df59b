"""An artefact at a scale, and what a store holds of it; it trains nothing and shows nothing."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pflrepro.errors import MissingData, RunFailed, UserError, check_range
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.identity import run_id
from pflrepro.experiments.result import Run
from pflrepro.experiments.store import Store
from pflrepro.metrics.curves import unfinished
from pflrepro.papers.artefact import FIDELITIES, INSTEAD, SAME, STAND_IN, Artefact, Column, Row
from pflrepro.papers.availability import missing_data
from pflrepro.papers.claims import Grid, best
from pflrepro.papers.judging import Counts, Outcome, judge
from pflrepro.papers.measures import Evidence, Measure, Value
from pflrepro.papers.measuring import Measuring
from pflrepro.papers.numbers import find_number
from pflrepro.papers.result import FRAME_COLUMNS, Cell, Cells, marked
from pflrepro.papers.settings import Setting

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from pflrepro.simulation.simulation import Simulation


TIMED_SEED = 1000  # the first seed of an artefact of times: no other table runs it


class Studied:
    """An artefact at a scale, with its evidence.

    Attributes:
        seeds: so many (None: the scale's).
        methods, asked_columns: the rows to train, by key, label or method, and the columns, by key or label (empty: the scale's own);
            the table shows whatever the store holds.
        also: rows of one's own, beside the paper's.
        device: where models are looked at.
        revives: whether models are, for what is not measured yet; False: everything is only read.
        asked: the ids of the runs that were looked for, whether they are there or not; whose data are absent have none.
    """

    def __init__(
        self,
        artefact: Artefact,
        scale: str = "fast",
        *,
        seeds: int | None = None,
        methods: Sequence[str] = (),
        columns: Sequence[str] = (),
        also: Sequence[Row] = (),
        store: Store | str | Path | None = None,
        data_root: str | Path | None = None,
        device: str = "cpu",
        revives: bool = True,
    ) -> None:
        self.artefact, self.scale = artefact.also(*also), artefact.scale(scale)
        self.also = tuple(row.key for row in also)
        self.store = store if isinstance(store, Store) else Store(store)
        self.data_root, self.device, self.revives = data_root, device, revives
        self._newest: dict[tuple[str, int], Simulation] = {}
        self._found: dict[tuple[str, Experiment], Run] = {}
        self._progress = True
        self.asked: set[str] = set()
        self.asked_seeds, self.methods = seeds, tuple(methods)
        self.seeds = self.scale.seeds if seeds is None else check_range("seeds", seeds, 1, integer=True)
        wanted = self.artefact.chosen_rows(self.scale, self.methods)
        self.trained = tuple(row for row in self.artefact.rows if row in wanted or row.key in self.also)
        self.asked_columns = tuple(columns)
        self.trained_columns = self.artefact.chosen_columns(self.scale, self.asked_columns)

    # ---- what is run -------------------------------------------------------------------------------------------------------
    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of the artefact, and those of one's own."""
        return self.artefact.rows

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that are part of the scale."""
        return self.artefact.chosen_columns(self.scale)

    def has(self, row: Row, column: Column) -> bool:
        """Whether there is a cell: where the paper has one, and in every column for a row of one's own."""
        return column.has(row) or row.key in self.also

    def experiments(self, row: Row, column: Column) -> list[Experiment]:
        """The experiments of one cell, one a seed; `UserError` says why there is none."""
        setting = self.scale.setting(column)
        if setting is None:
            raise UserError(f"not part of the scale {self.scale.name}")
        if row.setting and not self.scale.stand_in:
            setting = setting.with_(**dict(row.setting))
        algorithm = column.method(row)
        self.measure(row, column).check(algorithm)
        options = row.options_on(setting.model, setting.dataset) | dict(column.options)
        options |= self.scale.options.get(row.key, {})
        changes = self.scale.changes(column, setting)
        if self.scale.stand_in:
            options = {name: min(value, 2) if _long(name, value) else value for name, value in options.items()}
        changes |= {name: value for name, value in row.changes if not (self.scale.stand_in and _long(name, value))}
        if self.artefact.timed:
            changes["evaluate_after"] = False  # it would count as training
        first = setting.experiment(algorithm, options, 0, **changes)
        start = TIMED_SEED if self.artefact.timed else 0
        return [first.changed(seed=seed) for seed in range(start, start + self.seeds)]

    def measure(self, row: Row, column: Column) -> Measure:
        """What is measured of a cell, in the form that the scale affords."""
        return (row.measure or column.measure).at(self.scale.name)

    # ---- what was found ----------------------------------------------------------------------------------------------------
    @cached_property
    def cells(self) -> Cells:
        """Every cell, by row and column key, with what the store holds of it; what is not measured yet is, with a bar."""
        places = [(row, column) for row in self.rows for column in self.artefact.columns if self.has(row, column)]
        found = {}
        with Measuring(len(places), self._progress) as measuring:
            for row, column in places:
                found[row.key, column.key] = self._cell(row, column, measuring)
                measuring.next()
        return Cells(found)

    def runs(self, row: Row, column: Column) -> tuple[dict[int, Run], str]:
        """(seed -> finished run, why there are fewer than asked for)."""
        try:
            experiments = self.experiments(row, column)
        except UserError as error:
            return {}, str(error)
        there, reason = {}, ""
        for experiment in experiments:
            try:
                run = self.find(experiment)
            except MissingData as error:  # nothing can be identified; no path of this machine in what is written
                if self.revives:  # what is only read is the same on every machine
                    reason = self.lacking(experiment) or str(error)
                continue
            if run is not None:
                there[experiment.seed] = run
        if len(there) == len(experiments):
            return there, ""
        if there:
            return there, f"{len(there)} of {len(experiments)} seeds run"
        return there, self._not_run(row, reason)

    def _not_run(self, row: Row, reason: str) -> str:
        of_scale = row in (*self.trained, *self.artefact.chosen_rows(self.scale))
        return reason or "no finished run in the store" if of_scale else f"not part of the scale {self.scale.name}"

    def find(self, experiment: Experiment) -> Run | None:
        """The finished run of an experiment, or None; `MissingData` where it can neither be identified nor came with the package.

        A run is read and checked once: cells of several measures, gains over a row and views share it.
        """
        try:
            place = (run_id(experiment, self.data_root), experiment)
        except MissingData:
            recorded = self.store.recorded(experiment)
            if recorded is None:
                raise
            return recorded
        self.asked.add(place[0])
        found = self._found.get(place) or self.store.answer(*place)
        if found is not None:
            self._found[place] = found
        return found

    def evidence(self, row: str, column: str) -> list[Evidence]:
        """What was run of a cell, one a seed, to look further into."""
        runs, _ = self.runs(self.artefact.row(row), self.artefact.column(column))
        return [self._evidence(run, row, column) for run in runs.values()]

    def _evidence(self, run: Run, row: str, column: str, **how: Any) -> Evidence:
        seed = run.experiment.seed

        def beside(row: str = row, column: str = column) -> Evidence | None:
            # also of a row that has no cell of its own there
            other = self.runs(self.artefact.row(row), self.artefact.column(column))[0].get(seed)
            return None if other is None else self._evidence(other, row, column, **how)

        return Evidence(run, self.store, self.data_root, self.device, beside, self._newest, self.revives, **how)

    def _cell(self, row: Row, column: Column, measuring: Measuring) -> Cell:
        measure = self.measure(row, column)
        labels = (row.label, *row.aliases)
        printed = find_number(self.artefact.sources, labels, dict(column.printed) | dict(row.printed), measure.metric)
        runs, reason = self.runs(row, column)
        values: dict[int, Value] = {}
        for seed, run in runs.items():
            try:
                values[seed] = measure.of(self._evidence(run, row.key, column.key, measuring=measuring.begin))
            except (UserError, RunFailed) as error:  # a measure on models needs the data, where no reading is kept
                reason = str(error)
        without = sum(math.isnan(value.number) for value in values.values())
        if without and not reason:  # such as the rounds to a threshold that was not reached
            whose = "these runs" if without == len(values) else f"{without} of {len(values)} runs"
            reason = f"{measure.title} has no value in {whose}"
        apart = [f"seed {seed} {run.diverged}" for seed, run in runs.items() if run.diverged]
        reason = "; ".join(filter(None, (reason, *apart)))  # no number of such a run stands in a table unseen
        fidelity = self.scale.fidelity(column)
        rising = fidelity != STAND_IN and bool(runs) and self._rising(measure, row, column, runs)
        return Cell(row, column, measure, fidelity, printed, values, runs, reason, rising)

    def _rising(self, measure: Measure, row: Row, column: Column, runs: Mapping[int, Run]) -> bool:
        """Whether a run behind the number has fewer rounds than the paper's, and what is measured has not come to an end in them."""
        if measure.curve is None:
            return False
        named = [(one or row.key, other or column.key) for one, other in measure.beside]
        beside = [(self.artefact.row(one), self.artefact.column(other)) for one, other in named]
        behind = [(column, runs), *((of, self.runs(one, of)[0]) for one, of in beside)]
        return any(
            run.experiment.settings.rounds == run.rounds < of.setting.settings.rounds  # not ended by the stop rule
            and unfinished(measure.curve(run.history), run.history["round"])
            for of, found in behind
            for run in found.values()
        )

    @cached_property
    def outcomes(self) -> list[Outcome]:
        """Every claim that could be checked; none at the scale of stand-ins."""
        return [] if self.scale.stand_in else judge(self.artefact.claims, self.grid)

    @cached_property
    def own_outcomes(self) -> list[Outcome]:
        """Each row of one's own against each of the paper's rows, in each column; none at the scale of stand-ins."""
        mine = [best(key) for key in self.also]
        return [] if self.scale.stand_in or not mine else judge(mine, self.grid)

    @cached_property
    def grid(self) -> Grid:
        """What was measured, as claims are judged by it."""
        samples = {key: sample for key, cell in self.cells.items() if (sample := cell.sample()).numbers}
        names = {column.key: self.artefact.name_of(column) for column in self.artefact.columns}
        labels = {row.key: row.label for row in self.rows} | names
        lower = frozenset(key for key, cell in self.cells.items() if cell.measure.better == "lower")
        keys = tuple(key for key in self.artefact.row_keys if key not in self.also)
        return Grid(keys, self.artefact.column_keys, samples, lower, labels)

    @property
    def counts(self) -> Counts:
        """How the claims came out."""
        return Counts.of(self.outcomes)

    @property
    def frame(self) -> pd.DataFrame:
        """One line a cell, and what views judge besides, see `papers.result.FRAME_COLUMNS`.

        Numbers are in the measure's unit, NaN where there is none.
        """
        import pandas as pd

        return pd.DataFrame(self.lines, columns=list(FRAME_COLUMNS))

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The lines of the frame."""
        cells = [cell.line(self.artefact, self.scale.name, self.outcomes) for cell in self.cells.values()]
        return cells + [line for view in self.artefact.views for line in view.judged(self)]

    @property
    def verdict(self) -> str:
        """The verdicts of all cells in one line, such as `2 ≈ within tolerance, 106 – not run`."""
        counts = self.frame["verdict"].value_counts()
        return ", ".join(f"{count} {marked(word)}" for word, count in counts.items()) or "nothing is judged"

    @property
    def anything_run(self) -> bool:
        """Whether the store holds anything of it, or nothing is trained for it."""
        return not self.artefact.trains or any(cell.runs for cell in self.cells.values())

    # ---- what is shown -----------------------------------------------------------------------------------------------------
    def tables(self) -> list[tuple[pd.DataFrame, list[str]]]:
        """The tables of the artefact's views, as data frames of texts, each with its notes."""
        found = [(view.table(self), view.notes(self)) for view in self.artefact.views]
        return [(table, notes) for table, notes in found if table is not None]

    def figures(self) -> dict[str, Figure]:
        """The pictures by name, the main one under "" where there is one."""
        return {name: figure for view in self.artefact.views for name, figure in view.figures(self).items()}

    @property
    def command(self) -> str:
        """The command that makes this study."""
        seeds = f" --seeds {self.asked_seeds}" if self.asked_seeds is not None else ""
        keys = ",".join(self.artefact.row(name).key for name in self.methods)
        methods = f" --methods {shlex.quote(keys)}" if keys else ""
        keys = ",".join(column.key for column in self.trained_columns) if self.asked_columns else ""
        columns = f" --columns {shlex.quote(keys)}" if keys else ""
        own = [self.artefact.row(key) for key in self.also]
        asked = [" ".join([row.algorithm, *(f"{name}={value}" for name, value in row.options)]) for row in own]
        also = "".join(f" --also {shlex.quote(text)}" for text in asked)
        return f"pflrepro reproduce {self.artefact.id} --scale {self.scale.name}{seeds}{methods}{columns}{also}"

    def setting(self, column: Column) -> Setting:
        """What is trained for a column, or would be where it is not part of the scale."""
        return self.scale.setting(column) or column.setting

    def fidelity(self, column: Column) -> str:
        """How near to the paper's a column is at this scale, in words."""
        fidelity = self.scale.fidelity(column)
        said = FIDELITIES[fidelity]
        if fidelity == INSTEAD:
            said = f"{self.setting(column).label} in place of {column.setting.label}: {said}"
        return said if fidelity == SAME or not column.setting.reduced else f"{said} ({column.setting.reduced})"

    def lacking(self, experiment: Experiment) -> str | None:
        """Why the data of an experiment are not at hand, or None."""
        names = filter(None, (experiment.data.dataset, experiment.data.proxy))
        return next(filter(None, (missing_data(name, self.data_root) for name in names)), None)

    def __repr__(self) -> str:
        run = sum(bool(cell.runs) for cell in self.cells.values())
        return f"{type(self).__name__}({self.artefact.id} at scale {self.scale.name}: {run} of {len(self.cells)} cells run)"


def _long(name: str, value: Any) -> bool:
    """Whether a setting says how much work there is, of which a stand-in does little."""
    return isinstance(value, int) and not isinstance(value, bool) and name.endswith(("epochs", "steps", "passes"))
