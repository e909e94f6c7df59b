"""A study: an artefact at a scale, with its evidence.

    study = papers.study("dbe/table5", scale="fast", seeds=3)
    study.plan(); study.run(); study.frame; study.table(); study.show(); study.claims(); study.summary(); study.explore(); study.write()

It trains nothing before `run`; everything else reads what the store holds. In a notebook it shows itself: what is trained, on which
data, with which options.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pflrepro.algorithms.lists import words
from pflrepro.algorithms.registry import build_method, canonical_name, parse_options
from pflrepro.errors import MissingData, Paused, RunFailed, UserError
from pflrepro.experiments.callbacks import Callback
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.identity import has_horizon
from pflrepro.experiments.run import run as train
from pflrepro.experiments.store import Store
from pflrepro.experiments.sweep import sweep
from pflrepro.papers import outputs, sentences, showing
from pflrepro.papers.artefact import Artefact, Row
from pflrepro.papers.artefact import row as make_row
from pflrepro.papers.pairs import pair
from pflrepro.papers.planning import Plan, plan
from pflrepro.papers.registry import find, select
from pflrepro.papers.studied import Studied
from pflrepro.papers.timing import Timings

if TYPE_CHECKING:
    from pflrepro.algorithms.contract import Method
    from pflrepro.experiments.launchers import Launcher
    from pflrepro.papers.exploring import CellExplorer
    from pflrepro.papers.result import Cell

log = logging.getLogger("pflrepro.papers")


class Study(Studied):
    """An artefact at a scale, to run and to look at; see `Studied` for what it holds.

    Lists of rows, columns and methods may be given as the command line takes them, too: `fedavg,ditto`. `UserError` for an unknown
    artefact, scale, row or column.

    Example:
        >>> study("fedbr/table7", "paper").artefact.title
        'FedBR Table 7: parameters that travel, and simulation time'

    Attributes:
        artefact: its id, or one of one's own.
        methods: the rows to train, by key, label or method.
        columns: the columns to train, by key or label.
        also: methods of one's own beside the paper's, classes, `module:Class` or registered names, with options where these are not
            the class's own defaults: `my_module:MyMethod mu=0.1`.
    """

    def __init__(
        self,
        artefact: str | Artefact,
        scale: str = "fast",
        *,
        seeds: int | None = None,
        methods: str | Sequence[str] = (),
        columns: str | Sequence[str] = (),
        also: str | Sequence[str | type[Method]] = (),
        store: Store | str | Path | None = None,
        data_root: str | Path | None = None,
        device: str = "cpu",
        revives: bool = True,
    ) -> None:
        paper = find(artefact)
        own = tuple(_own_row(name, paper) for name in words("also", also))
        keys = [row.key for row in own]
        if twice := [key for key in dict.fromkeys(keys) if keys.count(key) > 1]:
            raise UserError(f"also has {', '.join(map(repr, twice))} several times, which are one row")
        places = {"store": store, "data_root": data_root or None, "device": device}
        chosen = {name: words(name, given) for name, given in (("methods", methods), ("columns", columns))}
        super().__init__(paper, scale, seeds=seeds, also=own, revives=revives, **chosen, **places)

    def plan(self) -> Plan:
        """Every training that the artefact needs at this scale, what is there already, and what the rest may cost here."""
        return plan(self, Timings(self.store.root))

    def run(
        self,
        *,
        backend: str = "auto",
        workers: int | None = None,
        progress: bool = True,
        launcher: str | Launcher | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> Plan:
        """Train what the store lacks, and measure its models; what is there is not touched. Gives the plan as it stands then.

        With a launcher the runs are a sweep (`pflrepro.sweep`): in processes, or on a cluster that shares the store; of an artefact of
        times only with `serial`, or a function of one's own. `callbacks`: as `pflrepro.run`'s.

        Cells whose data are not at hand, which a warning says, or that cannot be built stay `not run`; if nothing at all
        can be run, the error says why.
        """
        if self.artefact.timed and isinstance(launcher, str) and launcher != "serial":
            raise UserError(
                f"{self.artefact.id} takes times, of runs that have the machine alone: no launcher but serial"
            )
        planned = plan(self)
        if self.artefact.trains and not planned:
            raise UserError(f"nothing of {self.artefact.id} is in these rows and columns at scale {self.scale.name}")
        todo = [entry for entry in planned if entry.state == "to run"]
        if planned and not todo and not any(entry.state == "done" for entry in planned):
            raise self._nothing(planned)
        if planned.lacking:
            log.warning("%s at scale %s: %s", self.artefact.id, self.scale.name, planned.lacking)
        where = {"store": self.store, "data_root": self.data_root, "device": self.device}
        how = {"backend": backend, "workers": workers, "progress": progress, "callbacks": callbacks}
        trained = train if launcher is None else partial(sweep, launcher=launcher)
        experiments = [entry.experiment for entry in todo]
        parts = [part for part in (_halves(experiments) if self.artefact.timed else [experiments]) if part]
        try:
            # one method that fails keeps the others at no half
            failed = [error for part in parts if (error := _failure(partial(trained, part, **where, **how)))]
        finally:
            for found in ("cells", "grid", "outcomes", "own_outcomes"):
                self.__dict__.pop(found, None)
        if failed:
            raise failed[-1]
        if self.artefact.trains:
            self._progress = progress
            _ = self.cells  # here, where a bar shows how far
        return plan(self) if todo else planned

    def _nothing(self, planned: Plan) -> UserError:
        lacking = sorted({entry.reason for entry in planned if entry.state == "no data"})
        where = f"{self.artefact.id} at scale {self.scale.name}"
        if lacking:
            without = ", ".join(each.id for each in select(self.artefact.paper) if not each.trains)
            exact = f", and {without}" if without else ""
            return MissingData(f"{where}: {'; '.join(lacking)}; without data work --scale smoke{exact}")
        return UserError(f"nothing of {where} can be run: {'; '.join(sorted({entry.reason for entry in planned})[:3])}")

    def table(self) -> showing.Tables:
        """The tables of the artefact's views, as a notebook shows them."""
        return showing.Tables(self.caption(), self.tables())

    def show(self) -> showing.Pictures:
        """The pictures, as a notebook shows them."""
        return showing.Pictures(self.figures())

    def claims(self) -> showing.Tables:
        """The claims that could be checked with their tests, then own rows against the paper's, as a notebook shows them.

        `outcomes` and `own_outcomes` have them as numbers.
        """
        found = [(showing.claims(self), [])] if self.outcomes else []
        if self.own_outcomes:
            found.append((showing.own_claims(self), [showing.OWN_CLAIMS]))
        return showing.Tables(f"claims: {self.counts}", found)

    def summary(self) -> sentences.Sentences:
        """What was found, in plain sentences made from the numbers."""
        return sentences.summary(self)

    def explore(self) -> CellExplorer:
        """The table as widgets: a cell that is clicked shows its runs, curves, clients, configuration and commands."""
        from pflrepro.papers.exploring import CellExplorer

        return CellExplorer(self)

    def pair(self, row: str = "", rival: str = "", column: str = "") -> tuple[Cell, Cell]:
        """Two cells of a column whose numbers are accuracies of curves, to look behind one beside the other; see `pairs.pair`."""
        return pair(self, row, rival, column)

    def caption(self) -> str:
        """What stands under every number and picture: scale, data, seeds, rounds, rule."""
        return showing.caption(self)

    def write(self, out: str | Path = "") -> list[Path]:
        """Write `<out>/<paper>/<artefact>.{pdf,png,csv,tex,md}`; gives the paths; `out`: see `papers.outputs.folder`."""
        return outputs.write(self, out)

    def _repr_html_(self) -> str:
        return showing.page(self)


def _failure(work: Callable[[], Any]) -> UserError | RunFailed | None:
    """How `work` failed, if it did; what pauses it is no failure."""
    try:
        work()
    except Paused:
        raise
    except (UserError, RunFailed) as error:
        return error
    return None


def _halves(experiments: Sequence[Experiment]) -> tuple[list[Experiment], list[Experiment]]:
    """All runs to the half of their rounds, then, in reverse order, to the end; one that cannot go on is trained whole, in the second.

    Each method then stands as early as late on average, so that a machine that gets slower makes none of them look slow.
    """
    growing = [each for each in experiments if each.settings.rounds > 1 and not has_horizon(each)]
    half = [each.with_settings(rounds=each.settings.rounds // 2) for each in growing]
    return half, list(experiments[::-1])


study = Study  # as a reader calls it: `papers.study("dbe/table5")`


def to_redraw(artefact: Artefact, scale: str | None = None, figures: str | Path = "", **how: Any) -> Study | None:
    """The study of an artefact at the scale, or at that of the outputs in `figures`, else of the committed ones, or, where nothing was
    run at it, at the one of which most cells were run, of equals the most exact; None without any."""
    names = artefact.exact_scales if scale is None else (scale,)
    studies = [Study(artefact, name, revives=False, **how) for name in names]
    run = [study for study in studies if study.anything_run]
    there = outputs.shown_scale(artefact, figures)

    def fullest(study: Study) -> tuple[bool, int]:
        return study.scale.name == there, sum(bool(cell.runs) for cell in study.cells.values())

    return max(run, key=fullest, default=None)


def _own_row(name: str, artefact: Artefact) -> Row:
    """A row for a method of one's own, `module:Class` or the name of a registered one, with options behind it (`fedprox mu=0.1`).

    `UserError` where there is none, or for an option that it has not.
    """
    method, *given = name.split() or [""]
    known = canonical_name(method)
    options = parse_options(known, given)
    build_method(known, options)
    text = " ".join([known, *given])
    key = text if text not in (*artefact.row_keys, *artefact.column_keys) else f"own {text}"
    label = " ".join([method.rsplit(":", 1)[-1], *given])
    taken = any(label == row.label for row in artefact.rows)
    made = make_row(f"{label} (own)" if taken else label, known, key=key, note="not of the paper")
    return replace(made, options=tuple(options.items()))
