"""Hand-made runs: an artefact, a store in memory and histories whose accuracies are known, without any engine."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pflrepro.papers.artefact import Artefact, Claim, Column, Row, Scale

SETTING = "partition=practical;beta=0.1;N=20;rho=1"


@dataclass(frozen=True)
class FakeExperiment:
    algorithm: str
    data: Any
    model: str
    seed: int
    rounds: int
    participation: float = 1.0
    local_epochs: int = 1
    batch_size: int = 10


@dataclass(frozen=True)
class FakeData:
    dataset: str
    clients: int = 2
    partition_seed: int = 1


class FakeArtefact(Artefact):
    """Cells of every row and column but `absent`, whose method the package has not got."""

    def cell(self, row, column, scale, seed):
        run_as = scale.column(column)
        if run_as is None or row.algorithm == "absent":
            return None
        return FakeExperiment(row.algorithm, FakeData(run_as.dataset), run_as.model, seed, scale.rounds)


@dataclass
class FakeStore:
    """Runs by experiment; `root` as a real store has one."""

    content: dict[Any, Any] = field(default_factory=dict)
    root: Path = Path("store")

    def find(self, experiment, data_root=None):
        return self.content.get(experiment)

    def runs(self):
        return list(self.content.values())

    def add(
        self, algorithm: str, curve: list[int], *, seed=0, dataset="digits", rounds=2, after=None, scale_rounds=None
    ):
        experiment = FakeExperiment(algorithm, FakeData(dataset), "mlp", seed, scale_rounds or rounds)
        self.content[experiment] = make_run(experiment, curve, after)
        return self.content[experiment]


def make_run(experiment: Any, curve: list[int], after: list[int] | None = None) -> Any:
    """A run of two clients with 30 and 70 test samples; `curve`: correct predictions of both together, so percent."""
    count = len(curve)
    correct = np.array([_shared(value) for value in curve])
    trained = np.full((count, 2), -1)
    if after is not None:
        trained[1:] = [_shared(value) for value in after]
    history = {
        "round": np.arange(count),
        "correct": correct,
        "loss": np.ones((count, 2)),
        "correct_after": trained,
        "participated": np.concatenate([np.zeros((1, 2), bool), np.ones((count - 1, 2), bool)]),
        "seconds": np.concatenate([[0.0], np.full(count - 1, 2.0)]),
        "seconds_evaluation": np.full(count, 0.5),
        "test_samples": np.array([30, 70]),
        "train_samples": np.array([90, 210]),
    }
    environment = {"device": "cpu", "backend": "loop", "versions": {"torch": "9.9"}}
    name = f"{experiment.algorithm}-{experiment.seed}"
    return SimpleNamespace(
        folder=Path("store") / name,
        config={},
        history=history,
        environment=environment,
        experiment=experiment,
        fingerprint="f00d",
    )


def _shared(value: int) -> list[int]:
    """`value` of 100 correct predictions, shared out to clients of 30 and 70 test samples."""
    return [value * 3 // 10, value - value * 3 // 10]


def column(key: str, label: str, dataset: str, setting: str = SETTING) -> Column:
    return Column(
        key,
        label,
        dataset,
        "mlp",
        "iid",
        clients=2,
        setting=setting,
        published_dataset="FMNIST",
        published_model="CNN4",
        samples=400,
    )


def make_artefact(**changes: Any) -> FakeArtefact:
    rows = (Row("FedAvg", "fedavg"), Row("FedAvg+DBE", "fedavg+dbe", aliases=("FedDBE",)), Row("Nothing", "absent"))
    columns = (column("a", "A", "digits"), column("b", "B", "digits", "partition=none"))
    stand_in = replace(columns[0], clients=1)
    scales = (
        Scale("smoke", "a stand-in", 1, 1, stand_ins=(stand_in,)),
        Scale("fast", "few rounds", 2, 2, columns=("a",)),
        Scale("paper", "all", 9, 3, patience=1),
    )
    made = FakeArtefact(
        "demo/fake",
        "demo",
        "A fake",
        "table",
        "demo/fake.ipynb",
        rows,
        columns,
        scales,
        sources=("dbe_table5", "pfllib_leaderboard"),
        claims=(Claim("fedavg+dbe", "fedavg", source="the fake"),),
        pictures=("points", "curves"),
    )
    return replace(made, **changes)


@pytest.fixture
def artefact(monkeypatch: pytest.MonkeyPatch) -> FakeArtefact:
    """The fake artefact; of its methods the package lacks `absent`."""
    monkeypatch.setattr(
        "pflrepro.papers.availability.missing_part", lambda method, *_: "no method" if method == "absent" else None
    )
    return make_artefact()


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()
