"""Verdicts, from numbers small enough to do by hand."""

import math

import pytest

from pflrepro.papers import verdicts
from pflrepro.papers.artefact import Artefact, Claim, Column, Row, Scale
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


def artefact(claims):
    rows = (Row("A", "a"), Row("B", "b"))
    columns = (Column("x", "X", "digits", "mlp", "iid"), Column("y", "Y", "digits", "mlp", "iid"))
    return Artefact("p/t", "p", "T", "table", "p/t.ipynb", rows, columns, (Scale("fast", "", 1, 1),), claims=claims)


def outcomes(claims, measured):
    return [
        (claim.column, claim.difference, claim.outcome) for claim in verdicts.check_claims(artefact(claims), measured)
    ]


def test_claims_are_checked_only_where_both_rows_were_run():
    measured = {("a", "x"): Measured(80, 0, 1), ("b", "x"): Measured(70, 0, 1), ("a", "y"): Measured(80, 0, 1)}
    assert outcomes((Claim("a", "b"),), measured) == [("x", 10, "kept")]
    assert outcomes((Claim("b", "a"),), measured) == [("x", -10, "broken")]
    assert outcomes((Claim("a", "b", columns=("y",)),), measured) == []


def test_a_difference_below_two_standard_errors_decides_nothing():
    # Standard errors 2 / sqrt(4) = 1 each (five seeds): sqrt(2) together, so 2.8 is undecided and 2.9 is not.
    below = {("a", "x"): Measured(72.8, 2, 5), ("b", "x"): Measured(70, 2, 5)}
    above = {("a", "x"): Measured(72.9, 2, 5), ("b", "x"): Measured(70, 2, 5)}
    assert outcomes((Claim("a", "b"),), below)[0][2] == "undecided"
    assert outcomes((Claim("a", "b"),), above)[0][2] == "kept"
    assert outcomes((Claim("b", "a"),), above)[0][2] == "broken"


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
