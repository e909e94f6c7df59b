"""A study: an artefact at a scale, with its evidence.

    study = papers.study("dbe/table5", scale="fast", seeds=3)
    study.plan(); study.run(); study.frame; study.table(); study.show(); study.claims(); study.write("figures")

It trains nothing before `run`; everything else reads what the store holds. In a notebook it shows itself: what is trained, on which
data, with which options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pflrepro.algorithms.registry import canonical_name
from pflrepro.errors import MissingData, UserError, check_range
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.result import Run
from pflrepro.experiments.run import run as train
from pflrepro.experiments.store import Store
from pflrepro.papers.artefact import INSTEAD, LEVELS, SAME, STAND_IN, Artefact, Column, Row, Scale
from pflrepro.papers.artefact import row as make_row
from pflrepro.papers.availability import missing_data, missing_part
from pflrepro.papers.claims import Counts, Grid, Outcome, judge
from pflrepro.papers.measures import Evidence, Value
from pflrepro.papers.numbers import find_number
from pflrepro.papers.registry import find
from pflrepro.papers.result import FRAME_COLUMNS, Cell
from pflrepro.papers.settings import Setting

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from pflrepro.papers.planning import Planned

LAST_TENTH = 0.9
Key = tuple[str, str]


class Study:
    """An artefact at a scale.

    seeds: so many (None: the scale's). methods: keys or labels of the rows to train (empty: the scale's own); the table shows whatever
    the store holds. also: own methods beside the paper's, `module:Class` or registered names, in a block of their own. device: where
    models are looked at.
    """

    def __init__(
        self,
        artefact: str | Artefact,
        scale: str = "fast",
        *,
        seeds: int | None = None,
        methods: Sequence[str] = (),
        also: Sequence[str] = (),
        store: Store | str | Path | None = None,
        data_root: str | Path | None = None,
        device: str = "cpu",
    ) -> None:
        paper = find(artefact)
        self.artefact = paper.also(*(_own_row(name, paper) for name in also)) if also else paper
        self.also = tuple(row.key for row in self.artefact.rows[len(paper.rows) :])
        self.scale: Scale = paper.scale(scale)
        self.store = store if isinstance(store, Store) else Store(store)
        self.data_root, self.device = data_root, device
        self.asked_seeds, self.methods = seeds, tuple(methods)
        self.seeds = self.scale.seeds if seeds is None else check_range("seeds", seeds, 1, integer=True)
        wanted = self.artefact.chosen_rows(self.scale, self.methods)
        self.trained = tuple(row for row in self.artefact.rows if row in wanted or row.key in self.also)

    # ---- what is run -------------------------------------------------------------------------------------------------------
    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of the artefact, and those of one's own."""
        return self.artefact.rows

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that are part of the scale."""
        return tuple(column for column in self.artefact.columns if self.scale.setting(column) is not None)

    def experiments(self, row: Row, column: Column) -> list[Experiment]:
        """The experiments of one cell, one a seed; `UserError` says why there is none."""
        setting = self.scale.setting(column)
        if not column.has(row):
            raise UserError("not a cell of the paper's")
        if setting is None:
            raise UserError(f"not part of the scale {self.scale.name}")
        if row.setting and not self.scale.stand_in:
            setting = setting.with_(**dict(row.setting))
        lacking = missing_part(row.algorithm, setting.dataset, setting.model)
        if lacking is not None:
            raise UserError(lacking)
        options = row.options_on(setting.model) | dict(self.scale.options.get(row.key, {}))
        changes = self.scale.changes(setting)
        if self.scale.stand_in:
            options = {name: min(value, 2) if _long(name, value) else value for name, value in options.items()}
        changes |= {name: value for name, value in row.changes if not (self.scale.stand_in and _long(name, value))}
        return [setting.experiment(row.algorithm, options, seed, **changes) for seed in range(self.seeds)]

    def moments(self, row: Row, column: Column) -> tuple[str | int, ...]:
        """The moments whose models the cell's measure needs, but the last, which is always kept."""
        measure = row.measure or column.measure
        return tuple(moment for moment in measure.moments if moment != "last")

    def plan(self) -> list[Planned]:
        """Every training that the artefact needs at this scale, what is there already, and what the rest may cost."""
        from pflrepro.papers.planning import plan

        return plan(self)

    def run(
        self, *, backend: str = "auto", device: str | None = None, workers: int | None = None, progress: bool = True
    ) -> list[Planned]:
        """Train what the store lacks; gives the plan as it stood before. What is there is not touched.

        Cells whose data are not at hand or whose parts are not in the package stay `not run`; if nothing at all can be run, the error
        says why.
        """
        planned = self.plan()
        todo = [entry for entry in planned if entry.state == "to run"]
        if planned and not todo and not any(entry.state == "done" for entry in planned):
            raise self._nothing(planned)
        how = {"backend": backend, "device": device or self.device, "workers": workers, "progress": progress}
        by_moments: dict[tuple[str | int, ...], list[Experiment]] = {}
        for entry in todo:
            by_moments.setdefault(entry.keep, []).append(entry.experiment)
        for keep, experiments in by_moments.items():
            train(experiments, store=self.store, data_root=self.data_root, keep=keep, **how)
        self.__dict__.pop("cells", None)
        self.__dict__.pop("outcomes", None)
        return planned

    def _nothing(self, planned: Sequence[Planned]) -> UserError:
        lacking = sorted({entry.reason for entry in planned if entry.state == "no data"})
        where = f"{self.artefact.id} at scale {self.scale.name}"
        if lacking:
            return MissingData(f"{where}: {lacking[0]}; offline works: --scale smoke")
        return UserError(f"nothing of {where} can be run: {'; '.join(sorted({entry.reason for entry in planned})[:3])}")

    # ---- what was found ----------------------------------------------------------------------------------------------------
    @cached_property
    def cells(self) -> Mapping[Key, Cell]:
        """Every cell, by row and column key, with what the store holds of it."""
        return {(row.key, column.key): self._cell(row, column) for row in self.rows for column in self.artefact.columns}

    def runs(self, row: Row, column: Column) -> tuple[dict[int, Run], str]:
        """(seed -> finished run, why there are fewer than asked for)."""
        try:
            experiments = self.experiments(row, column)
            found = {each.seed: self.store.find(each, self.data_root) for each in experiments}
        except UserError as error:  # missing data are one: nothing can be identified
            return {}, str(error)
        there = {seed: run for seed, run in found.items() if run is not None}
        if len(there) == len(experiments):
            return there, ""
        reason = f"{len(there)} of {len(experiments)} seeds run" if there else "no finished run in the store"
        return there, reason

    def evidence(self, row: str, column: str) -> list[Evidence]:
        """What was run of a cell, one a seed, to look further into."""
        runs, _ = self.runs(self.artefact.row(row), self.artefact.column(column))
        return [self._evidence(run, row, column) for run in runs.values()]

    def _evidence(self, run: Run, row: str, column: str) -> Evidence:
        seed = run.experiment.seed

        def beside(row: str = row, column: str = column) -> Evidence | None:
            other = self.runs(self.artefact.row(row), self.artefact.column(column))[0].get(seed)
            return None if other is None else self._evidence(other, row, column)

        return Evidence(run, self.store, self.data_root, self.device, beside)

    def _cell(self, row: Row, column: Column) -> Cell:
        measure = row.measure or column.measure
        labels = (row.label, *row.aliases)
        printed = find_number(self.artefact.sources, labels, dict(column.printed) | dict(row.printed), measure.metric)
        runs, reason = self.runs(row, column)
        values: dict[int, Value] = {}
        for seed, run in runs.items():
            values[seed] = measure.of(self._evidence(run, row.key, column.key))
        level = self.scale.level(column)
        return Cell(row, column, level, printed, values, runs, reason, self._rising(runs, column, level))

    def _rising(self, runs: Mapping[int, Run], column: Column, level: str) -> bool:
        """Whether a run is an unfinished curve: fewer rounds than the paper's, and its best in the last tenth of them."""
        paper = column.setting.settings.rounds
        return level != STAND_IN and any(
            run.rounds < paper
            and run.experiment.settings.patience == 0
            and run.round_of("best") > LAST_TENTH * run.rounds
            for run in runs.values()
        )

    @cached_property
    def outcomes(self) -> list[Outcome]:
        """Every claim that could be checked; none at the scale of stand-ins."""
        if self.scale.stand_in:
            return []
        samples = {key: sample for key, cell in self.cells.items() if (sample := cell.sample()).numbers}
        measures = {column.key: column.measure for column in self.artefact.columns}
        labels = {row.key: row.label for row in self.rows} | {each.key: each.label for each in self.artefact.columns}
        lower = frozenset(key for key, measure in measures.items() if measure.better == "lower")
        keys = tuple(key for key in self.artefact.row_keys if key not in self.also)
        return judge(self.artefact.claims, Grid(keys, self.artefact.column_keys, samples, lower, labels))

    @property
    def counts(self) -> Counts:
        """How the claims came out."""
        return Counts.of(self.outcomes)

    @property
    def frame(self) -> pd.DataFrame:
        """One line a cell, see `papers.result.FRAME_COLUMNS`; numbers in the measure's unit, NaN where there is none."""
        import pandas as pd

        lines = [cell.line(self.artefact, self.scale.name, self.outcomes) for cell in self.cells.values()]
        return pd.DataFrame(lines, columns=list(FRAME_COLUMNS))

    @property
    def verdict(self) -> str:
        """The verdicts of all cells in one line, such as `2 within tolerance, 106 not run`."""
        counts = self.frame["verdict"].value_counts()
        return ", ".join(f"{count} {word}" for word, count in counts.items()) or "nothing is judged"

    @property
    def anything_run(self) -> bool:
        """Whether the store holds anything of it, or nothing is trained for it."""
        return not self.artefact.trains or any(cell.runs for cell in self.cells.values())

    # ---- what is shown -----------------------------------------------------------------------------------------------------
    def table(self) -> Any:
        """The tables of the artefact's views, as a notebook shows them."""
        from pflrepro.papers.showing import Tables

        return Tables([table for view in self.artefact.views if (table := view.table(self)) is not None])

    def figures(self) -> dict[str, Figure]:
        """The pictures by name, the main one under "" where there is one."""
        return {name: figure for view in self.artefact.views for name, figure in view.figures(self).items()}

    def show(self) -> Any:
        """The pictures, as a notebook shows them."""
        from pflrepro.papers.showing import Pictures

        return Pictures(self.figures())

    def claims(self) -> pd.DataFrame:
        """One line a claim that could be checked, ready to read."""
        from pflrepro.papers.showing import claims

        return claims(self)

    def write(self, out: str | Path = "figures") -> list[Path]:
        """Write `<out>/<paper>/<artefact>.{pdf,png,csv,md}`; gives the paths."""
        from pflrepro.papers.outputs import write

        return write(self, out)

    @property
    def command(self) -> str:
        """The command that makes this study."""
        seeds = f" --seeds {self.asked_seeds}" if self.asked_seeds is not None else ""
        methods = f" --methods {','.join(self.methods)}" if self.methods else ""
        also = "".join(f" --also {name}" for name in self.also)
        return f"pflrepro reproduce {self.artefact.id} --scale {self.scale.name}{seeds}{methods}{also}"

    def caption(self) -> str:
        """What stands under every number and picture: scale, data, seeds, rounds, rule."""
        from pflrepro.papers.showing import caption

        return caption(self)

    def setting(self, column: Column) -> Setting:
        """What is trained for a column, or would be where it is not part of the scale."""
        return self.scale.setting(column) or column.setting

    def level(self, column: Column) -> str:
        """How near to the paper's a column is at this scale, in words."""
        level = self.scale.level(column)
        said = LEVELS[level]
        if level == INSTEAD:
            said = f"{self.setting(column).label} in place of {column.setting.label}: {said}"
        return said if level == SAME or not column.setting.reduced else f"{said} ({column.setting.reduced})"

    def lacking(self, column: Column) -> str | None:
        """Why the data of a column are not at hand, or None."""
        return missing_data(self.setting(column).dataset, self.data_root)

    def __repr__(self) -> str:
        run = sum(bool(cell.runs) for cell in self.cells.values())
        return f"Study({self.artefact.id} at scale {self.scale.name}: {run} of {len(self.cells)} cells run)"

    def _repr_html_(self) -> str:
        from pflrepro.papers.showing import page

        return page(self)


def study(artefact: str | Artefact, scale: str = "fast", **how: Any) -> Study:
    """`Study(artefact, scale, ...)`; `UserError` for an unknown artefact, scale or row.

    Example:
        >>> study("fedbr/table7", "paper").artefact.title
        'FedBR Table 7: parameters that travel, and simulation time'
    """
    return Study(artefact, scale, **how)


def _long(name: str, value: Any) -> bool:
    """Whether a setting says how much work there is, of which a stand-in does little."""
    return isinstance(value, int) and not isinstance(value, bool) and name.endswith(("epochs", "steps", "passes"))


def _own_row(name: str, artefact: Artefact) -> Row:
    """A row for a method of one's own, `module:Class` or the name of a registered one."""
    known = canonical_name(name)
    key = known if known not in artefact.row_keys else f"own {known}"
    return make_row(name.rsplit(":", 1)[-1], known, key=key, note="not of the paper")
