"""What a step and a test cost on this machine, by network: timed once with the engine on generated samples, kept beside the runs."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from pflrepro.atomic import replacing
from pflrepro.data.datasets import DATASETS
from pflrepro.experiments.config import Experiment

FILE = "timings.json"  # in the folder of the store: it belongs to a machine, as the runs' own times do
BATCHES, TESTED = 2, 50  # of the one client that is timed: few, for a step of a large network takes seconds
LONG_ENOUGH, MOST_ROUNDS = 0.5, 200  # seconds, rounds
# Seconds of a round in multiples of FedAvg's, where it is at least 1.3 of them: measured side by side on two cores, CNN4, 20 clients of
# 100 samples (benchmarks/methods_cpu.json, which a test compares).
RELATIVE_COST = {
    "scaffold": 1.61,
    "moon": 1.95,
    "fedgen": 5.22,
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


@dataclass(frozen=True)
class Timing:
    """Seconds on one core: of a training step of FedAvg, and of testing one sample."""

    step: float
    test: float


class Timings:
    """The timings of a machine: read from the folder of a store, measured and added where one is missing."""

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / FILE
        self._known: dict[str, Timing] | None = None

    def of(self, experiment: Experiment) -> Timing:
        """Of the experiment's network on samples like its own, in batches like its own."""
        shape, classes = DATASETS[experiment.data.dataset].shape, DATASETS[experiment.data.dataset].classes
        key = (
            f"{experiment.model} {'x'.join(map(str, shape))} {classes} classes, batch {experiment.settings.batch_size}"
        )
        known = self._read()
        if key not in known:
            known[key] = measured(experiment)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(self.path) as file:
                file.write(json.dumps({name: asdict(each) for name, each in sorted(known.items())}, indent=1).encode())
        return known[key]

    def _read(self) -> dict[str, Timing]:
        if self._known is None:
            try:
                values = json.loads(self.path.read_text("utf-8"))
                self._known = {name: Timing(**each) for name, each in values.items()}
            except (OSError, ValueError, TypeError):  # none yet, or not ours: measured anew
                self._known = {}
        return self._known


def measured(experiment: Experiment) -> Timing:
    """Rounds of FedAvg with one client on generated samples: one to warm up, then for half a second, at least one."""
    import torch

    from pflrepro.algorithms.fedavg import FedAvg
    from pflrepro.data.federation import Federation
    from pflrepro.models import find
    from pflrepro.settings import Settings
    from pflrepro.simulation import Simulation

    spec, batch = DATASETS[experiment.data.dataset], experiment.settings.batch_size
    samples = BATCHES * batch + TESTED
    draw, shape = torch.Generator().manual_seed(0), (samples, *spec.shape)
    tokens = find(experiment.model)[0].takes.kind == "tokens"
    x = torch.randint(0, 1000, shape, generator=draw) if tokens else torch.rand(shape, generator=draw)
    rows, y = torch.arange(samples).numpy(), torch.arange(samples) % spec.classes
    federation = Federation(x, y, [rows[: BATCHES * batch]], [rows[BATCHES * batch :]], classes=spec.classes)
    settings = Settings(MOST_ROUNDS, batch_size=batch, evaluate_after=False)
    simulation = Simulation(FedAvg(), federation, experiment.model, settings, [0], backend="loop", workers=1)
    simulation.step()
    started = time.perf_counter()
    while not simulation.finished and (simulation.round < 2 or time.perf_counter() - started < LONG_ENOUGH):
        simulation.step()
    history = simulation.history(0)
    seconds = {name: float(history[name][2:].mean()) for name in ("seconds", "seconds_evaluation")}
    return Timing(seconds["seconds"] / BATCHES, seconds["seconds_evaluation"] / TESTED)


def relative_cost(algorithm: str) -> float:
    """The factor of a method, of a combination the largest of its parts'."""
    parts = [part.split("/")[0] for part in algorithm.split("+")]
    return max(RELATIVE_COST.get(part, 1.0) for part in parts)
