"""What a client's round, a step and a test cost on this machine, by network: timed once on generated samples, kept beside the runs."""

from __future__ import annotations

import json
import logging
import math
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from pflrepro.algorithms.registry import plain_parts
from pflrepro.data.datasets import DATASETS
from pflrepro.experiments.config import Experiment
from pflrepro.remembered import read_cache, remembered

log = logging.getLogger("pflrepro.timing")
FILE = "timings.json"  # in the folder of the store: it belongs to a machine, as the runs' own times do
# Of the one client that is timed. A second timing with more batches tells its round from its steps: 2 of 100 batches would be charged
# with what 100 pay. Where 2 take this long (seconds) their steps are all that counts, and twelve would take a minute.
BATCHES, MORE_BATCHES, TESTED, SLOW = 2, 12, 50, 1.0
LONG_ENOUGH, MOST_ROUNDS = 0.5, 200  # seconds, rounds
# Seconds of a round in multiples of FedAvg's, where it is at least 1.3 of them: measured side by side on two cores, CNN4, 20 clients of
# 100 samples (benchmarks/methods_cpu.json, which a test compares). FedGen's 5.22 are its server's steps: see `server_steps`.
RELATIVE_COST = {
    "scaffold": 1.61,
    "moon": 1.95,
    "fedntd": 1.46,
    "fedmix": 3.15,
    "vhl": 3.45,
    "per-fedavg": 2.52,
    "pfedme": 8.38,
    "ditto": 2.37,
    "apfl": 2.36,
    "fedphp": 1.81,
    "fedrep": 1.35,
    "fedfomo": 1.85,
    "apple": 2.95,
    "fedpac": 1.95,
    "gpfl": 1.82,
    "pfedfda": 2.7,
    "grp-fed": 3.45,
    "fedbr": 2.85,
}
GENERATOR_STEP, HEAD_STEP = 0.6, 1 / 3  # of FedGen's server in steps of FedAvg; the latter a client


@dataclass(frozen=True)
class Timing:
    """Seconds on one core: of a client's round of FedAvg besides its steps, of a training step, and of testing one sample."""

    client: float
    step: float
    test: float


class Timings:
    """The timings of a machine: read from the folder of a store, measured and added where one is missing."""

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / FILE
        self._known: dict[str, Timing] = {}
        self._told = False

    def stamp(self) -> str:
        """Another text whenever the file has other timings."""
        return json.dumps(read_cache(self.path), sort_keys=True)

    def of(self, experiment: Experiment) -> Timing:
        """Of the experiment's network on samples like its own, in batches like its own."""
        spec, batch = DATASETS[experiment.data.dataset], experiment.settings.batch_size
        key = f"{experiment.model} {'x'.join(map(str, spec.shape))} {spec.classes} classes, batch {batch}"
        if key not in self._known:
            values = remembered(self.path, key, lambda: self._measured(experiment), _is_timing)
            self._known[key] = Timing(**values)
        return self._known[key]

    def _measured(self, experiment: Experiment) -> dict[str, float]:
        if not self._told:  # nobody waits for minutes without a word
            log.warning("networks are timed, each once on this machine: some seconds a network")
            self._told = True
        return asdict(measured(experiment))


def _is_timing(values: Any) -> bool:
    names = {field.name for field in fields(Timing)}
    return (
        isinstance(values, dict)
        and values.keys() == names
        and all(isinstance(each, float) and 0 <= each < math.inf for each in values.values())
    )


def measured(experiment: Experiment) -> Timing:
    """Rounds of FedAvg with one client on generated samples, of few batches and of more."""
    few, test = _a_round(experiment, BATCHES)
    if few > SLOW:
        return Timing(0.0, few / BATCHES, test)
    more, _ = _a_round(experiment, MORE_BATCHES)
    # Another job may have disturbed either: no step takes less than nothing, none more than all of its round.
    step = min(max((more - few) / (MORE_BATCHES - BATCHES), 0.0), few / BATCHES)
    return Timing(few - BATCHES * step, step, test)


def _a_round(experiment: Experiment, batches: int) -> tuple[float, float]:
    """Seconds of a round without its test, and of testing a sample: one round to warm up, then half a second, at least one round."""
    from pflrepro.algorithms.fedavg import FedAvg
    from pflrepro.models import find
    from pflrepro.settings import Settings
    from pflrepro.simulation import Simulation
    from pflrepro.simulation.cost import generated

    spec, batch = DATASETS[experiment.data.dataset], experiment.settings.batch_size
    tokens = find(experiment.model)[0].takes.kind == "tokens"
    federation = generated(spec.shape, 1, spec.classes, train=batches * batch, test=TESTED, tokens=tokens)
    settings = Settings(MOST_ROUNDS, batch_size=batch, evaluate_after=False)
    simulation = Simulation(FedAvg(), federation, experiment.model, settings, [0], backend="loop", workers=1)
    simulation.step()
    started = time.perf_counter()
    while not simulation.finished and (simulation.round < 2 or time.perf_counter() - started < LONG_ENOUGH):
        simulation.step()
    history = simulation.history(0)
    training, testing = (float(history[name][2:].mean()) for name in ("seconds", "seconds_evaluation"))
    return training, testing / TESTED


def server_steps(experiment: Experiment, steps: int, cores: int) -> float:
    """So many steps of FedGen's server, in steps of FedAvg: the generator's, and every upload's head forward and back; large heads are
    shared out over the cores (`pflrepro.simulation.asking`).

    Measured on one core: CNN4 with 20 clients takes 0.7 steps, of them 0.06 for the heads; HAR's network with 30 clients 10, nearly all
    for the heads, which hold 99 % of its numbers.
    """
    from pflrepro.papers.pfedfda_counts import part_size
    from pflrepro.simulation.asking import LARGE_ROW

    spec = DATASETS[experiment.data.dataset]
    base, head = (part_size(experiment.model, spec.shape, spec.classes, part) for part in ("base", "head"))
    uploads = experiment.data.clients * experiment.settings.mean_participation
    heads = uploads / (min(cores, uploads) if head >= LARGE_ROW else 1)
    return steps * (GENERATOR_STEP + HEAD_STEP * heads * head / (base + head))


def relative_cost(algorithm: str) -> float:
    """The factor of a method, of a combination the largest of its parts'."""
    return max(RELATIVE_COST.get(part, 1.0) for part in plain_parts(algorithm))
