"""Hand-made runs in a real store: an artefact on the embedded digits whose printed numbers and accuracies are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from pflrepro.experiments.config import Experiment
from pflrepro.experiments.identity import fingerprint_of, identity, identity_digest
from pflrepro.experiments.result import Run
from pflrepro.experiments.store import Store
from pflrepro.papers.artefact import SMOKE, Artefact, Scale, column, row
from pflrepro.papers.claims import above
from pflrepro.papers.settings import lib
from pflrepro.papers.studies import Study
from pflrepro.papers.views.table import Table

DIGITS = {"clients": 5, "lr": 0.1, "min_size": 10, "rounds": 4, "patience": 0}
PAIRS = lib("digits, pairs", "digits", "mlp", "pathological:2", **DIGITS)
SKEWED = lib("digits, skewed", "digits", "mlp", "dirichlet:0.5", **DIGITS)
# Printed: FedAvg 85.85, FedAvg+DBE 97.69 (DBE Table 5; 0.19 and 0.05 are in the leaderboard); of the pairs 80.41 and 99.74.
PRINTED = {"dataset": "FMNIST", "model": "CNN4"}
ON_PAIRS = {"setting": "partition=pathological;N=20;rho=1;classes_per_client=2"}
ON_SKEWED = {"setting": "partition=practical;beta=0.1;N=20;rho=1"}
TEST_SAMPLES = np.full(5, 20)


def make_artefact(**changes: Any) -> Artefact:
    """Three rows, of which `Nothing` is a method that the package lacks, and two columns; `changes`: of its fields."""
    made = Artefact(
        "demo/fake",
        "A fake",
        rows=(row("FedAvg"), row("FedAvg+DBE", "fedavg+dbe", aliases=("FedDBE",)), row("Nothing", "absent")),
        columns=(
            column("pairs", PAIRS, label="FMNIST", group="two classes", **PRINTED, **ON_PAIRS),
            column("skewed", SKEWED, label="FMNIST", group="shares", **PRINTED, **ON_SKEWED),
        ),
        scales=(SMOKE, Scale("fast", "few", rounds=2, seeds=2, columns=("skewed",)), Scale("paper", "all", seeds=3)),
        claims=(above("fedavg+dbe", "fedavg", source="the fake"),),
        views=(Table(),),
        sources=("dbe_table5", "pfllib_leaderboard"),
        about="What it is.",
    )
    return replace(made, **changes)


def history(*percents: int, rounds: list[int] | None = None) -> dict[str, np.ndarray]:
    """Tests of five clients with 100 test samples together, `percents` of which are right, dealt out evenly."""
    count, sizes = len(percents), TEST_SAMPLES
    correct = (np.array(percents)[:, None] + np.arange(5)) // 5
    begun = np.arange(count) > 0
    return {
        "round": np.array(rounds or range(count)),
        "correct": correct,
        "loss": np.ones((count, 5)),
        "correct_after": np.where(begun[:, None], correct, -1),
        "train_loss": np.where(begun[:, None], 0.5, np.nan) * np.ones(5),
        "objective": np.where(begun[:, None], 0.75, np.nan) * np.ones(5),
        "participated": np.repeat(begun[:, None], 5, axis=1),
        "seconds": np.where(begun, 2.0, 0.0),
        "seconds_aggregation": np.where(begun, 0.25, 0.0),
        "seconds_evaluation": np.full(count, 0.5),
        "test_samples": sizes,
        "train_samples": 3 * sizes,
    }


def put(store: Store, experiment: Experiment, *percents: int, rounds: list[int] | None = None, **arrays: Any) -> Run:
    """A finished run of the experiment whose curve is `percents`, as if it had been trained; `arrays` replace those of its history."""
    described = identity(experiment, fingerprint_of(experiment.data))
    id = identity_digest(described)
    store.begin(id, experiment, described)
    made = {"device": "cpu", "backend": "loop", "versions": {"torch": "9.9"}}
    return store.finish(id, experiment, history(*percents, rounds=rounds) | arrays, made)


def fill(study: Study, row: str, column: str, *curves: list[int]) -> list[Run]:
    """Hand-made runs of a cell, one curve a seed."""
    experiments = study.experiments(study.artefact.row(row), study.artefact.column(column))
    found = [put(study.store, each, *curve) for each, curve in zip(experiments, curves, strict=False)]
    for kept in ("cells", "grid", "outcomes"):
        study.__dict__.pop(kept, None)
    return found


def line(study: Study, row: str, column: str = "shares: FMNIST") -> pd.Series:
    """The line of a study's frame of one cell."""
    found = study.frame[(study.frame["row"] == row) & (study.frame["column"] == column)]
    assert len(found) == 1
    return found.iloc[0]
