"""What an artefact is: rows, columns, scales, the experiment behind each cell, the pattern the paper claims.

An artefact holds no training code and no numbers of ours. From it come the list of runs, the comparison with the
published numbers, the picture and the score card.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pflrepro.errors import unknown

if TYPE_CHECKING:
    from pflrepro.experiments.config import Experiment
    from pflrepro.papers.sizes import Size

Options = tuple[tuple[str, object], ...]


@dataclass(frozen=True)
class Row:
    """One line of a table: a method as the paper prints it, and its name here (plug-ins joined with `+`).

    `aliases`: other names under which the published files list the same method.
    `always`, `options`: the method's own settings on every model, and (model, settings) pairs, only where the paper's value
    is not our default.
    """

    label: str
    algorithm: str
    aliases: tuple[str, ...] = ()
    options: tuple[tuple[str, Options], ...] = ()
    always: Options = ()

    def options_for(self, model: str) -> Options:
        """The method's own settings for one model; empty: our defaults, the papers' values for the small CNN."""
        return tuple((dict(self.always) | dict(dict(self.options).get(model, ()))).items())


@dataclass(frozen=True)
class Column:
    """One column: where the paper's numbers stand (`setting`, `published_*`) and what we run for them.

    `lr` and `batch_size` None: the data set's own preset. In a figure of partitions a column is one of them: `counts` names
    the shipped counts of `pflrepro.data.published` that it must equal ("": none), and with `equal_classes` its `samples` are equally
    many in every class, so that the counts need no data.
    """

    key: str
    label: str
    dataset: str
    model: str
    partition: str
    clients: int = 20
    participation: float = 1.0
    lr: float | None = None
    batch_size: int | None = None
    setting: str = ""
    published_dataset: str = ""
    published_model: str = ""
    samples: int = 0
    counts: str = ""
    equal_classes: bool = False


@dataclass(frozen=True)
class Scale:
    """How much of an artefact is run: rounds, seeds, and which rows and columns (None: all).

    `patience` p > 0 stops a run after p evaluations without a new best. `stand_ins` replaces columns by small ones of
    the same kind: numbers of a stand-in are never compared with the paper's.
    """

    name: str
    note: str
    rounds: int
    seeds: int
    patience: int = 0
    rows: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    stand_ins: tuple[Column, ...] = ()

    def column(self, column: Column) -> Column | None:
        """The column as it is run at this scale; None: not part of this scale."""
        if self.columns is not None and column.key not in self.columns:
            return None
        if not self.stand_ins:
            return column
        return next((stand_in for stand_in in self.stand_ins if stand_in.key == column.key), None)


@dataclass(frozen=True)
class Claim:
    """An ordering that the paper claims: row `better` above row `worse` in the given columns (None: in all).

    In a figure of partitions: the column `better` is more heterogeneous than the column `worse`.
    """

    better: str
    worse: str
    columns: tuple[str, ...] | None = None
    source: str = ""


@dataclass(frozen=True)
class Artefact:
    """One table or figure of a paper (or one of our own), as data.

    `sources`: published tables, the first that holds a cell gives its value, a later one a missing spread.
    `tolerance`: the least difference in points of the metric that counts as one (see `verdicts.tolerance`).
    `trials`: seeds of the paper. `seed`: the first run seed; trial k uses seed + k. `counts`: a figure of
    the columns' partitions (samples a client and class); nothing is trained for it. `sizes`: a table of numbers that follow from
    networks and methods alone (`pflrepro.papers.counted`); nothing is trained for it either.
    """

    id: str
    paper: str
    title: str
    kind: str
    notebook: str
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    scales: tuple[Scale, ...]
    sources: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    metric: str = "accuracy"
    selection: str = "best_round"
    trials: int = 3
    seed: int = 0
    tolerance: float = 0.5
    about: str = ""
    cost: str = ""
    pictures: tuple[str, ...] = ("points",)
    counts: bool = False
    sizes: tuple[Size, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether nothing is trained for it, so that all its scales are the same."""
        return self.counts or bool(self.sizes)

    @property
    def scale_names(self) -> tuple[str, ...]:
        return tuple(scale.name for scale in self.scales)

    def scale(self, name: str) -> Scale:
        """The scale of that name; `UserError` lists the ones this artefact has."""
        for scale in self.scales:
            if scale.name == name:
                return scale
        raise unknown(f"scale of {self.id}", name, self.scale_names)

    def choose_rows(self, scale: Scale, methods: tuple[str, ...] | list[str] | None = None) -> tuple[Row, ...]:
        """The rows that are run: the scale's own, or those asked for (by our name or the printed one)."""
        if not methods:
            return tuple(row for row in self.rows if scale.rows is None or row.algorithm in scale.rows)
        known = {name.lower(): row for row in self.rows for name in (row.algorithm, row.label)}
        for name in methods:
            if name.lower() not in known:
                raise unknown(f"method of {self.id}", name, [row.algorithm for row in self.rows])
        wanted = {known[name.lower()].algorithm for name in methods}
        return tuple(row for row in self.rows if row.algorithm in wanted)

    def cell(self, row: Row, column: Column, scale: Scale, seed: int) -> Experiment | None:
        """The experiment behind one cell and seed; None: not part of this scale, or not in the package."""
        run_as = scale.column(column)
        if run_as is None:
            return None
        from pflrepro.papers.availability import missing_part

        if missing_part(row.algorithm, run_as.dataset, run_as.model) is not None:
            return None
        return build_experiment(row, run_as, scale, seed)


def same_at_every_scale(note: str) -> tuple[Scale, ...]:
    """The scales smoke, fast and paper of an artefact for which nothing is trained; `note` says why they are the same."""
    return tuple(
        Scale(name, f"the same at every scale: {note}", rounds=0, seeds=0) for name in ("smoke", "fast", "paper")
    )


def partition_figure(id: str, **own: Any) -> Artefact:
    """A figure of how partitions deal the samples: nothing is trained, every count is exact. Bubbles, where `own` says nothing else."""
    exact = {"metric": "samples", "selection": "none", "trials": 0, "tolerance": 0.0, "counts": True}
    place = {"paper": id.split("/")[0], "notebook": f"{id}.ipynb"}
    return Artefact(id, kind="figure", rows=(), **place, **exact, **{"pictures": ("bubbles",)} | own)


def build_experiment(row: Row, column: Column, scale: Scale, seed: int) -> Experiment:
    """The experiment of one cell, every field set: nothing is left to a default that may change later.

    Local epochs 1, plain SGD (no momentum, no decay), broadcast to all clients, partition seed 1: [DBE-code], [LIB].
    """
    from pflrepro.data.datasets import DATASETS
    from pflrepro.experiments.config import DataConfig, Experiment

    preset = DATASETS[column.dataset].preset
    data = DataConfig(
        dataset=column.dataset,
        partition=column.partition,
        clients=column.clients,
        partition_seed=1,
        min_size=preset.min_size,
        test_share=0.25,
    )
    settings = replace(
        preset.settings,
        rounds=scale.rounds,
        participation=column.participation,
        patience=scale.patience,
        lr=preset.settings.lr if column.lr is None else column.lr,
        batch_size=preset.settings.batch_size if column.batch_size is None else column.batch_size,
    )
    return Experiment(row.algorithm, data, column.model, settings, row.options_for(column.model), seed)
