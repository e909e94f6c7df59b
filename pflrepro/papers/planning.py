"""What an artefact would run: every experiment once, what is there already, and what the rest may cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pflrepro.papers.artefact import Artefact, Column, Row, Scale
from pflrepro.papers.availability import missing_data
from pflrepro.papers.comparing import cell_experiments, find_run, open_store, seed_count, why_absent
from pflrepro.papers.registry import find

if TYPE_CHECKING:
    from pflrepro.experiments.config import Experiment
    from pflrepro.experiments.store import Run, Store

# One forward and backward pass of a batch of 10 on one CPU core, in seconds: a rough guess for planning, from first
# measurements.
SECONDS_A_STEP = {"cnn4": 3e-3, "cnn-digits": 7e-4}
OTHER_STEP = 1e-2
# Passes relative to FedAvg, from the cost column of each method's paper: two models (Ditto, APFL), two phases
# (FedRep)...
RELATIVE_COST = {"ditto": 2.0, "apfl": 2.0, "fedrep": 2.0, "per-fedavg": 2.0, "pfedme": 5.0, "gpfl": 1.5, "apple": 2.0}
PARAMETERS = {"cnn4": 582_026, "cnn-digits": 24_000}
OTHER_PARAMETERS = 6_000_000
# What a process needs before any data: the interpreter and the framework.
BASE_MEMORY = 400 * 2**20


@dataclass(frozen=True)
class Planned:
    """One experiment of a plan.

    `state`: done, to run, no data, or not possible (then `experiment` is None and `reason` says why). `seconds`:
    expected training time, 0 when done; `basis`: where that comes from. `memory`: bytes, rough.
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


def plan(
    artefact: str | Artefact,
    scale: str,
    *,
    store: Store | None = None,
    data_root: str | Path | None = None,
    seeds: int | None = None,
    methods: Sequence[str] | None = None,
) -> list[Planned]:
    """Everything that the artefact would run at a scale, one entry an experiment; trains nothing.

    A cell whose experiments stand in another cell's list already (the same digits stand-in for two columns) is listed
    once.
    """
    artefact = find(artefact)
    chosen = artefact.scale(scale)
    if not artefact.rows:
        return []
    number = seed_count(chosen, seeds)
    store = open_store(store)
    timings = seconds_a_round(store)
    seen: set[Experiment] = set()
    planned: list[Planned] = []
    for row in artefact.choose_rows(chosen, methods):
        for column in artefact.columns:
            experiments = cell_experiments(artefact, row, column, chosen, number)
            if experiments is None:
                planned.append(_impossible(artefact, row, column, chosen))
                continue
            run_as = chosen.column(column) or column
            for experiment in experiments:
                if experiment not in seen:
                    seen.add(experiment)
                    planned.append(_entry(artefact, row, run_as, chosen, experiment, store, data_root, timings))
    return planned


def seconds_a_round(store: Store) -> dict[tuple, float]:
    """Mean seconds a round (training and evaluation) of the stored runs, by method, data set, model and clients."""
    sums: dict[tuple, list[float]] = {}
    for run in store.runs():
        rounds = len(run.history["round"]) - 1
        if rounds > 0:
            spent = math.fsum(run.history["seconds"]) + math.fsum(run.history["seconds_evaluation"])
            sums.setdefault(_timing_key(run.experiment), []).append(spent / rounds)
    return {key: math.fsum(values) / len(values) for key, values in sums.items()}


def _timing_key(experiment: Experiment) -> tuple:
    data = experiment.data
    return (
        experiment.algorithm,
        data.dataset,
        experiment.model,
        data.clients,
        experiment.settings.participation,
        experiment.settings.local_epochs,
    )


def _impossible(artefact: Artefact, row: Row, column: Column, scale: Scale) -> Planned:
    reason = why_absent(row, column, scale)
    return Planned(
        artefact.id, row.label, column.label, scale.name, artefact.seed, 0, "not possible", reason, 0.0, 0.0, ""
    )


def _entry(
    artefact: Artefact,
    row: Row,
    column: Column,
    scale: Scale,
    experiment: Experiment,
    store: Store,
    data_root: str | Path | None,
    timings: dict[tuple, float],
) -> Planned:
    lacking = missing_data(column.dataset, data_root)
    run: Run | None = None if lacking else find_run(store, experiment, data_root)
    state = "no data" if lacking else "to run" if run is None else "done"
    seconds, basis = (0.0, "stored") if state == "done" else estimate_seconds(experiment, column.samples, timings)
    return Planned(
        artefact.id,
        row.label,
        column.label,
        scale.name,
        experiment.seed,
        experiment.settings.rounds,
        state,
        lacking or "",
        seconds,
        estimate_memory(experiment, column.samples),
        basis,
        experiment,
    )


def estimate_seconds(experiment: Experiment, samples: int, timings: dict[tuple, float]) -> tuple[float, str]:
    """Expected seconds of a whole run and the basis of that number: stored timings, or a guess a step on one core."""
    stored = timings.get(_timing_key(experiment))
    if stored is not None:
        return stored * experiment.settings.rounds, "timings of stored runs"
    steps = (
        0.75
        * samples
        * experiment.settings.participation
        * experiment.settings.local_epochs
        / experiment.settings.batch_size
    )
    step = SECONDS_A_STEP.get(experiment.model, OTHER_STEP) * RELATIVE_COST.get(experiment.algorithm.split("+")[0], 1.0)
    # An evaluation passes the test quarter forward only, in large batches: about a sixth of the training of an epoch.
    return experiment.settings.rounds * steps * step * 7 / 6, "rough guess: one core, no packing of seeds"


def estimate_memory(experiment: Experiment, samples: int) -> float:
    """Rough bytes of one run: framework, data as float32, three copies of all parameters a client."""
    sizes = {"digits": 64, "mnist": 784, "fmnist": 784, "cifar100": 3_072, "tiny-imagenet": 12_288, "agnews": 200}
    parameters = PARAMETERS.get(experiment.model, OTHER_PARAMETERS)
    data = samples * sizes.get(experiment.data.dataset, 1_000) * 4
    return float(BASE_MEMORY + data + 3 * 4 * parameters * experiment.data.clients)
