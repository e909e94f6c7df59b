"""Cells with hand-made values: means, spreads, intervals, tolerances, verdicts, from numbers small enough to do by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from pflrepro.metrics.intervals import bootstrap, over_weighted_clients
from pflrepro.papers.artefact import FIDELITIES, INSTEAD, REDUCED, SAME, STAND_IN, Artefact, Column, Row
from pflrepro.papers.judging import Outcome
from pflrepro.papers.measures import ACCURACY, FDA_ACCURACY, SECONDS, TOTAL_MINUTES, Measure, Value, minutes_of
from pflrepro.papers.numbers import PublishedNumber
from pflrepro.papers.relative_measures import gain_over, ratio_to
from pflrepro.papers.result import FRAME_COLUMNS, VERDICTS, Cell
from pflrepro.papers.settings import FMNIST_PRACTICAL

NAN = math.nan
ARTEFACT = Artefact("demo/cells", "Cells", trials=3, tolerance=0.5)
OVER_CLIENTS = replace(ARTEFACT, spread="clients")


def cell(
    *values: float, printed: tuple[float, float] | None = (90.0, NAN), fidelity: str = SAME, measure: Measure = ACCURACY
):
    number = None if printed is None else PublishedNumber(*printed, "dbe_table5", "", "a note")
    column = Column("c", "C", FMNIST_PRACTICAL, measure)
    return Cell(Row("r", "R", "fedavg"), column, measure, fidelity, number, {s: Value(v) for s, v in enumerate(values)})


def of_clients(clients: list[float], weights: list[float], number: float | None = None) -> Value:
    each, weight = np.array(clients), np.array(weights)
    return Value(float(np.average(each, weights=weight)) if number is None else number, each, weight)


# ---- numbers -------------------------------------------------------------------------------------------------------------------
def test_mean_and_population_deviation_over_seeds() -> None:
    found = cell(84, 88)
    assert (found.ours, found.spread, found.rounds) == (86.0, 2.0, 0)
    assert (cell(84).ours, cell(84, NAN).ours) == (84.0, 84.0), "a seed without a number counts for nothing"
    assert math.isnan(cell(84).spread) and math.isnan(cell().ours)


def test_published_numbers_come_in_our_unit() -> None:
    found = cell(58, printed=(0.5743, 0.021), measure=FDA_ACCURACY)
    assert (found.published, found.published_std) == pytest.approx((57.43, 2.1))
    assert math.isnan(cell(58, printed=None).published)


def test_the_spread_over_clients_is_unbiased_and_unweighted() -> None:
    one, other = of_clients([50, 70, 90], [10, 10, 80]), of_clients([60, 60, 90], [10, 10, 80])
    found = replace(cell(), values={0: one, 1: other})
    assert found.over_clients == pytest.approx((20 + np.sqrt(300)) / 2)
    assert math.isnan(cell(50).over_clients)
    assert math.isnan(replace(cell(), values={0: of_clients([50], [10])}).over_clients)


# ---- intervals -----------------------------------------------------------------------------------------------------------------
def test_the_interval_is_students_below_ten_seeds_and_a_bootstrap_from_ten_on() -> None:
    values = [70.0, 71.0, 72.5, 69.0, 70.5, 71.5, 73.0, 70.0, 71.0]
    wanted = stats.ttest_1samp(values, 0).confidence_interval()
    assert cell(*values).interval() == (pytest.approx(wanted.low), pytest.approx(wanted.high), "t, 9 seeds")
    ten = [*values, 72.0]
    wanted = bootstrap(ten)
    assert cell(*ten).interval() == (wanted.low, wanted.high, "percentile, 10 seeds")


def test_an_accuracy_lies_between_0_and_100_percent_a_gain_does_not() -> None:
    assert cell(99.0, 99.8).interval()[1] == 100.0
    assert cell(1.0, 0.2).interval()[0] == 0.0
    assert cell(1.0, 0.2, measure=gain_over("r")).interval()[0] < 0.0


def test_one_seed_has_the_interval_over_its_clients() -> None:
    correct, samples = np.array([9.0, 12.0, 50.0]), np.array([10.0, 30.0, 60.0])
    found = replace(cell(), values={4: of_clients((100 * correct / samples).tolist(), samples.tolist())})
    wanted = over_weighted_clients(correct / samples, samples)
    low, high, what = found.interval()
    assert (low, high) == (pytest.approx(100 * wanted.low), pytest.approx(100 * wanted.high))
    assert what == "bootstrap, 3 clients"


def test_values_that_are_no_shares_have_an_interval_over_clients_too() -> None:
    """Losses of clients, gains of clients: negative ones, and above 100."""
    found = replace(cell(measure=gain_over("r")), values={0: of_clients([-4.0, -3.0, -3.0], [1, 2, 3])})
    low, high, what = found.interval()
    assert -4.0 <= low < -3.0 == pytest.approx(high) and what == "bootstrap, 3 clients"
    wide = replace(cell(measure=gain_over("r")), values={0: of_clients([-3.0, 250.0], [1, 1])})
    assert wide.interval()[:2] == (pytest.approx(-3.0), pytest.approx(250.0))


@pytest.mark.parametrize(
    "value",
    [Value(90.0), of_clients([90.0], [10]), of_clients([90.0] * 6, [10] * 6)],
    ids=["no clients", "one client", "one model on one test set"],
)
def test_no_interval_where_nothing_is_known_of_the_spread(value: Value) -> None:
    low, high, what = replace(cell(), values={0: value}).interval()
    assert math.isnan(low) and math.isnan(high) and what == ""


# ---- tolerance -----------------------------------------------------------------------------------------------------------------
def test_tolerance_is_two_standard_errors_of_the_difference() -> None:
    # Ours has the population deviation sqrt(8 / 3), so the sample variance 4; printed 2, so 4 * 3 / 2 = 6, over 3 trials.
    assert cell(88, 90, 92, printed=(90, 2)).tolerance(ARTEFACT) == pytest.approx(2 * math.sqrt(6 / 3 + 4 / 3))
    # The paper may have made other numbers of trials than we have seeds: 4 * 5 / 4 = 5 over 5; ours 2^2 * 2 / 1 = 8 over 2.
    five = replace(ARTEFACT, trials=5)
    assert cell(84, 88, printed=(90, 2)).tolerance(five) == pytest.approx(2 * math.sqrt(5 / 5 + 8 / 2))


def test_a_spread_that_is_unknown_is_taken_from_the_other_side() -> None:
    # One seed of ours says nothing of its spread, so the printed variance 6 counts for both: 6 / 3 + 6 / 1.
    assert cell(90, printed=(90, 2)).tolerance(ARTEFACT) == pytest.approx(2 * math.sqrt(8))
    # Nothing printed: our 4 counts for both: 4 / 3 + 4 / 3.
    assert cell(88, 90, 92).tolerance(ARTEFACT) == pytest.approx(2 * math.sqrt(8 / 3))
    assert cell(90).tolerance(ARTEFACT) == 0.5


def test_a_spread_that_is_printed_over_clients_says_how_far_two_draws_of_clients_differ() -> None:
    """20 clients: means over two draws of them differ by a standard error of sqrt(2 / 20) spreads. Nothing of other trials."""
    assert cell(90, printed=(90, 2)).tolerance(OVER_CLIENTS) == pytest.approx(2 * math.sqrt(0.1) * 2)
    assert cell(88, 90, 92, printed=(90, 2)).tolerance(OVER_CLIENTS) == pytest.approx(2 * math.sqrt(8 / 3))
    assert cell(88, 90, 92, printed=(90, 20)).tolerance(OVER_CLIENTS) == pytest.approx(2 * math.sqrt(0.1) * 20)
    assert cell(90).tolerance(OVER_CLIENTS) == 0.5


def test_one_trial_has_no_spread_over_trials() -> None:
    assert cell(90, printed=(90, 2)).tolerance(replace(ARTEFACT, trials=1)) == 0.5


def test_tolerance_never_falls_below_the_least() -> None:
    assert cell(90, 90.01, 90.02, printed=(90, 0.01)).tolerance(ARTEFACT) == 0.5


# ---- verdicts ------------------------------------------------------------------------------------------------------------------
def outcome(word: str, *places: tuple[str, str]) -> Outcome:
    return Outcome("", "c", places or (("r", "c"),), 1.0, 0.1, "", 0.5, word, "")


@pytest.mark.parametrize(
    ("ours", "words", "printed", "expected"),
    [
        (90.4, ["broken"], 90.0, "within tolerance"),
        (89.5, [], 90.0, "within tolerance"),
        (90.6, ["kept", "undecided"], 90.0, "ordering kept"),
        (90.6, ["kept", "broken"], 90.0, "ordering broken"),
        (90.6, ["kept", "still rising"], 90.0, "ordering still rising"),
        (90.6, ["undecided"], 90.0, "ordering undecided"),
        (90.6, [], 90.0, "differs"),
        (90.0, [], NAN, "no published number"),
        (90.0, ["kept"], NAN, "ordering kept"),
    ],
)
def test_verdict_at_the_papers_setting(ours: float, words: list[str], printed: float, expected: str) -> None:
    found = cell(ours, printed=(printed, NAN))
    assert found.verdict(ARTEFACT, [outcome(word) for word in words]) == expected


@pytest.mark.parametrize(
    ("measure", "compared"),
    [
        (ACCURACY, True),
        (SECONDS, False),
        (TOTAL_MINUTES, False),
        (minutes_of(100), False),
        (ratio_to("fedavg", SECONDS), True),
        (replace(ratio_to("fedavg", SECONDS), beside=(("r", ""),)), False),  # of the row itself
    ],
)
def test_times_of_another_machine_and_what_is_relative_to_itself_are_not_compared(
    measure: Measure, compared: bool
) -> None:
    found = cell(90.0, measure=measure)
    assert found.verdict(ARTEFACT, []) == ("within tolerance" if compared else "not judged")
    assert math.isnan(found.line(ARTEFACT, "paper", [])["tolerance"]) != compared


@pytest.mark.parametrize("fidelity", [REDUCED, INSTEAD])
def test_with_less_or_other_data_the_level_is_shown_and_never_judged(fidelity: str) -> None:
    found = cell(90.0, fidelity=fidelity)
    assert found.verdict(ARTEFACT, []) == "not judged"
    assert replace(found, printed=None).verdict(ARTEFACT, []) == "no published number"
    assert found.verdict(ARTEFACT, [outcome("broken")]) == "ordering broken"
    line = found.line(ARTEFACT, "fast", [])
    assert (line["difference"], line["fidelity"]) == (0.0, fidelity) and math.isnan(line["tolerance"])


def test_what_was_not_run_and_what_is_a_stand_in_agree_with_nothing() -> None:
    kept = [outcome("kept")]
    assert cell().verdict(ARTEFACT, kept) == "not run"
    assert cell(NAN).verdict(ARTEFACT, kept) == "no number"
    found = cell(90.0, fidelity=STAND_IN)
    assert found.verdict(ARTEFACT, kept) == "stand-in"
    assert math.isnan(found.line(ARTEFACT, "smoke", [])["difference"])


def test_claims_about_other_cells_say_nothing_of_this_one() -> None:
    others = [outcome("broken", ("r", "other")), outcome("kept", ("other", "c"))]
    assert cell(80).verdict(ARTEFACT, others) == "differs"


def test_every_verdict_and_level_is_explained() -> None:
    assert set(FIDELITIES) == {SAME, REDUCED, INSTEAD, STAND_IN}
    assert len(VERDICTS) == 12 and all(VERDICTS.values())


def test_a_line_has_every_column_of_the_frame() -> None:
    line = cell(89.0, 91.5, printed=(90, 2)).line(ARTEFACT, "paper", [outcome("kept")])
    assert tuple(line) == FRAME_COLUMNS
    wanted = {"row": "R", "method": "fedavg", "column": "C", "dataset": "fmnist", "model": "cnn4", "n": 2, "reason": ""}
    wanted |= {"source": "dbe_table5", "scale": "paper", "fidelity": "same", "verdict": "within tolerance", "unit": "%"}
    assert {name: line[name] for name in wanted} == wanted
    assert line["ours"] - line["published"] == line["difference"] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("printed", "source"),
    [
        (None, "no published number"),
        (PublishedNumber(NAN, NAN, "dbe_table5", "", "needs all clients"), "dbe_table5: needs all clients"),
        (PublishedNumber(1, NAN, "dbe_table5", "", ""), "dbe_table5"),
        (PublishedNumber(1, 2, "dbe_table5", "dbe_table5", ""), "dbe_table5"),
        (PublishedNumber(1, 2, "dbe_table5", "board", ""), "dbe_table5; spread from board"),
    ],
)
def test_where_a_number_is_printed(printed: PublishedNumber | None, source: str) -> None:
    assert replace(cell(), printed=printed).line(ARTEFACT, "paper", [])["source"] == source
