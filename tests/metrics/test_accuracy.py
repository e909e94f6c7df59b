"""Accuracies against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pflrepro.errors import UserError
from pflrepro.metrics import accuracy, client_spread, over_seeds, rounds_to, timing
from pflrepro.metrics.divergence import divergence
from pflrepro.metrics.selection import check_rule

# Three evaluations of three clients with 10, 30 and 0 test samples.
HISTORY = {
    "correct": np.array([[1, 3, 0], [5, 27, 0], [9, 15, 0]]),
    "correct_after": np.array([[-1, -1, -1], [8, -1, -1], [10, 24, 0]]),
    "loss": np.array([[20.0, 60.0, 0.0], [10.0, 30.0, 0.0], [4.0, 4.0, 0.0]]),
    "test_samples": np.array([10, 30, 0]),
}


def test_pooled_weighs_clients_by_their_test_samples():
    np.testing.assert_array_equal(accuracy.pooled(HISTORY), [0.1, 0.8, 0.6])


def test_after_training_counts_only_clients_that_have_trained():
    np.testing.assert_array_equal(accuracy.pooled_after(HISTORY), [math.nan, 0.8, 0.85])


def test_clients_after_training_and_their_plain_mean():
    each = accuracy.per_client_after(HISTORY)
    np.testing.assert_array_equal(each[:2], [[math.nan] * 3, [0.8, math.nan, math.nan]])
    np.testing.assert_array_equal(each[2], [1.0, 0.8, math.nan])
    np.testing.assert_allclose(accuracy.mean_over_clients_after(HISTORY), [math.nan, 0.8, 0.9], rtol=1e-15)


def test_the_plain_mean_leaves_out_clients_without_test_samples():
    np.testing.assert_allclose(accuracy.mean_over_clients(HISTORY), [0.1, 0.7, 0.7], rtol=1e-15)
    np.testing.assert_array_equal(accuracy.per_client(HISTORY)[1], [0.5, 0.9, math.nan])


def test_loss_is_a_sample_s():
    np.testing.assert_array_equal(accuracy.mean_test_loss(HISTORY), [2.0, 1.0, 0.2])


def test_without_test_samples_there_is_no_accuracy():
    nothing = {"correct": np.zeros((2, 1), int), "test_samples": np.array([0])}
    assert np.isnan(accuracy.pooled(nothing)).all()
    assert np.isnan(accuracy.mean_over_clients(nothing)).all()


def test_spread_over_trials():
    spread = accuracy.spread([0.8, 0.9, 1.0])
    assert (spread.mean, spread.n) == (pytest.approx(0.9), 3)
    assert spread.std == pytest.approx(math.sqrt(0.02 / 3))
    one = accuracy.spread([0.5])
    assert (one.mean, one.std, one.n) == (0.5, 0.0, 1)
    with pytest.raises(UserError, match="one value or more in a row"):
        accuracy.spread([])


MEASURES = {
    "correct": (accuracy.pooled, accuracy.mean_over_clients, accuracy.per_client),
    "correct_after": (accuracy.pooled_after, accuracy.mean_over_clients_after, accuracy.per_client_after),
    "loss": (accuracy.mean_test_loss,),
}


def test_what_is_no_history_and_no_numbers_is_named() -> None:
    for measure in (accuracy.pooled, client_spread, timing, divergence):
        with pytest.raises(UserError, match=r"a history is arrays by name, such as run\.history, not <object"):
            measure(object())
    for measure in (check_rule("best_round"), lambda given: rounds_to(0.5, given), over_seeds, accuracy.spread):
        with pytest.raises(UserError, match=r"values.* must be numbers, not <object"):
            measure(object())


@pytest.mark.parametrize(("key", "measure"), [(key, each) for key, row in MEASURES.items() for each in row])
def test_a_history_that_does_not_fit_is_one_clear_error(key: str, measure) -> None:
    with pytest.raises(UserError, match=rf"the history has no '{key}'; it has: \(nothing\)"):
        measure({})
    with pytest.raises(UserError, match=f"the history has no 'test_samples'; it has: {key}, round"):
        measure({key: [[1, 2]], "round": [0]})
    for bad in ([[1, 2, 3]], [1, 2]):
        with pytest.raises(UserError, match=rf"a history's {key} is \[evaluations, clients\]"):
            measure({key: bad, "test_samples": [4, 6]})
    if key != "loss":
        with pytest.raises(UserError, match=f"{key} of client 1 at evaluation 1 is 7, of 6 test samples"):
            measure({key: [[1, 6], [4, 7]], "test_samples": [4, 6]})
