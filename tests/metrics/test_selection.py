"""Selection rules against numbers worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflrepro.errors import UserError
from pflrepro.metrics.selection import RULES, Selected, check_enough, check_rule, select

CURVE = [0.1, 0.5, 0.9, 0.4, 0.9, 0.6, 0.2]
unit = st.floats(0, 1)


@pytest.mark.parametrize(
    ("rule", "value", "places"),
    [
        ("best_round", 0.9, (2,)),
        ("last_round", 0.2, (6,)),
        ("mean_last_3", (0.9 + 0.6 + 0.2) / 3, (4, 5, 6)),
        ("mean_last_10", sum(CURVE) / 7, tuple(range(7))),
        ("mean_best_5", (0.9 + 0.9 + 0.6 + 0.5 + 0.4) / 5, (1, 2, 3, 4, 5)),
    ],
)
def test_rules(rule, value, places):
    selected = select(rule, CURVE)
    assert selected.value == pytest.approx(value, abs=1e-15)
    assert selected.places == places
    assert float(selected) == selected.value


@given(st.lists(unit, min_size=1, max_size=30))
def test_every_rule_stays_inside_the_curve_and_is_the_mean_of_its_places(curve):
    for rule in RULES:
        selected = select(rule, curve)
        chosen = [curve[place] for place in selected.places]
        assert min(curve) - 1e-12 <= selected.value <= select("best_round", curve).value + 1e-12
        assert selected.value == pytest.approx(sum(chosen) / len(chosen))


@pytest.mark.parametrize("name", ["best", "mean_last_0", "mean_last_", "mean_best_-1", "", None])
def test_unknown_rules_are_refused(name):
    with pytest.raises(UserError, match=r"unknown selection rule .*; valid: .*best_round"):
        check_rule(name)


def test_the_forms_with_a_number_are_said_as_forms():
    with pytest.raises(
        UserError, match=r"'mean_last_k'; valid: mean_last_K, mean_best_K, .* \(K: a whole number, such as "
    ):
        check_rule("mean_last_k")


def test_a_mean_of_more_tests_than_there_are_is_refused():
    check_enough(check_rule("mean_best_3"), 3)
    with pytest.raises(UserError, match="mean_best_4 is a mean of 4 tests, and there are 3; K may be 1 to 3"):
        check_enough(check_rule("mean_best_4"), 3)


def test_the_nearest_rule_is_named_first():
    with pytest.raises(UserError, match="valid: best_round,"):
        check_rule("best_rond")


@pytest.mark.parametrize("curve", [[], [0.5, float("nan")], [[0.5]]])
def test_curves_without_numbers_are_refused(curve):
    with pytest.raises(UserError, match="best_round needs a curve"):
        select("best_round", curve)


def test_a_rule_can_be_given_itself():
    assert select(RULES["best_round"], CURVE) == Selected(0.9, (2,))
