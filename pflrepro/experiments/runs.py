"""Several runs as one thing: a table that a notebook shows, a data frame, and those of them that are asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, fields
from fnmatch import fnmatchcase
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from pflrepro.errors import check_word, is_several
from pflrepro.experiments.config import DataConfig, Experiment
from pflrepro.experiments.result import Run
from pflrepro.markup import records
from pflrepro.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

MOST, NEWEST, FEW = 50, 20, 10  # lines that a notebook shows of runs, of a store; that a terminal shows
FIRST = ("algorithm", "options", "dataset", "partition", "clients", "model", "seed")  # columns
ALWAYS = ("algorithm", "dataset", "seed")  # shown also where all runs have one value
RESULTS = ("accuracy", "accuracy_last", "best_round", "tested_rounds", "diverged", "seconds", "device", "id")
COLUMNS = tuple(
    dict.fromkeys((*FIRST, *RESULTS, "dtype", *(each.name for kind in (DataConfig, Settings) for each in fields(kind))))
)


class Runs(list[Run]):
    """A list of runs that shows itself as a table, and so do parts of it and sums."""

    @overload
    def __getitem__(self, place: SupportsIndex) -> Run: ...
    @overload
    def __getitem__(self, place: slice) -> Runs: ...
    def __getitem__(self, place: SupportsIndex | slice) -> Run | Runs:
        found = super().__getitem__(place)
        return Runs(found) if isinstance(place, slice) else found

    def __add__(self, other: list[Any]) -> Runs:
        return Runs(super().__add__(other))

    def copy(self) -> Runs:
        return Runs(self)

    @property
    def measured(self) -> str:
        """What the accuracies are: on test samples, or, where the partitions have `+validation`, on held-out training samples."""
        return " and ".join(dict.fromkeys(run.experiment.data.measured for run in self))

    def select(self, **filter: Any) -> Runs:
        """Those of the runs whose columns (see `frame`) have these values.

        A word may be a pattern (`algorithm="fedavg*"`), a number or a word may be one of several (`seed=[0, 1]`); `diverged=True` are
        those that did, in whichever round. `UserError` for a column that there is not.

        Example:
            >>> Runs([]).select(dataset="digits")
            Runs(0)
        """
        filter = check_filter(filter)
        return Runs(run for run in self if fits(configuration(run.experiment) | results(run), filter))

    def frame(self) -> pd.DataFrame:
        """One line a run: what it is, what came out, and the rest of its configuration, each setting of the protocol as a column.

        accuracy: of the best round, as a fraction, as `Run.accuracy`; accuracy_last: of the last; best_round; tested_rounds: the last
        tested round; diverged: by which round, -1 where it did not; seconds: of training and tests; device; id. `options` are a text.
        """
        import pandas as pd

        return pd.DataFrame([configuration(run.experiment) | results(run) for run in self], columns=list(COLUMNS))

    def __repr__(self) -> str:
        more = [f"and {len(self) - FEW:,} more"] if len(self) > FEW else []
        return "\n".join([f"Runs({len(self):,})", *(f"  {run!r}" for run in self[:FEW]), *more])

    def lines(self) -> list[dict[str, Any]]:
        """The first runs as a notebook shows them: the columns in which they differ, and what came out."""
        of = [configuration(run.experiment) for run in self[:MOST]]
        names = [name for name in of[0] if name in ALWAYS or len({line[name] for line in of}) > 1] if of else []
        return [{name: line[name] for name in names} | _said(run) for run, line in zip(self, of, strict=False)]

    def _repr_html_(self) -> str:
        more = f"<p>and {len(self) - MOST:,} more runs</p>" if len(self) > MOST else ""
        return f"<p>{len(self):,} run{'' if len(self) == 1 else 's'}</p>{records(self.lines())}{more}"


class Listed(ABC):
    """What a store shows of its runs."""

    root: Path

    @abstractmethod
    def runs(self, newest: int | None = None) -> Runs:
        """All finished runs, or the newest ones."""

    @abstractmethod
    def matching(self, prefix: str) -> list[str]:
        """The ids of the finished runs that begin with `prefix`."""

    def select(self, **filter: Any) -> Runs:
        """The finished runs whose columns have these values, see `Runs.select`: `store.select(dataset="digits", seed=[0, 1])`."""
        return self.runs().select(**filter)

    def frame(self, **filter: Any) -> pd.DataFrame:
        """The finished runs, or those of them, as a data frame of one line a run, see `Runs.frame`."""
        return self.select(**filter).frame()

    def _repr_html_(self) -> str:
        """The newest runs; `select` and `frame` reach all."""
        found, newest = len(self.matching("")), self.runs(NEWEST)
        said = (
            f"run store {self.root}: {found:,} runs with those that came with the package; made here, the newest first:"
        )
        return f"<p>{escape(said)}</p>{records(newest.lines())}" if newest else f"<p>{escape(said)} none</p>"


def configuration(experiment: Experiment) -> dict[str, Any]:
    """What is run, flat: the fields of the experiment, of its data and of its protocol; the options as one text."""
    flat = {"algorithm": experiment.algorithm, "model": experiment.model, "seed": experiment.seed}
    flat |= {"options": ", ".join(f"{name}={value}" for name, value in experiment.options), "dtype": experiment.dtype}
    flat |= asdict(experiment.data) | asdict(experiment.settings)
    return {name: flat[name] for name in COLUMNS if name in flat}


def results(run: Run) -> dict[str, Any]:
    """What came out, by `RESULTS`."""
    values = (run.accuracy(), run.accuracy("last_round"), run.round_of("best"), run.rounds)
    apart = run.diverged.round if run.diverged else -1
    return dict(zip(RESULTS, (*values, apart, run.seconds, run.environment.get("device", ""), run.id), strict=True))


def _said(run: Run) -> dict[str, Any]:
    return {
        "accuracy (%), best round": f"{100 * run.accuracy():.2f}",
        "last round": f"{100 * run.accuracy('last_round'):.2f}",
        "rounds": run.rounds,
        "id": run.id,
    }


def check_filter(filter: dict[str, Any]) -> dict[str, list[Any]]:
    """Column -> the values of which a run has one; `UserError` for a column that runs do not have."""
    for name in filter:
        check_word("column of runs", name, COLUMNS)
    return {name: list(wanted) if is_several(wanted) else [wanted] for name, wanted in filter.items()}


def fits(line: dict[str, Any], filter: dict[str, list[Any]]) -> bool:
    """Whether a line has one of the values of each column of a checked filter, as `Runs.select` reads them."""

    def one(name: str, wanted: Any) -> bool:
        value = line[name]
        if name == "diverged" and isinstance(wanted, bool):
            return (value >= 0) is wanted
        if isinstance(wanted, str) and value is not None and not isinstance(value, bool):
            return fnmatchcase(str(value), wanted)  # a number by its text, too
        return bool(value == wanted)

    return all(any(one(name, each) for each in wanted) for name, wanted in filter.items())
