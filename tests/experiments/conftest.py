"""An engine that costs nothing and obeys the real one's interface, and experiments on real, embedded data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from helpers import differing

from pflrepro.experiments.config import Experiment
from pflrepro.experiments.run import run
from pflrepro.experiments.store import Store


class FakeSimulation:
    """Rounds of arithmetic: each seed has a state of its own that only its seed and the number of rounds decide.

    `built` and `steps` tell what was asked of the class; `before_step(simulation)` may break a round.
    """

    built: list[FakeSimulation]
    before_step: Callable[[FakeSimulation], None] | None

    def __init__(self, method, federation, model, settings, seeds, *, backend, device, workers, memory, dtype):
        type(self).built.append(self)
        self.seeds, self.rounds, self.round, self.steps = list(seeds), settings.rounds, 0, 0
        self.every, self.tested = settings.every, []
        self.test, self.train = federation.sizes("test"), federation.sizes("train")
        self.asked = {"backend": backend, "workers": workers, "device": device, "dtype": dtype}
        self.facts = {"backend": "loop" if backend == "auto" else backend, "workers": workers or 2, "chunk": None}
        self.states = [np.full(4, 0.1 * seed) for seed in seeds]
        self.rows: list[list[np.ndarray]] = [[] for _ in seeds]

    @property
    def finished(self) -> bool:
        return self.round >= self.rounds and bool(self.rows[0])

    def step(self) -> None:
        self.steps += 1
        if self.before_step is not None:
            type(self).before_step(self)
        if not self.rows[0]:
            self._record()
        if self.round < self.rounds:
            self.round += 1
            self.states = [
                np.cos(1.7 * state + seed + self.round) for state, seed in zip(self.states, self.seeds, strict=True)
            ]
            if self.round % self.every == 0 or self.round == self.rounds:
                self._record()

    def _record(self) -> None:
        self.tested.append(self.round)
        for rows, state in zip(self.rows, self.states, strict=True):
            rows.append(np.floor(np.abs(state[0]) * self.test).astype(np.int64))

    def state_of(self, index: int) -> dict[str, np.ndarray]:
        rows = np.array(self.rows[index], dtype=np.int64).reshape(-1, len(self.test))
        tested = {"history/round": np.array(self.tested, dtype=np.int64), "history/correct": rows}
        losses = {"history/loss": rows / 7.0, "history/train_loss": rows / 5.0}
        return {"x": self.states[index], "progress/round": np.array(self.round)} | tested | losses

    def restore_seed(self, index: int, arrays: dict[str, np.ndarray]) -> None:
        self.states[index] = arrays["x"]
        self.round = int(arrays["progress/round"])
        self.rows[index], self.tested = list(arrays["history/correct"]), arrays["history/round"].tolist()

    def history(self, index: int) -> dict[str, np.ndarray]:
        sizes = {"test_samples": self.test, "train_samples": self.train}
        if not self.rows[index]:
            return sizes
        correct = np.stack(self.rows[index])
        count = len(correct)
        return sizes | {
            "round": np.array(self.tested),
            "correct": correct,
            "loss": correct / 7.0,
            "train_loss": correct / 5.0,
            "objective": correct / 3.0,
            "seconds_aggregation": np.full(count, 0.0625),
            "correct_after": np.where(np.arange(count)[:, None] > 0, correct, -1),
            "participated": np.repeat(np.arange(count)[:, None] > 0, len(self.test), axis=1),
            "seconds": np.full(count, 0.25),
            "seconds_evaluation": np.full(count, 0.125),
        }


@pytest.fixture
def fake() -> type[FakeSimulation]:
    """A fresh class of the fake engine: what one test asks of it no other sees."""
    return type("Fake", (FakeSimulation,), {"built": [], "before_step": None})


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "store", behind=tmp_path / "nothing")


def experiment(algorithm: str = "fedavg", **changes) -> Experiment:
    """Five clients of the embedded digits, four rounds."""
    return Experiment.for_dataset(algorithm, "digits", **({"clients": 5, "rounds": 4, "model": "mlp"} | changes))


def seeds(*numbers: int, **changes) -> list[Experiment]:
    return [experiment(seed=number, **changes) for number in numbers]


def same_but_timings(one, other) -> bool:
    """Whether two histories agree exactly in everything but the clock."""
    return differing(one, other) == []


@pytest.fixture
def make():
    """`make.experiment`, `make.seeds`, `make.same_but_timings`, for tests that have no package to import them from."""
    from types import SimpleNamespace

    return SimpleNamespace(experiment=experiment, seeds=seeds, same_but_timings=same_but_timings)


@pytest.fixture
def finished(fake, store, make):
    """A run in the store, of four rounds."""
    return run(make.experiment(), store=store, simulate=fake, progress=False)
