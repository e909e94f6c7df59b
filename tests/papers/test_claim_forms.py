"""Every form of a claim on hand-made samples: what keeps it and what breaks it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from helpers.claims import GOOD, MIDDLE, POOR, cell, grid, of_clients, one
from scipy import stats

from pflrepro.papers import claims
from pflrepro.papers.claims import Sample
from pflrepro.papers.judging import judge


def test_best_is_above_every_other_row() -> None:
    found = judge([claims.best("a")], grid(a_x=cell(*GOOD), b_x=cell(*POOR), c_x=cell(*MIDDLE), c_y=cell(*POOR)))
    assert [(each.said, each.outcome) for each in found] == [("A > B", "kept"), ("A > C", "kept")]


@pytest.mark.parametrize(
    ("k", "rows", "outcome"),
    [
        # a is second of four: the best two hold it, the best one does not.
        (1, (MIDDLE, GOOD, POOR, POOR), "broken"),
        (2, (MIDDLE, GOOD, POOR, POOR), "kept"),
        (3, (MIDDLE, GOOD, POOR, POOR), "kept"),
        (2, (POOR, GOOD, MIDDLE, MIDDLE), "broken"),
        # One rival that cannot be told apart may be among the best two, two of them may not.
        (2, (MIDDLE, MIDDLE, POOR, POOR), "kept"),
        (2, (MIDDLE, MIDDLE, MIDDLE, POOR), "undecided"),
    ],
)
def test_top(k: int, rows: tuple[tuple[float, ...], ...], outcome: str) -> None:
    board = grid(**{f"{name}_x": cell(*values) for name, values in zip("abcd", rows, strict=True)})
    found = one(claims.top("a", k), board)
    assert found.outcome == outcome and found.places == (("a", "x"),), "it is about A alone"
    # Its p is that of the k-th strongest rival, which it names, times the rivals that may have been picked wrongly.
    against = {other.upper(): one(claims.above("a", other), board) for other in "bcd"}
    rival = against[found.said.removeprefix(f"A among the best {k} (rival: ").removesuffix(")")]
    picked = k if rival.difference > 0 else 3 - k + 1
    assert (found.p, found.difference) == (pytest.approx(min(1.0, picked * rival.p)), rival.difference)
    assert (found.p < 0.05) == (outcome != "undecided")


def test_a_rival_that_is_picked_after_a_look_is_no_proof() -> None:
    """One rival is better for sure; the luckiest of five others, p = 0.0156, is not shown to be better, too."""
    weights, base = np.ones(7), 50.0 + np.arange(7)
    rivals = {
        "sure": base + 20,
        "lucky": base + 1,
        **{f"r{i}": base + np.array([1, -1, 1, -1, 1, -1, 0]) for i in range(4)},
    }
    each = {row: of_clients(*values, weights=weights) for row, values in ({"a": base} | rivals).items()}
    board = grid(**{f"{row}_x": sample for row, sample in each.items()})
    found = one(claims.top("a", 2), board)
    assert one(claims.above("a", "lucky"), board).outcome == "broken"
    assert (found.outcome, found.p) == ("undecided", pytest.approx(5 * 2**-6))
    assert found.test == "sign flips over 7 clients, times 5 for the choice"


def test_of_rivals_that_one_p_shows_to_be_better_the_one_farthest_ahead_is_the_strongest() -> None:
    """All twelve clients prefer each rival, so that sign flips give both the same p."""
    weights = np.ones(12)
    levels = {"a": 29.7, "near": 35.3, "far": 45.5, "poor": 10.0}
    each = {row: of_clients(*(value + np.arange(12)), weights=weights) for row, value in levels.items()}
    for order in (("near", "far"), ("far", "near")):
        board = grid(**{f"{row}_x": each[row] for row in ("a", *order, "poor")})
        first, second, third = (one(claims.top("a", k), board) for k in (1, 2, 3))
        assert [found.difference for found in (first, second, third)] == pytest.approx([-15.8, -5.6, 19.7])
        assert second.said == "A among the best 2 (rival: NEAR)" and second.p / 2 == pytest.approx(first.p / 3)


def test_top_is_not_claimed_among_too_few_and_not_of_unfinished_curves() -> None:
    few = grid(a_x=cell(*GOOD), b_x=cell(*POOR))
    assert judge([claims.top("a", 2)], few) == []
    rising = grid(a_x=cell(*GOOD), b_x=cell(*POOR), c_x=cell(*POOR, rising=True))
    assert one(claims.top("a", 2), rising).outcome == "still rising"


def test_a_rival_that_was_not_run_may_be_the_strongest() -> None:
    measured = grid(a_x=cell(*GOOD), b_x=cell(*POOR), c_x=cell(*POOR))
    assert one(claims.top("a", 2), measured).outcome == "kept"
    absent = {"rows": tuple("abcde"), "labels": {name: name.upper() for name in "abcdex"}}
    found = one(claims.top("a", 2), replace(measured, **absent))
    assert (found.outcome, found.test) == ("undecided", "none: 2 of 4 rivals not run") and math.isnan(found.p)
    whole = grid(a_x=cell(*GOOD), **{f"{name}_x": cell(*POOR) for name in "bcde"})
    assert one(claims.top("a", 2), whole).outcome == "kept"
    beaten = grid(a_x=cell(*POOR), b_x=cell(*GOOD), c_x=cell(*GOOD))
    assert one(claims.top("a", 2), replace(beaten, **absent)).outcome == "broken", "two are better, whoever else"


def test_gain_grows_compares_the_leads_in_two_columns() -> None:
    board = grid(a_x=cell(72, 73, 74.1), b_x=cell(70, 71, 72), a_y=cell(65, 64, 66), b_y=cell(60, 58.9, 61.2))
    found = one(claims.gain_grows("a", "b", ("x", "y")), board)
    leads = np.subtract([5, 5.1, 4.8], [2, 2, 2.1])
    assert found.difference == pytest.approx(leads.mean())
    assert found.p == pytest.approx(stats.ttest_1samp(leads, 0).pvalue)
    assert (found.said, found.outcome, found.column) == ("lead of A over B grows from X to Y", "kept", "y")
    assert len(found.places) == 4
    assert one(claims.gain_grows("a", "b", ("y", "x")), board).outcome == "broken"
    assert one(claims.gain_grows("b", "a", ("x", "y")), board).outcome == "broken"


def test_gain_grows_where_less_is_better() -> None:
    board = grid(("x", "y"), a_x=cell(2, 2.1), b_x=cell(3, 3.2), a_y=cell(2, 2), b_y=cell(9, 9.3))
    found = one(claims.gain_grows("a", "b", ("x", "y")), board)
    assert found.difference == pytest.approx((7 + 7.3 - 1 - 1.1) / 2)
    assert found.outcome == "kept"


def test_rises_and_falls_are_how_far_the_fitted_line_rises_along_the_rows() -> None:
    values = {"a": (1, 2, 3.0), "b": (2, 3.1, 4), "c": (4, 5, 5.8), "d": (3.9, 5.2, 6.1)}
    board = grid(**{f"{row}_x": cell(*each) for row, each in values.items()})
    found = one(claims.rises("abcd"), board)
    rise = [3 * stats.linregress(range(4), [values[row][seed] for row in "abcd"]).slope for seed in range(3)]
    assert found.difference == pytest.approx(np.mean(rise))
    assert found.p == pytest.approx(stats.ttest_1samp(rise, 0).pvalue)
    assert (found.said, found.outcome) == ("rises from A to D", "kept")
    falls = one(claims.falls("abcd"), board)
    assert (falls.outcome, falls.difference, falls.p) == ("broken", -found.difference, pytest.approx(found.p))


def test_a_trend_is_of_the_numbers_and_of_the_rows_that_were_measured() -> None:
    """Whether more is better says nothing of a trend; a row that was not run is left out, one alone has no trend."""
    board = grid(("x",), a_x=cell(3, 3.1), c_x=cell(1, 1.2), d_y=cell(7, 7))
    (found,) = judge([claims.falls("abcd")], board)
    assert (found.said, found.column, found.difference) == ("falls from A to C", "x", pytest.approx(1.95))


def test_the_middle_row_of_an_odd_trend_says_nothing_of_it() -> None:
    still = Sample({0: 5.0, 1: 7.0, 2: 6.0}, {}, rising=True)
    board = grid(a_x=cell(1, 1.1, 1.2), b_x=still, c_x=cell(3, 3.2, 3.1))
    found = one(claims.rises("abc"), board)
    assert (found.outcome, list(found.places)) == ("kept", [("a", "x"), ("c", "x")])


@pytest.mark.parametrize(("claim", "outcome"), [(claims.rises_across, "kept"), (claims.falls_across, "broken")])
def test_across_columns_the_last_is_held_against_the_first(claim, outcome: str) -> None:
    board = grid(a_x=cell(1, 2), a_y=cell(9, 9), a_z=cell(3, 4.02))
    found = one(claim("a", ("x", "y", "z")), board)
    assert abs(found.difference) == pytest.approx(2.01)
    assert found.p == pytest.approx(stats.ttest_1samp([2, 2.02], 0).pvalue)
    assert (found.outcome, found.column) == (outcome, "z")
    assert found.said == f"A {claim.__name__.split('_')[0]} from X to Z"


def test_a_peak_is_above_both_ends() -> None:
    board = grid(a_x=cell(1, 2, 3), b_x=cell(4, 5.1, 6), c_x=cell(9, 9, 9), d_x=cell(2, 3, 4.1))
    found = judge([claims.peaks("abcd", at="b")], board)
    assert [(each.said, each.outcome) for each in found] == [("B > A", "kept"), ("B > D", "kept")]
    assert [each.outcome for each in judge([claims.peaks("abc", at="b")], board)] == ["kept", "broken"]


def test_within_tests_both_bounds() -> None:
    """Differences -0.5, -0.4, -0.6: above -1 by 0.5 on average, below 1 by 1.5; t = mean / (0.1 / sqrt 3)."""
    board = grid(a_x=cell(70, 71, 72), b_x=cell(70.5, 71.4, 72.6))
    found, t = one(claims.within("a", "b", 1.0), board), 0.5 / (0.1 / math.sqrt(3))
    assert (found.said, found.outcome) == ("A and B differ by less than 1", "kept")
    assert found.difference == pytest.approx(0.5), "of the rows, not to the bound"
    assert found.p == pytest.approx(1 - t / math.sqrt(t**2 + 2))  # two-sided, two degrees of freedom
    assert found.chance == 0.0, "where nothing differs it is right"
    assert one(claims.within("a", "b", 0.1), board).outcome == "broken"
    assert [one(claims.within(*rows, 0.1), board).difference for rows in ("ab", "ba")] == pytest.approx([0.5, 0.5])
    assert one(claims.within("a", "b", 3.0), board).difference == pytest.approx(0.5)
