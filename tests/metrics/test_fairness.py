"""The spread over clients against NumPy and numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflrepro.errors import UserError
from pflrepro.metrics import fairness
from pflrepro.papers.numbers import published

# Three evaluations of three clients with 10, 30 and 0 test samples.
HISTORY = {
    "correct": np.array([[1, 3, 0], [5, 27, 0], [9, 15, 0]]),
    "test_samples": np.array([10, 30, 0]),
}
accuracies = st.lists(st.floats(0, 1), min_size=2, max_size=40)


@given(accuracies)
def test_they_are_numpy_s(values) -> None:
    array = np.array(values)
    assert fairness.std(array) == pytest.approx(array.std(), abs=1e-12)
    count = math.ceil(0.1 * len(array))
    assert fairness.worst_share(array) == pytest.approx(np.sort(array)[:count].mean())


def test_clients_without_test_samples_are_left_out() -> None:
    with_nan = np.array([[0.5, np.nan, 0.9], [0.2, 0.4, 0.6]])
    np.testing.assert_allclose(fairness.std(with_nan), [0.2, np.std([0.2, 0.4, 0.6])])
    np.testing.assert_allclose(fairness.worst_share(with_nan, 0.5), [0.5, 0.3])


def test_what_has_no_denominator_is_not_a_number() -> None:
    assert np.isnan(fairness.std([np.nan]))
    assert np.isnan(fairness.worst_share([np.nan, np.nan]))


@pytest.mark.parametrize("share", [0, 1.5, float("nan")])
def test_impossible_shares_are_refused(share) -> None:
    with pytest.raises(UserError, match="share of the clients"):
        fairness.worst_share([0.5], share)


def test_a_single_number_is_no_spread() -> None:
    with pytest.raises(UserError, match="one accuracy a client"):
        fairness.std(0.5)


def test_the_worst_tenth_of_twenty_clients_are_two() -> None:
    values = np.linspace(0.05, 1, 20)
    assert fairness.worst_share(values) == pytest.approx((0.05 + 0.10) / 2)
    assert fairness.worst_share(np.linspace(0.1, 1, 10), 0.3) == pytest.approx(0.2)  # 0.3 * 10 is 3, not 4


def test_from_a_history() -> None:
    spread = fairness.client_spread(HISTORY)
    np.testing.assert_allclose(spread.mean, [0.1, 0.7, 0.7])
    np.testing.assert_allclose(spread.std, [0, 0.2, 0.2], atol=1e-15)
    np.testing.assert_allclose(spread.worst_tenth, [0.1, 0.5, 0.5])
    np.testing.assert_allclose(spread.best_tenth, [0.1, 0.9, 0.9])
    best = fairness.at_best_round(HISTORY)
    assert (best.mean, best.std) == pytest.approx((0.7, 0.2))
    assert best.variation == pytest.approx(0.25)  # 0.2 / 0.8: the second test, not the third, of 0.2 / 0.6


def test_gpfl_table_3_is_std_over_the_accuracy_of_its_tables_1_and_2() -> None:
    """Which std and which denominator the paper means: 100 std / accuracy agrees to the printed digits."""
    spreads = published("gpfl_table3").set_index(["method", "dataset", "setting", "metric"])["value"]
    printed = published("gpfl_table1")
    table = printed[(printed["dataset"] == "Tiny-ImageNet") & printed["setting"].str.contains("pathological")]
    checked = 0
    for row in table.itertuples():
        mine = {metric: value for (method, dataset, setting, metric), value in spreads.items()
                if method == row.method and dataset == row.dataset and "pathological" in setting}  # fmt: skip
        if mine:
            ratio = 100 * mine["client_accuracy_std_percent"] / row.value
            assert ratio == pytest.approx(mine["coefficient_of_variation_x1e-2"], abs=0.06), row.method
            checked += 1
    assert checked == 11


def test_without_test_samples_there_is_no_best_round() -> None:
    nothing = {"correct": np.zeros((3, 2), int), "test_samples": np.zeros(2, int)}
    with pytest.raises(UserError, match="no client has test samples"):
        fairness.at_best_round(nothing)


def test_a_history_without_test_samples_names_what_lacks() -> None:
    with pytest.raises(UserError, match="the history has no 'test_samples'; it has: correct"):
        fairness.at_best_round({"correct": [[1, 2]]})
