"""A run that comes apart is found, with round and clients, and no other one is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pflrepro.experiments import compact
from pflrepro.metrics.divergence import Divergence, divergence

SHIPPED = Path(__file__).parents[2] / "figures" / "runs"


def history(**places) -> dict[str, np.ndarray]:
    """Three tests of four clients, the last without test data; `loss_1_2=x` puts x at test 1, client 2."""
    arrays = {name: np.full((3, 4), 2.0) for name in ("loss", "train_loss")} | {"round": np.array([0, 5, 10])}
    for place, value in places.items():
        name, test, client = place.rsplit("_", 2)
        arrays[name][int(test), int(client)] = value
    return arrays | {"test_samples": np.array([4, 1, 9, 0])}


@pytest.mark.parametrize(
    ("places", "found"),
    [
        ({}, None),
        ({"train_loss_0_1": np.nan, "train_loss_2_3": np.nan}, None),  # nothing was trained
        ({"loss_1_1": 9e5, "loss_1_0": 3.9e6}, None),  # of four samples
        ({"loss_2_1": np.nan}, Divergence(10, (1,))),
        ({"loss_1_2": np.inf, "loss_1_0": np.nan, "loss_2_1": np.nan}, Divergence(5, (0, 2))),
        ({"loss_1_1": 1.1e6}, Divergence(5, (1,))),
        ({"train_loss_1_3": np.inf}, Divergence(5, (3,))),
    ],
)
def test_what_counts_as_diverged(places, found) -> None:
    assert divergence(history(**places)) == found


def test_a_message_names_few_clients() -> None:
    assert str(Divergence(3, tuple(range(9)))) == "diverged by round 3 (clients 0, 1, 2, 3, 4 ...)"


@pytest.mark.skipif(not SHIPPED.is_dir(), reason="needs the committed runs")
def test_of_the_committed_runs_five_diverged() -> None:
    """SCAFFOLD's on digits, whose losses end in NaN, the usual values of two grids on HAR (`papers.tuning`), FedGen's row there."""
    runs = [compact.read(path) for path in sorted(SHIPPED.glob("*.npz"))]
    diverged = {
        (run.experiment.algorithm, run.experiment.options, run.experiment.data.dataset, run.experiment.seed)
        for run in runs
        if run.diverged
    }
    assert diverged == {
        ("scaffold", (), "digits", 0),
        ("scaffold", (), "digits", 2),
        ("pfedme", (("personal_rate", 0.1),), "har-interleaved", 0),
        ("fedgen", (("generator_rate", 0.005),), "har-interleaved", 0),
        ("fedgen", (("generator_rate", 0.0005),), "har-interleaved", 0),
    }
