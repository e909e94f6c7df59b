"""What a study would train: every experiment once, what is there already, and what the rest may cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pflrepro.data.datasets import DATASETS
from pflrepro.errors import MissingData, UserError
from pflrepro.experiments.config import Experiment
from pflrepro.papers.studied import Studied

if TYPE_CHECKING:
    from pflrepro.experiments.store import Store
    from pflrepro.papers.artefact import Column, Row

# One step of FedAvg on one CPU core in seconds, by network: a rough guess for planning, from first measurements.
SECONDS_A_STEP = {"cnn4": 3e-3, "cnn-digits": 7e-4, "fedpac-cnn5": 6e-3, "har-cnn": 2e-3}
OTHER_STEP = 1e-2
# Steps relative to FedAvg, where a method takes much more: two models (Ditto, APFL), two phases (FedRep) ...
RELATIVE_COST = {"ditto": 2.0, "apfl": 2.0, "fedrep": 1.4, "per-fedavg": 2.5, "pfedme": 8.0, "gpfl": 1.8, "apple": 3.0}
PARAMETERS = {"cnn4": 582_026, "cnn-digits": 24_000}
OTHER_PARAMETERS = 6_000_000
BASE_MEMORY = 400 * 2**20  # what a process needs before any data: the interpreter and the framework
# With the papers' stop rule a run ends some 220 rounds in: the best round is 117 on average [DBE Table 8(a)], then the wait of 100.
STOPPED_AFTER = 220


@dataclass(frozen=True)
class Planned:
    """One experiment of a plan.

    state: `done`, `to run`, `no data`, or `not possible` (then `experiment` is None and `reason` says why). rounds: that it is expected
    to take. seconds: expected training time, 0 when done; basis: where that comes from. memory: bytes, rough. keep: moments whose
    states are kept for measures on models.
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
    basis: str
    experiment: Experiment | None = None
    keep: tuple[str | int, ...] = ()


def plan(study: Studied, timings: Mapping[tuple, float] | None = None) -> list[Planned]:
    """Everything that a study would train, one entry an experiment, those that several cells share once.

    timings: `seconds_a_round` of its store, for which every run is read: several plans of one store share them.
    """
    timings = seconds_a_round(study.store) if timings is None else timings
    planned: dict[Experiment, Planned] = {}
    impossible: list[Planned] = []
    for row in study.trained:
        for column in (each for each in study.columns if study.has(row, each)):
            try:
                experiments = study.experiments(row, column)
            except UserError as error:
                impossible.append(_impossible(study, row, column, str(error)))
                continue
            keep = study.moments(row, column)
            for experiment in experiments:
                known = planned.get(experiment)
                if known is None:
                    planned[experiment] = _entry(study, row, column, experiment, timings, keep)
                elif set(keep) - set(known.keep):
                    planned[experiment] = replace(known, keep=tuple(dict.fromkeys(known.keep + keep)))
    return [*planned.values(), *impossible]


def seconds_a_round(store: Store) -> dict[tuple, float]:
    """Mean seconds a round (training and tests) of the stored runs, by method, data set, network, clients and local work."""
    sums: dict[tuple, list[float]] = {}
    for run in store.runs():
        if run.rounds > 0:
            spent = math.fsum(run.history["seconds"]) + math.fsum(run.history["seconds_evaluation"])
            sums.setdefault(_timing_key(run.experiment), []).append(spent / run.rounds)
    return {key: math.fsum(values) / len(values) for key, values in sums.items()}


def _timing_key(experiment: Experiment) -> tuple:
    data, settings = experiment.data, experiment.settings
    work = (settings.participation, settings.local_epochs, settings.local_steps, settings.batch_size)
    return (experiment.algorithm, data.dataset, data.partition, experiment.model, data.clients, *work)


def _impossible(study: Studied, row: Row, column: Column, reason: str) -> Planned:
    place = (study.artefact.id, row.label, study.artefact.name_of(column), study.scale.name)
    return Planned(*place, 0, 0, "not possible", reason, 0.0, 0.0, "")


def _entry(
    study: Studied,
    row: Row,
    column: Column,
    experiment: Experiment,
    timings: Mapping[tuple, float],
    keep: tuple[str | int, ...],
) -> Planned:
    done = _done(study, experiment)
    lacking = None if done else study.lacking(experiment)
    state = "done" if done else "no data" if lacking else "to run"
    rounds = expected_rounds(experiment)
    seconds, basis = (0.0, "stored") if state == "done" else estimate_seconds(experiment, rounds, timings)
    memory = estimate_memory(experiment)
    place = (study.artefact.id, row.label, study.setting(column).label, study.scale.name, experiment.seed)
    return Planned(*place, rounds, state, lacking or "", seconds, memory, basis, experiment, keep)


def _done(study: Studied, experiment: Experiment) -> bool:
    try:
        return study.find(experiment) is not None
    except MissingData:
        return False


def expected_rounds(experiment: Experiment) -> int:
    """The rounds that a run is expected to take: with the stop rule far fewer than it may."""
    settings = experiment.settings
    return min(settings.rounds, settings.patience + STOPPED_AFTER - 100) if settings.patience else settings.rounds


def estimate_seconds(experiment: Experiment, rounds: int, timings: Mapping[tuple, float]) -> tuple[float, str]:
    """Expected seconds of a whole run and the basis of that number: stored timings, or a guess a step on one core."""
    stored = timings.get(_timing_key(experiment))
    if stored is not None:
        return stored * rounds, "timings of stored runs"
    settings, data = experiment.settings, experiment.data
    each = (1 - data.test_share) * samples_of(experiment) / settings.batch_size
    steps = settings.local_steps * data.clients or each * settings.local_epochs
    host = experiment.algorithm.split("+")[0].split("/")[0]
    step = SECONDS_A_STEP.get(experiment.model, OTHER_STEP) * RELATIVE_COST.get(host, 1.0)
    # A test passes the test quarter forward only, in large batches: about a sixth of the training of an epoch.
    tests = each * step / 6 / settings.every
    seconds = rounds * (settings.mean_participation * steps * step + tests)
    return seconds, "rough guess: one core, no packing of seeds"


def samples_of(experiment: Experiment) -> int:
    """The samples of a data set, training and test; a guess where nobody knows them beforehand."""
    return DATASETS[experiment.data.dataset].samples or 50_000


def estimate_memory(experiment: Experiment) -> float:
    """Rough bytes of one run: framework, data as float32, three copies of all parameters a client."""
    parameters = PARAMETERS.get(experiment.model, OTHER_PARAMETERS)
    data = samples_of(experiment) * math.prod(DATASETS[experiment.data.dataset].shape) * 4
    return float(BASE_MEMORY + data + 3 * 4 * parameters * experiment.data.clients)
