"""Verdicts, from numbers small enough to do by hand."""

import math

import pytest

from pflrepro.papers import verdicts
from pflrepro.papers.verdicts import Measured

NAN = math.nan


def test_tolerance_is_two_standard_errors_of_the_difference():
    # Sample variances 4 * 3 / 2 = 6 on both sides: 2 * sqrt(6 / 3 + 6 / 3) = 4.
    assert verdicts.tolerance(2, Measured(0, 2, 3), 3, 0.5) == pytest.approx(4)


def test_an_unknown_spread_is_taken_from_the_other_side():
    # One seed of ours: spread 0 says nothing, so the printed variance 4 * 3 / 2 = 6 counts for both: 6 / 3 + 6 / 1 = 8.
    assert verdicts.tolerance(2, Measured(0, 0, 1), 3, 0.5) == pytest.approx(2 * math.sqrt(8))
    # Nothing printed: our variance 4 * 4 / 3 counts for both: 4 / 3 + 4 / 3.
    assert verdicts.tolerance(NAN, Measured(0, 2, 4), 4, 0.5) == pytest.approx(2 * math.sqrt(8 / 3))


def test_tolerance_never_falls_below_the_least():
    assert verdicts.tolerance(NAN, Measured(0, 0, 1), 3, 0.5) == 0.5
    assert verdicts.tolerance(0.01, Measured(0, 0.01, 3), 3, 0.5) == 0.5


def claim(outcome):
    return verdicts.ClaimOutcome("x", "A", "B", 1.0, 0.1, outcome, "")


@pytest.mark.parametrize(
    ("difference", "claims", "printed", "expected"),
    [
        (0.4, ["broken"], True, verdicts.WITHIN),
        (-0.5, [], True, verdicts.WITHIN),
        (0.6, ["kept", "undecided"], True, verdicts.KEPT),
        (0.6, ["kept", "broken"], True, verdicts.BROKEN),
        (0.6, ["undecided"], True, verdicts.UNDECIDED),
        (0.6, [], True, verdicts.DIFFERS),
        (NAN, [], False, verdicts.UNPUBLISHED),
        (NAN, ["kept"], False, verdicts.KEPT),
    ],
)
def test_verdict_of_a_cell(difference, claims, printed, expected):
    ours = Measured(50, 0, 1)
    assert verdicts.judge(difference, 0.5, False, ours, [claim(name) for name in claims], printed) == expected


def test_absent_and_stand_in_cells_never_agree():
    assert verdicts.judge(0.0, 0.5, False, None, [], True) == verdicts.NOT_RUN
    assert verdicts.judge(0.0, 0.5, True, Measured(1, 0, 1), [], True) == verdicts.STAND_IN


def test_a_decision_is_firm_where_it_stands_after_the_correction():
    found = [
        verdicts.ClaimOutcome("x", "A", "B", 1.0, 0.1, outcome, "", p=p, adjusted=adjusted)
        for outcome, p, adjusted in [
            ("kept", 0.001, 0.005),
            ("kept", 0.03, 0.09),
            ("kept", 0.02, 0.08),
            ("broken", 0.04, 0.09),
            ("undecided", 0.3, 0.3),
            ("undecided", NAN, NAN),
        ]
    ]
    assert [claim.firm for claim in found] == [True, False, False, False, False, False]
    counts = verdicts.count_claims(found)
    assert counts == verdicts.ClaimCounts(kept=3, kept_firm=1, broken=1, broken_firm=0, undecided=2, tests=5)
    assert counts.by_chance == 0.25
    assert str(counts) == (
        "3 kept (1 also after Holm's correction), 1 broken (0 also after Holm's correction), 2 undecided; "
        "with 5 tests about 0.25 would be decided by chance if nothing differed"
    )


def test_counts_of_nothing_and_of_one_test():
    assert str(verdicts.count_claims([])) == "none checked"
    assert str(verdicts.count_claims([claim("undecided")])) == "1 undecided"
    assert str(verdicts.ClaimCounts(undecided=1, tests=1)).endswith(
        "; with 1 test about 0.05 would be decided by chance if nothing differed"
    )


def test_the_words_of_the_verdicts_name_the_limit():
    for verdict in (verdicts.KEPT, verdicts.UNDECIDED, verdicts.BROKEN):
        assert "its own p < 0.05, uncorrected" in verdicts.VERDICTS[verdict]
