"""What a study would train: every experiment once, what is there already, and what the rest may cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pflrepro.cores import usable_cores
from pflrepro.data.datasets import DATASETS
from pflrepro.data.partitions.parse import parse
from pflrepro.data.partitions.pfedfda import FixedSize
from pflrepro.errors import MissingData, UserError
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.identity import identity, identity_digest
from pflrepro.experiments.store import Store
from pflrepro.markup import Brief, folded, records
from pflrepro.notebook import duration
from pflrepro.papers.availability import to_get
from pflrepro.papers.kept_lines import Made, remembered_lines
from pflrepro.papers.studied import Studied
from pflrepro.papers.timing import Timings, relative_cost, server_steps

if TYPE_CHECKING:
    from pflrepro.papers.artefact import Artefact, Column, Row

PARAMETERS = {"cnn4": 582_026, "cnn-digits": 24_000}
OTHER_PARAMETERS = 6_000_000
BASE_MEMORY = 400 * 2**20  # what a process needs before any data: the interpreter and the framework
# The best round, after which the papers' stop rule waits 100 more: 117 on average [DBE Table 8(a)], on HAR far later (ours: 462 of
# FedPer, 729 of DBE, 1,441 of FedAvg).
BEST_ROUND, BEST_ROUND_ON = 120, {"har-interleaved": 750}
IMPOSSIBLE = "not possible"
MOST = 20  # runs that a notebook does not fold away


@dataclass(frozen=True, repr=False)
class Planned(Brief):
    """One experiment of a plan.

    Attributes:
        state: `done`, `to run`, `no data`, or `not possible` (`reason` says why).
        rounds: that it is expected to take.
        seconds: expected on this machine, 0 when done, NaN where nobody asked.
        memory: bytes, rough.
        run: equal for two requests that one run answers.
        lacks: the data sets that are to be got for it, with blanks between.
    """

    artefact: str
    row: str
    column: str
    scale: str
    seed: int
    rounds: int
    state: str
    reason: str
    seconds: float
    memory: float
    run: str = ""
    lacks: str = ""
    experiment: Experiment | None = None


SHOWN = tuple(field.name for field in fields(Planned) if field.name != "experiment")


class Plan(list[Planned]):
    """What would be trained, as a list that shows itself: the total, and a line a run."""

    @property
    def total(self) -> str:
        """One line: runs by state, each once, and the time of those that can be run and of those that lack data."""
        rows = [*each_once(self), *(each for each in self if each.state == IMPOSSIBLE)]
        states = Counter(each.state for each in rows)
        seconds = {state: sum(each.seconds for each in rows if each.state == state) for state in states}
        known = {state: f"about {duration(time)}" for state, time in seconds.items() if time and not math.isnan(time)}
        costs = [f"to run: {known['to run']}"] if "to run" in known else []
        if "no data" in known:
            costs.append(f"{known['no data']}{' more' if costs else ''} with the data that are missing")
        return (
            "; ".join([", ".join(f"{number} {state}" for state, number in states.items()), *costs])
            or "nothing to train"
        )

    @property
    def lacking(self) -> str:
        """How many runs cannot be trained since their data are not there, and which; "" where none."""
        without = [each for each in self if each.state == "no data"]
        runs = f"{len(without)} of {len(self)} run{'' if len(self) == 1 else 's'} not trained"
        return f"{runs}: {'; '.join(dict.fromkeys(each.reason for each in without))}" if without else ""

    @property
    def missing(self) -> str:
        """One line: the command that gets all the data that are missing; "" where none are."""
        names = dict.fromkeys(name for each in self for name in each.lacks.split())
        return f"the data that are missing: pflrepro data get {' '.join(names)}" if names else ""

    def lines(self) -> list[dict[str, Any]]:
        """The runs as they are shown."""
        return [
            {
                "artefact": each.artefact,
                "row": each.row,
                "column": each.column,
                "seed": each.seed,
                "rounds": each.rounds,
                "state": each.state,
                "time": "" if math.isnan(each.seconds) else duration(each.seconds),
                "GiB": f"{each.memory / 2**30:.2f}",
                "reason": each.reason,
            }
            for each in self
        ]

    def __repr__(self) -> str:
        return f"Plan({'; '.join(filter(None, (self.total, self.missing)))})"

    def _repr_html_(self) -> str:
        said = "".join(f"<p>{escape(line)}</p>" for line in (self.total, self.missing) if line)
        return said + folded("runs", records(self.lines()), opened=len(self) <= MOST)


def plan(study: Studied, timings: Timings | None = None) -> Plan:
    """Everything that a study would train, one entry an experiment, those that several cells share once.

    Args:
        timings: of this machine; without them seconds are NaN.
    """
    planned: dict[Experiment, Planned] = {}
    impossible: list[Planned] = []
    for row in study.trained:
        for column in (each for each in study.trained_columns if study.has(row, each)):
            try:
                experiments = study.experiments(row, column)
            except UserError as error:
                impossible.append(_impossible(study, row, column, str(error)))
                continue
            for experiment in experiments:
                if experiment not in planned:
                    planned[experiment] = _entry(study, row, column, experiment, timings)
    return Plan([*planned.values(), *impossible])


def planned_lines(
    artefacts: Iterable[Artefact], scale: str, store: Store, data_root: str | Path | None = None
) -> Iterator[Planned]:
    """The entries of the artefacts' plans at a scale as a list shows them, without the experiments, see `papers.kept_lines`.

    Every run that is done is read whole to see that it is, and the framework alone takes seconds to load: nobody waits twice.
    """
    timings = Timings(store.root)

    def made(artefact: Artefact) -> Made:
        study = Studied(artefact, scale, store=store, data_root=data_root)
        shown = [{name: getattr(entry, name) for name in SHOWN} for entry in plan(study, timings)]
        return Made(shown, sorted(study.asked))

    def fits(lines: Any) -> bool:
        return isinstance(lines, list) and all(isinstance(line, dict) and line.keys() == {*SHOWN} for line in lines)

    how = {"store": store, "data_root": data_root, "besides": (timings.stamp(), str(usable_cores()))}
    for lines in remembered_lines(f"planned-{scale}", artefacts, made, fits, **how):
        yield from (Planned(**line) for line in lines)


def each_once(entries: Sequence[Planned]) -> list[Planned]:
    """The plans of several artefacts without what they share: of a run that is asked for several times, the longest request."""
    longest: dict[str, Planned] = {}
    for entry in (entry for entry in entries if entry.state != IMPOSSIBLE):
        if entry.run not in longest or longest[entry.run].rounds < entry.rounds:
            longest[entry.run] = entry
    return list(longest.values())


def _impossible(study: Studied, row: Row, column: Column, reason: str) -> Planned:
    place = (study.artefact.id, row.label, study.artefact.name_of(column), study.scale.name)
    return Planned(*place, 0, 0, IMPOSSIBLE, reason, 0.0, 0.0)


def _entry(study: Studied, row: Row, column: Column, experiment: Experiment, timings: Timings | None) -> Planned:
    done = _done(study, experiment)
    lacking = None if done else study.lacking(experiment)
    state = "done" if done else "no data" if lacking else "to run"
    rounds = expected_rounds(experiment)
    seconds = 0.0 if done else math.nan if timings is None else estimate_seconds(experiment, rounds, timings)
    memory = estimate_memory(experiment)
    place = (study.artefact.id, row.label, study.setting(column).label, study.scale.name, experiment.seed)
    run = identity_digest(identity(experiment, ""))
    data = (experiment.data.dataset, experiment.data.proxy)
    lacks = " ".join(filter(None, (to_get(name, study.data_root) for name in data if name))) if lacking else ""
    return Planned(*place, rounds, state, lacking or "", seconds, memory, run, lacks, experiment)


def _done(study: Studied, experiment: Experiment) -> bool:
    try:
        return study.find(experiment) is not None
    except MissingData:
        return False


def expected_rounds(experiment: Experiment) -> int:
    """The rounds that a run is expected to take: with the stop rule far fewer than it may."""
    settings = experiment.settings
    best = BEST_ROUND_ON.get(experiment.data.dataset, BEST_ROUND)
    return min(settings.rounds, settings.patience * settings.every + best) if settings.patience else settings.rounds


def estimate_seconds(experiment: Experiment, rounds: int, timings: Timings) -> float:
    """Expected seconds of a whole run: training, tests, and adaptations before tests, shared out over the cores; the server's steps."""
    from pflrepro.algorithms.phases import (
        Clock,
        phases_of,
    )  # which loads the framework: a plan that is remembered needs none

    settings, data, timing = experiment.settings, experiment.data, timings.of(experiment)
    samples, cores = samples_of(experiment), usable_cores()
    spec = parse(data.partition)
    kept = samples * (1 - data.test_share) * spec.train_share
    epoch = kept * (1 - spec.validation) / settings.batch_size  # steps of all clients
    steps = settings.local_steps * data.clients or epoch * settings.local_epochs
    training = steps * timing.step * relative_cost(experiment.algorithm) + data.clients * timing.client
    phases = phases_of(experiment.method(), Clock.of(settings, 0))
    adapting = sum(phase.passes or 0 for phase in phases if phase.where == "adapt")
    served = sum(phase.steps for phase in phases if phase.where == "server")
    serving = timing.step * server_steps(experiment, served, cores) if served else 0.0
    passes = 2 if settings.evaluate_after else 1
    tested = official_tests(data.dataset) * data.clients or kept * spec.validation or samples * data.test_share
    testing = tested * timing.test * passes + adapting * epoch * timing.step
    each = settings.mean_participation * training + testing / settings.every
    return rounds * (each / min(cores, data.clients) + serving)


def official_tests(dataset: str) -> int:
    """The test samples of a client of a data set whose clients are all tested on the official ones; 0 for others."""
    source = DATASETS[DATASETS[dataset].source or dataset]
    if not DATASETS[dataset].tested_officially or source.samples is None or source.train_samples is None:
        return 0
    return source.samples - source.train_samples


def samples_of(experiment: Experiment) -> float:
    """The samples of a run's clients, training and test; a guess where nobody knows beforehand how many a data set has."""
    spec, samples = parse(experiment.data.partition), DATASETS[experiment.data.dataset].samples or 50_000
    clients = experiment.data.clients
    if isinstance(spec, FixedSize):
        return spec.size * clients
    return samples * clients / spec.total if spec.total else samples


def estimate_memory(experiment: Experiment) -> float:
    """Rough bytes of one run: framework, data as float32, three copies of all parameters a client."""
    parameters = PARAMETERS.get(experiment.model, OTHER_PARAMETERS)
    data = samples_of(experiment) * math.prod(DATASETS[experiment.data.dataset].shape) * 4
    return float(BASE_MEMORY + data + 3 * 4 * parameters * experiment.data.clients)
