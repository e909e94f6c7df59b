"""Rounds to a threshold and convergence, by hand and against the printed tables."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from pflrepro.errors import UserError
from pflrepro.metrics.curves import iterations_to_convergence, largest_loss, mean_loss, rounds_to, unfinished
from pflrepro.metrics.selection import select
from pflrepro.papers.numbers import published

CURVE = [0.1, 0.5, 0.79, 0.8, 0.7, 0.9, 0.9]
ROUNDS = [0, 2, 4, 6, 8, 10, 12]


def test_the_first_evaluated_round_that_reaches_it() -> None:
    assert rounds_to(0.8, CURVE, ROUNDS) == 6
    assert rounds_to(0.8, CURVE) == 3
    assert rounds_to(0.0, CURVE, ROUNDS) == 0
    assert rounds_to(0.91, CURVE, ROUNDS) is None
    assert rounds_to(0.8, [math.nan, 0.9]) == 1
    assert rounds_to(0.8, [math.nan, math.nan]) is None


def test_convergence_is_the_first_best_evaluation() -> None:
    assert iterations_to_convergence(CURVE, ROUNDS) == 10
    assert iterations_to_convergence([math.nan, 0.2, 0.1]) == 1
    assert iterations_to_convergence(CURVE) == select("best_round", CURVE).places[0]
    with pytest.raises(UserError, match="without any number"):
        iterations_to_convergence([math.nan])


def test_fedbr_table_1_s_factors_recomputed() -> None:
    """All printed factors but three are the ratio to FedAvg's rounds, rounded to one digit."""
    table = published("fedbr_table1")
    differing = set()
    for _, column in table[table["metric"].str.startswith("rounds_to_")].groupby("dataset"):
        (reference,) = column.loc[column["method"] == "FedAvg", "value"]
        for method, note, factor in zip(column["method"], column["note"], reference / column["value"], strict=True):
            printed = re.search(r"speed-up printed ([\d.]+)X", note)
            assert (printed is None) == math.isnan(factor)
            if printed and abs(float(printed[1]) - factor) > 0.0501:
                differing.add((column["dataset"].iloc[0], method, printed[1], round(factor, 2)))
    assert differing == {
        ("CIFAR100", "FedAvg + Mixup", "1.6", 1.54),
        ("CIFAR100", "FedBR (Ours)", "1.5", 1.56),
        ("RotatedMNIST", "Moon", "0.9", 0.96),
    }


@pytest.mark.parametrize(
    ("curve", "rounds", "rises"),
    [
        ([*range(11)], None, True),
        ([*range(9), 10, 8], None, True),  # one test below the best says nothing of an end
        ([*range(8), 10, 8, 9], None, False),  # the best is before the last fifth
        ([1, 8, 2, 8, 2, 8, 2, 8, 2, 1, 9], None, False),  # one high value at the end of a curve that swings
        ([float("nan"), *range(1, 11)], None, True),
        ([0, 14, 16], [0, 20, 40], True),  # nothing was tested in the fifth before
        ([float("nan")] * 3, None, False),
        ([5], None, False),
    ],
)
def test_a_curve_is_unfinished_where_it_rises_at_the_end(curve, rounds, rises: bool) -> None:
    assert unfinished(curve, rounds) is rises


def test_losses_of_clients_that_have_not_trained_count_for_nothing() -> None:
    nothing = float("nan")
    history = {"train_loss": [[nothing, nothing], [2.0, nothing], [1.0, 2.0]], "train_samples": [3, 1]}
    np.testing.assert_array_equal(mean_loss(history), [nothing, 2.0, 1.25])
    np.testing.assert_array_equal(largest_loss(history), [nothing, 2.0, 2.0])
    diverged = {"train_loss": [[float("inf"), 1.0]], "train_samples": [1, 3]}
    assert mean_loss(diverged).tolist() == largest_loss(diverged).tolist() == [float("inf")]


@pytest.mark.parametrize(
    "call",
    [
        lambda: unfinished([]),
        lambda: rounds_to(0.5, []),
        lambda: rounds_to(0.5, [[0.1]]),
        lambda: rounds_to(0.5, [0.1, 0.2], rounds=[0]),
        lambda: iterations_to_convergence(np.zeros(0)),
    ],
)
def test_curves_that_are_none_are_refused(call) -> None:
    with pytest.raises(UserError, match="a curve needs at least one value"):
        call()


@pytest.mark.parametrize("threshold", ["0.5", None, float("nan")])
def test_a_threshold_is_a_number(threshold) -> None:
    with pytest.raises(UserError, match="a threshold must be a number, not"):
        rounds_to(threshold, [0.1, 0.9])


def test_a_threshold_may_be_numpy_s() -> None:
    assert rounds_to(np.float32(0.5), [0.1, 0.9]) == 1
