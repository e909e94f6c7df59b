"""Paired tests against enumeration and SciPy; Holm's correction by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pflrepro.errors import UserError
from pflrepro.metrics import comparison as module
from pflrepro.metrics.comparison import holm, merged, of_two_groups, paired


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=9))
def test_sign_flips_are_the_enumeration(differences) -> None:
    found = paired(np.array(differences, float), np.zeros(len(differences)), "permutation")
    sums = [abs(np.dot(signs, differences)) for signs in itertools.product((-1, 1), repeat=len(differences))]
    assert found.p == pytest.approx(np.mean(np.array(sums) >= abs(sum(differences))))
    assert found.pairs == len(differences)


def test_sums_that_are_equal_but_for_rounding_count_as_equal() -> None:
    """0.1 + 0.2 - 0.3 is not 0 in binary; all 2^3 sums of +-0.1 +-0.2 +-0.3 are at least as large as that 0."""
    assert paired([0.1, 0.2, 0.0], [0.0, 0.0, 0.3], "permutation").p == 1.0


def test_sign_flips_of_many_pairs_are_scipy_s_and_those_of_forty_counted_by_hand() -> None:
    difference = np.random.default_rng(1).normal(0.4, 1, 18)
    exact = stats.permutation_test(
        (difference,), np.sum, permutation_type="samples", n_resamples=2**18, batch=2**16, vectorized=True
    )
    assert paired(difference, np.zeros(18), "permutation").p == pytest.approx(exact.pvalue)
    for pairs in (30, 40):  # of equal differences: none has the other sign, then one at most
        assert paired(np.ones(pairs), np.zeros(pairs), "permutation").p == 2 / 2**pairs
        one_against = np.append(np.ones(pairs - 1), -1.0)
        assert paired(one_against, np.zeros(pairs), "permutation").p == 2 * (1 + pairs) / 2**pairs


def test_more_sign_flips_are_drawn_and_the_seen_one_counts(monkeypatch) -> None:
    assert paired(np.ones(41), np.zeros(41), "permutation").p == 1e-5
    difference = np.random.default_rng(1).normal(0.4, 1, 18)
    exact = paired(difference, np.zeros(18), "permutation").p
    monkeypatch.setattr(module, "EXACT_PAIRS", 17)
    found = paired(difference, np.zeros(18), "permutation")
    assert found.p == pytest.approx(exact, abs=4 * math.sqrt(exact / 1e5))
    assert found == paired(difference, np.zeros(18), "permutation")


def test_student_s_paired_test_is_scipy_s() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(0.7, 0.05, 9), rng.normal(0.68, 0.05, 9)
    found, wanted = paired(a, b, "t"), stats.ttest_rel(a, b)
    assert found.p == pytest.approx(wanted.pvalue)
    assert found.difference == pytest.approx((a - b).mean())


def test_few_pairs_cannot_be_significant() -> None:
    assert paired([0.9, 0.8, 0.7], [0.1, 0.2, 0.3], "permutation").p == 0.25


def test_cells_that_were_not_run_are_left_out() -> None:
    a, b = [0.9, math.nan, 0.8, 0.7, 0.9], [0.8, 0.5, math.nan, 0.5, 0.6]
    found = paired(a, b, "t")
    assert found.pairs == 3
    assert found.p == paired([0.9, 0.7, 0.9], [0.8, 0.5, 0.6], "t").p


@pytest.mark.parametrize("test", ["t", "permutation"])
def test_degenerate_differences(test: str) -> None:
    assert paired([0.5, 0.6], [0.5, 0.6], test).p == 1.0
    assert paired([0.5], [0.5], test).p == 1.0
    one = paired([0.5], [0.4], test)
    assert math.isnan(one.p) if test == "t" else one.p == 1.0


def test_a_constant_difference() -> None:
    """It has no spread for t to go by: of the signs of three differences two patterns of eight are as extreme."""
    found = paired([1.0, 2.0, 3.0], [2.0, 3.0, 4.0], "t")
    assert (found.p, found.test, found.unequal) == (0.25, "permutation", 3)


def test_holm_by_hand_and_what_is_missing() -> None:
    assert holm([0.01, 0.02, 0.03, 0.5]).tolist() == pytest.approx([0.04, 0.06, 0.06, 0.5])
    adjusted = holm([0.01, math.nan, 0.9])
    assert adjusted[[0, 2]].tolist() == [0.02, 0.9] and math.isnan(adjusted[1])
    assert holm([]).shape == (0,)
    assert holm([[0.01, 0.04], [0.03, 0.5]]).shape == (2, 2)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_only_raises_and_keeps_the_order(values) -> None:
    adjusted = holm(values)
    assert (adjusted >= np.array(values) - 1e-15).all() and (adjusted <= 1).all()
    assert (np.diff(adjusted[np.argsort(values, kind="stable")]) >= 0).all()
    assert adjusted.min() == pytest.approx(min(1.0, len(values) * min(values)))  # Bonferroni's for the smallest


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: paired([0.1], [0.1, 0.2], "t"), "one length"),
        (lambda: paired([math.nan], [0.1], "t"), "no cell was run with both"),
        (lambda: paired([], [], "t"), "no cell was run with both"),
        (lambda: paired([0.1], [0.2], "sign"), "unknown paired test 'sign'"),
        (lambda: holm([1.5]), "between 0 and 1"),
    ],
)
def test_what_cannot_be_compared_is_refused(call, message: str) -> None:
    with pytest.raises(UserError, match=message):
        call()


def test_differences_that_are_equal_but_for_rounding_are_constant() -> None:
    """0.3 - 0.2 and 0.2 - 0.1 differ in binary."""
    for sign in (1, -1):
        found = paired(sign * np.array([0.3, 0.2, 0.1]), sign * np.array([0.2, 0.1, 0.0]), "t")
        assert found.p == 0.25
        assert found.difference == pytest.approx(sign * 0.1)


@pytest.mark.parametrize("test", ["t", "permutation"])
def test_pairs_that_are_equal_but_for_rounding_are_ties(test: str) -> None:
    found = paired([0.1 + 0.2, 0.7, 0.9, 0.5], [0.3, 0.6, 0.7, 0.9], test)
    exact = paired([0.3, 0.7, 0.9, 0.5], [0.3, 0.6, 0.7, 0.9], test)
    assert found.p == pytest.approx(exact.p)
    assert paired([0.1 + 0.2] * 3, [0.3] * 3, test).p == 1.0


def test_small_differences_are_no_rounding() -> None:
    found = paired([1e-9, 2e-9, 4e-9, 1.0], [0.0, 0.0, 0.0, 1.0 + 1e-9], "permutation")
    assert found.p == 6 / 16  # of the sums of +-1 +-2 +-4 +-1, one is 8 and two are 6


@given(st.lists(st.integers(-5, 5), min_size=0, max_size=9))
def test_what_is_apart_by_more_than_the_slack_stays_itself(values) -> None:
    values = np.array(values, float)
    np.testing.assert_array_equal(merged(values, np.full(len(values), 0.5)), values)
    noise = np.linspace(-1e-13, 1e-13, len(values))
    again = merged(values + noise, np.full(len(values), 1e-12))
    np.testing.assert_array_equal(again[:, None] == again, values[:, None] == values)


def test_two_groups_are_dealt_anew() -> None:
    """Of a group of one there are as many ways as values: 4 is the farthest of four from their mean."""
    assert of_two_groups([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]) == 0.1
    assert of_two_groups([4.0], [1.0, 2.0, 2.5]) == of_two_groups([1.0, 2.0, 2.5], [4.0]) == 0.25
    assert of_two_groups([2.0], [1.0, 2.0, 3.0]) == 1.0
    # in binary, too, deals that differ by as much as the seen one are counted: all, 17 of 126, 11 of 210
    assert of_two_groups([0, 1, 1], [0.8, 0.8, 0.8, 0.4]) == 1.0
    assert of_two_groups([0, 0.8, 0.6, 0], [1, 1, 0.8, 0.8, 0.4]) == 17 / 126
    assert of_two_groups([0.4, 0.2, 0.1, 0.1], [0.7, 0.5, 0.3, 0.5, 0.3, 0.4]) == 11 / 210
    for groups, words in (([[], [1.0]], "no value"), ([[1.0, float("nan")], [2.0, 3.0]], "not finite")):
        with pytest.raises(UserError, match=words):
            of_two_groups(*groups)
