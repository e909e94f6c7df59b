"""Claims on hand-made samples: how each is tested, every outcome, p against SciPy or by hand."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from helpers.claims import GOOD, MIDDLE, POOR, SAMPLES, cell, grid, of_clients, one
from scipy import stats

from pflrepro.metrics.comparison import holm
from pflrepro.papers import claims
from pflrepro.papers.claims import Sample
from pflrepro.papers.judging import Counts, Outcome, judge
from pflrepro.papers.model_measures import over_clients


# ---- the test ----------------------------------------------------------------------------------------------------------------
def test_seeds_are_paired_and_students_t_decides() -> None:
    """Seeds differ by ten points, the methods by about two in every seed: paired it is decided, unpaired it would not be."""
    board = grid(a_x=cell(*GOOD), b_x=cell(*POOR))
    kept, broken = one(claims.above("a", "b", source="section 5"), board), one(claims.above("b", "a"), board)
    wanted = stats.ttest_rel(GOOD, POOR)
    assert (kept.p, kept.adjusted) == pytest.approx((wanted.pvalue, wanted.pvalue))
    assert kept.difference == pytest.approx(np.mean(GOOD) - np.mean(POOR))
    assert kept.difference / kept.error == pytest.approx(wanted.statistic)
    assert (kept.outcome, kept.test, kept.source) == ("kept", "paired t over 4 seeds", "section 5")
    assert (kept.said, kept.column, set(kept.places)) == ("A > B", "x", {("a", "x"), ("b", "x")})
    assert stats.ttest_ind(GOOD, POOR).pvalue > 0.5
    assert (broken.outcome, broken.p, broken.difference) == ("broken", kept.p, pytest.approx(-kept.difference))


def test_where_less_is_better_the_smaller_number_is_above() -> None:
    board = grid(lower=("x",), a_x=cell(*POOR), b_x=cell(*GOOD), a_y=cell(*POOR), b_y=cell(*GOOD))
    less, more = judge([claims.above("a", "b")], board)
    assert (less.said, less.outcome) == ("A < B", "kept") and less.difference > 0
    assert (more.said, more.outcome, more.difference) == ("A > B", "broken", -less.difference)


def test_only_common_seeds_are_compared() -> None:
    first, second = cell(72, 75, 90, seeds=(0, 1, 2)), cell(70, 72.5, seeds=(1, 0))
    found = one(claims.above("a", "b"), grid(a_x=first, b_x=second))
    assert found.difference == pytest.approx((-0.5 + 5) / 2)
    assert found.p == pytest.approx(stats.ttest_rel([72, 75], [72.5, 70]).pvalue)
    none = one(claims.above("a", "b"), grid(a_x=first, b_x=cell(70, seeds=(7,))))
    assert (none.outcome, none.test, none.difference) == ("undecided", "none: no common seed", pytest.approx(9.0))
    assert math.isnan(none.p) and math.isnan(none.adjusted) and math.isnan(none.error)


def test_equal_differences_of_few_seeds_prove_nothing() -> None:
    """Two seeds with the same difference have no spread, so t would be infinite; signs over seeds give p = 1/2."""
    two = one(claims.above("a", "b"), grid(a_x=cell(72.2, 82.4), b_x=cell(70.1, 80.3)))
    assert (two.outcome, two.p) == ("undecided", 0.5)
    assert two.test == "sign flips over 2 seeds, which cannot give a p below 0.5"
    many = [70.1 + seed for seed in range(6)]
    six = one(claims.above("a", "b"), grid(a_x=cell(*(value + 2 for value in many)), b_x=cell(*many)))
    assert (six.outcome, six.p, six.test) == ("kept", 2**-5, "sign flips over 6 seeds")
    none = one(claims.above("a", "b"), grid(a_x=cell(70, 71), b_x=cell(70, 71)))
    assert (none.outcome, none.p, none.difference) == ("undecided", 1.0, 0.0)


def test_one_seed_is_tested_over_clients() -> None:
    weights = np.array([20.0, 20, 40, 40, 10, 10, 60])
    better, worse = (90.0, 85, 92.5, 90, 90, 90, 85), (75.0, 80, 75, 77.5, 70, 50, 72)
    board = grid(a_x=of_clients(*better, weights=weights), b_x=of_clients(*worse, weights=weights))
    found = one(claims.above("a", "b"), board)
    assert found.difference == pytest.approx(np.average(np.subtract(better, worse), weights=weights))
    assert math.isnan(found.error)
    # All seven clients are better off: of 2^7 patterns of signs two are as extreme.
    assert (found.p, found.outcome, found.test) == (2**-6, "kept", "sign flips over 7 clients")
    few = [of_clients(*values[:5], weights=weights[:5]) for values in (better, worse)]
    assert one(claims.above("a", "b"), grid(a_x=few[0], b_x=few[1])).outcome == "undecided"  # 2^-4 at best


def test_a_large_client_counts_as_much_as_it_does_in_the_number() -> None:
    """One client of 970 samples loses a point, the three of 10 gain more: their number falls, and nothing is decided."""
    weights = np.array([970.0, 10, 10, 10])
    board = grid(a_x=of_clients(49, 60, 60, 60, weights=weights), b_x=of_clients(*[50] * 4, weights=weights))
    found = one(claims.above("a", "b"), board)
    assert found.difference == pytest.approx((-970 + 300) / 1000)
    # |sums of signs| of (970, 100, 100, 100): 670 and up whenever the large one is not met by three others: all 16.
    assert found.p == 1.0


def test_without_values_of_the_same_clients_one_seed_is_not_tested() -> None:
    plain = one(claims.above("a", "b"), grid(a_x=cell(90), b_x=cell(10)))
    assert (plain.outcome, plain.test) == ("undecided", "none: one seed, and not a mean over clients")
    other = grid(a_x=cell(90, weights=SAMPLES), b_x=cell(10, weights=SAMPLES[::-1]))
    assert one(claims.above("a", "b"), other).test == "none: one seed, and other clients"
    seeds = grid(a_x=cell(90, 91.5, weights=SAMPLES), b_x=cell(10, 11, weights=SAMPLES[::-1]))
    assert one(claims.above("a", "b"), seeds).outcome == "kept"


def test_rows_that_look_at_other_clients_of_one_run_have_no_pairs() -> None:
    """Two of the 20 ways to deal six values to three and three are as extreme; sign flips of pairs would give 2 of 8."""

    def part(kind: str, *values: float) -> Sample:
        each = np.array(values)
        return Sample({0: float(each.mean())}, {0: (each, np.ones(len(each)))}, each=kind)

    low, high = part("clean clients", 1, 2, 3), part("corrupted clients", 4, 5, 6)
    found = one(claims.above("a", "b"), grid(a_x=high, b_x=low))
    assert (found.p, found.difference) == (pytest.approx(0.1), 3.0)
    assert found.test == "3 corrupted clients and 3 clean clients, dealt anew"
    less = one(claims.above("a", "b"), grid(lower=("x",), a_x=high, b_x=low))
    assert (less.p, less.difference) == (pytest.approx(0.1), -3.0)
    # The bound of three points takes the difference away.
    nearly = one(claims.within("a", "b", 3.0), grid(a_x=high, b_x=low))
    assert (nearly.p, nearly.difference) == (1.0, 3.0)


def test_an_unfinished_curve_is_neither_kept_nor_broken() -> None:
    for a, b in pairwise((GOOD, POOR, GOOD)):
        found = one(claims.above("a", "b"), grid(a_x=cell(*a), b_x=cell(*b, rising=True)))
        assert found.outcome == "still rising" and found.p < 0.05


@pytest.mark.parametrize(
    ("ahead", "behind", "decided"), [(True, False, True), (False, True, False), (True, True, False)]
)
def test_the_best_round_of_a_curve_that_still_rises_decides_against_one_at_its_end(
    ahead, behind, decided: bool
) -> None:
    strong, weak = cell(*GOOD, rising=ahead, only_rises=True), cell(*POOR, rising=behind, only_rises=True)
    for (a, b), outcome in (((strong, weak), "kept"), ((weak, strong), "broken")):
        found = one(claims.above("a", "b"), grid(a_x=a, b_x=b))
        assert found.outcome == (outcome if decided else "still rising")
        assert found.test.endswith("; what still rises widens it") == decided
    other = cell(*GOOD, rising=ahead)  # a last round may fall again
    assert one(claims.above("a", "b"), grid(a_x=other, b_x=weak)).outcome == "still rising"
    same = grid(a_x=cell(*GOOD, rising=True, only_rises=True), b_x=cell(*GOOD[:3], GOOD[3] + 1))
    assert one(claims.above("a", "b"), same).outcome == "still rising", "what no test decides, more rounds may"


def test_a_claim_of_a_training_that_came_apart_says_so() -> None:
    """The numbers decide as ever, but stand for what was learnt until then."""
    board = grid(a_x=cell(*GOOD), b_x=cell(*POOR, diverged=True), c_x=cell(*MIDDLE))
    apart, whole = one(claims.above("a", "b"), board), one(claims.above("a", "c"), board)
    assert apart.test == f"{whole.test}; B diverged" and "diverged" not in whole.test
    assert apart.outcome == "kept" and apart.p == pytest.approx(stats.ttest_rel(GOOD, POOR).pvalue)


def test_of_claims_of_several_contrasts_those_must_be_settled_that_decide() -> None:
    rising = {"rising": True, "only_rises": True}
    board = grid(a_x=cell(*MIDDLE), b_x=cell(*POOR), c_x=cell(*GOOD, **rising), d_x=cell(*POOR, rising=True))
    assert one(claims.top("a", 1), board).outcome == "broken", "c stays ahead, whatever d does"
    assert one(claims.top("a", 2), board).outcome == "still rising", "d may come to be the second"
    ahead = grid(a_x=cell(*GOOD, **rising), b_x=cell(*POOR), c_x=cell(*POOR))
    assert one(claims.top("a", 1), ahead).outcome == "kept"
    near = grid(a_x=cell(1.0, 1.1, 1.2, **rising), b_x=cell(1.0, 1.1, 1.3))
    assert one(claims.within("a", "b", 5.0), near).outcome == "still rising", "it may leave by the other side"
    far = grid(a_x=cell(9.0, 9.1, 9.2, **rising), b_x=cell(1.0, 1.1, 1.3))
    assert one(claims.within("a", "b", 5.0), far).outcome == "broken"


def test_claims_are_held_only_against_what_was_measured() -> None:
    board = grid(a_x=cell(80), b_x=cell(70), a_y=cell(80), c_z=cell(70))
    assert [found.column for found in judge([claims.above("a", "b")], board)] == ["x"]
    assert judge([claims.above("a", "b", columns=("y",))], board) == []
    assert judge([], board) == []


# ---- many claims -----------------------------------------------------------------------------------------------------------------
def test_a_claims_own_p_decides_and_holms_over_all_tells_what_is_firm() -> None:
    """Three seeds, by hand: with two degrees of freedom p = 1 - t / sqrt(t^2 + 2), and t^2 = n mean^2 / s^2."""
    a, b, c = (70.0, 72.0, 71.0), (68.0, 70.1, 69.2), (60.0, 61.0, 66.0)
    board = grid(a_x=cell(*a), b_x=cell(*b), c_x=cell(*c), a_y=cell(*c), b_y=cell(*b))
    found = judge([claims.above("a", "b"), claims.above("a", "c")], board)
    assert [(each.said, each.column) for each in found] == [("A > B", "x"), ("A > B", "y"), ("A > C", "x")]
    # Differences (2, 1.9, 1.8), (-8, -9.1, -3.2), (10, 11, 5): variances 0.01, (157.05 - 20.3^2 / 3) / 2 and 31 / 3.
    squares = [3 * 1.9**2 / 0.01, 3 * (20.3 / 3) ** 2 / ((157.05 - 20.3**2 / 3) / 2), 3 * (26 / 3) ** 2 / (31 / 3)]
    raw = [1 - math.sqrt(square / (square + 2)) for square in squares]
    assert [each.p for each in found] == pytest.approx(raw)
    assert [each.adjusted for each in found] == pytest.approx(holm(raw))
    assert [each.adjusted for each in found] == pytest.approx([3 * raw[0], 2 * raw[2], 2 * raw[2]])
    assert [(each.outcome, each.firm) for each in found] == [("kept", True), ("undecided", False), ("kept", False)]
    assert found[2].p == pytest.approx(0.0429, abs=5e-5)
    alone = one(claims.above("a", "c"), grid(a_x=cell(*a), c_x=cell(*c)))
    assert (alone.p, alone.adjusted, alone.firm) == (found[2].p, found[2].p, True)


def test_what_could_not_be_tested_is_no_part_of_the_family() -> None:
    board = grid(a_x=cell(72, 82.3, 61.9), b_x=cell(70, 80, 60), c_x=cell(70, 80, 60, seeds=(5, 6, 7)))
    found = judge([claims.above("b", "a"), claims.above("a", "c")], board)
    assert [(each.outcome, each.firm) for each in found] == [("broken", True), ("undecided", False)]
    assert found[0].adjusted == found[0].p
    counts = Counts.of(found)
    assert (dict(counts.outcomes), counts.firm, counts.tests) == ({"broken": 1, "undecided": 1}, 1, 1)


def test_counts_say_what_chance_would_give() -> None:
    facts = {"said": "", "column": "", "places": (), "difference": 1.0, "error": 0.1, "test": "", "source": ""}
    lines = [
        ("kept", 0.001, 0.005, 0.0),
        ("kept", 0.03, 0.09, 0.0),
        ("kept", 0.02, 0.08, 0.0),
        ("broken", 0.04, 0.09, 2**-5),  # six pairs: 0.03125 is the largest p below 0.05
        ("undecided", 0.06, 0.09, 2**-4),  # five cannot give one
        ("still rising", 0.001, 0.005, 0.0),
        ("undecided", math.nan, math.nan, 0.0),
    ]
    facts["over"] = "seeds"
    outcomes = [Outcome(**facts, outcome=word, p=p, adjusted=holms, least=least) for word, p, holms, least in lines]
    assert [each.chance for each in outcomes] == [0.05, 0.05, 0.05, 2**-5, 0.0, 0.0, 0.0]
    counts = Counts.of(outcomes)
    assert dict(counts.outcomes) == {"kept": 3, "broken": 1, "undecided": 2, "still rising": 1}
    assert (counts.firm, counts.tests, counts.chance) == (1, 6, pytest.approx(0.15 + 2**-5))
    assert str(counts) == (
        "3 kept, 1 broken, 2 undecided, 1 still rising; 1 also after Holm's correction; "
        "by chance about 0.18 would be decided if nothing differed"
    )
    assert str(Counts.of([])) == "none checked"
    assert str(Counts({"still rising": 1}, 0, 1)) == "1 still rising"


def test_of_tests_over_clients_no_chance_is_known() -> None:
    """Two models are fixed in it: another seed is another model."""
    seeds, clients = grid(a_x=cell(72, 82.3, 61.9), b_x=cell(70, 80, 60)), {"weights": np.ones(7)}
    over_seeds = one(claims.above("a", "b"), seeds)
    alone = one(claims.above("a", "b"), grid(a_x=of_clients(*range(7), **clients), b_x=of_clients(*[0] * 7, **clients)))
    assert [(each.over, each.chance) for each in (over_seeds, alone)] == [("seeds", 0.05), ("clients", 0.0)]
    blind = "a test over clients knows nothing of another seed: two seeds of one method give p < 0.05 in one of six committed pairs"
    assert str(Counts.of([alone])) == f"1 kept; 1 also after Holm's correction; {blind}"
    chance = "by chance about 0.05 of those over seeds would be decided if nothing differed"
    assert str(Counts.of([over_seeds, alone])) == f"2 kept; 2 also after Holm's correction; {chance}; {blind}"


def test_a_client_without_a_value_keeps_its_place() -> None:
    """B is a point above A at each of eight clients; A lacks the first one, B the last: shifted by one they would tell the reverse."""
    a, b = (
        over_clients(np.array([math.nan, *range(1, 8)]) * 10),
        over_clients(np.array([*range(7), math.nan]) * 10 + 1.0),
    )
    board = grid(
        **{f"{name}_x": Sample({0: v.number}, {0: (v.clients, v.weights)}) for name, v in (("a", a), ("b", b))}
    )
    assert one(claims.above("a", "b"), board).test == "none: one seed, and other clients"
    same = over_clients(np.array([math.nan, *range(1, 8)]) * 10 + 1.0)
    board = grid(
        **{f"{name}_x": Sample({0: v.number}, {0: (v.clients, v.weights)}) for name, v in (("a", a), ("b", same))}
    )
    found = one(claims.above("a", "b"), board)
    assert (found.outcome, found.test, found.p) == ("broken", "sign flips over 7 clients", 2**-6)


def test_a_difference_of_rounding_is_none() -> None:
    """Six equal rows: the weights of their trend leave some 1e-15 at each of 20 clients, all of one sign."""
    sample = of_clients(*(np.arange(20) + 70.1) / 3, weights=np.full(20, 0.7))
    board = grid(**{f"r{i}_x": sample for i in range(6)})
    found = one(claims.rises([f"r{i}" for i in range(6)]), board)
    assert (found.p, found.outcome) == (1.0, "undecided")


def test_a_lead_is_wider_than_another_lead_of_the_column() -> None:
    """a leads b by 2, 3, 2 and c leads d by 1, 1, 1: wider by 1, 2, 1; where less is better the leads turn round."""
    cells = {"a": (12, 13, 14), "b": (10, 10, 12), "c": (5, 6, 7), "d": (4, 5, 6)}
    board = grid(**{f"{name}_x": cell(*values) for name, values in cells.items()})
    found = one(claims.wider(("a", "b"), ("c", "d")), board)
    assert (found.said, found.column) == ("lead of A over B is wider than of C over D", "x")
    assert found.difference == pytest.approx(4 / 3)
    assert found.p == pytest.approx(stats.ttest_1samp([1, 2, 1], 0).pvalue)
    less = grid(lower=("x",), **{f"{name}_x": cell(*values) for name, values in cells.items()})
    assert one(claims.wider(("a", "b"), ("c", "d")), less).difference == pytest.approx(-4 / 3)


def test_what_is_paired_in_place_of_clients_is_said() -> None:
    rounds = np.ones(3)
    spent = {value: np.array([value, value, value + 0.5]) for value in (1.0, 2.0)}
    samples = [Sample({0: value}, {0: (each, rounds)}, each="tested rounds") for value, each in spent.items()]
    found = one(claims.above("a", "b"), grid(a_x=samples[0], b_x=samples[1]))
    said = "sign flips over 3 tested rounds, which cannot give a p below 0.25"
    assert (found.test, found.p) == (said, pytest.approx(0.25))
