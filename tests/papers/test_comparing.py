"""Frames from hand-made stores: every number in them computed by hand."""

import math

import numpy as np
import pytest

from pflrepro.errors import MissingData, UserError
from pflrepro.papers import comparing, verdicts


def line(frame, row, column="A"):
    found = frame[(frame["row"] == row) & (frame["column"] == column)]
    assert len(found) == 1
    return found.iloc[0]


def test_every_row_and_column_is_listed_even_with_an_empty_store(artefact, store):
    found = comparing.result(artefact, "fast", store=store)
    assert len(found.frame) == 3 * 2
    assert tuple(found.frame.columns) == comparing.FRAME_COLUMNS
    assert set(found.frame["verdict"]) == {verdicts.NOT_RUN}
    assert found.frame[["ours", "low", "high"]].isna().all(axis=None)
    assert set(found.frame["interval"]) == {""}
    assert found.ranks is None
    assert line(found.frame, "FedAvg")["published"] == 85.85
    assert found.verdict == "6 not run"


def test_mean_spread_and_difference_by_hand(artefact, store):
    # Best rounds 84 and 88 (not the last ones): mean 86, population deviation 2; published 85.85 +- 0.19, 3 trials.
    store.add("fedavg", [10, 84, 60], seed=0)
    store.add("fedavg", [10, 20, 88], seed=1)
    cell = line(comparing.result(artefact, "fast", store=store).frame, "FedAvg")
    assert cell["ours"] == pytest.approx(86.0)
    assert cell["spread"] == pytest.approx(2.0)
    assert cell["difference"] == pytest.approx(0.15)
    # t with one degree of freedom is 12.706; the standard error 2 / sqrt(2 - 1); the upper end is cut at 100.
    assert (cell["low"], cell["high"]) == pytest.approx((86 - 2 * 12.7062, 100.0), abs=1e-3)
    assert cell["interval"] == "t, 2 seeds"
    assert cell["tolerance"] == pytest.approx(2 * math.sqrt(0.19**2 / 2 + 4 / 1))
    assert (cell["n"], cell["rounds"], cell["scale"], cell["selection"]) == (2, 2, "fast", "best_round")
    assert cell["verdict"] == verdicts.WITHIN
    assert cell["source"] == "dbe_table5; spread from pfllib_leaderboard"
    assert cell["reason"] == ""


def test_a_cell_with_some_seeds_counts_those_and_says_so(artefact, store):
    store.add("fedavg", [10, 50, 60], seed=1)
    cell = line(comparing.result(artefact, "fast", store=store).frame, "FedAvg")
    assert (cell["n"], cell["ours"], cell["reason"]) == (1, 60.0, "1 of 2 seeds run")
    assert cell["verdict"] == verdicts.DIFFERS
    assert cell["interval"] == "bootstrap, 2 clients"
    # One client has 18 of 30, the other 42 of 70: whichever is drawn, 60 %.
    assert (cell["low"], cell["high"]) == pytest.approx((60.0, 60.0))


def test_claimed_ordering_gives_the_verdict_of_both_rows(artefact, store):
    for seed in (0, 1):
        store.add("fedavg", [10, 50, 60], seed=seed)
        store.add("fedavg+dbe", [10, 70, 70 + seed], seed=seed)
    found = comparing.result(artefact, "fast", store=store)
    assert line(found.frame, "FedAvg")["verdict"] == verdicts.KEPT
    assert line(found.frame, "FedAvg+DBE")["verdict"] == verdicts.KEPT
    (claim,) = found.claims
    assert (claim.better, claim.worse, claim.difference, claim.outcome) == ("FedAvg+DBE", "FedAvg", 10.5, "kept")
    # Differences 10 and 11: t = 10.5 / 0.5 = 21, p = 2 (1/2 - atan(21) / pi) with one degree of freedom.
    assert claim.p == claim.adjusted == pytest.approx(1 - 2 * math.atan(21) / math.pi)


def test_what_is_absent_says_why(artefact, store):
    frame = comparing.result(artefact, "fast", store=store).frame
    assert line(frame, "Nothing")["reason"] == "no method"
    assert line(frame, "FedAvg")["reason"] == "no finished run in the store"
    assert line(frame, "FedAvg", "B")["reason"] == "not part of the scale fast"
    assert line(frame, "FedAvg", "B")["source"] == "no published number"


def test_a_stand_in_is_never_compared(artefact, store):
    store.add("fedavg", [10, 86], seed=0, rounds=1)
    found = comparing.result(artefact, "smoke", store=store)
    cell = line(found.frame, "FedAvg")
    assert cell["ours"] == 86.0
    assert math.isnan(cell["difference"])
    assert cell["verdict"] == verdicts.STAND_IN
    assert found.claims == ()
    assert found.ranks is None
    assert found.stand_in


def test_curves_are_padded_where_a_run_stopped_early(artefact, store):
    store.add("fedavg", [10, 50, 60], seed=0, after=[55, 65])
    store.add("fedavg", [10, 40], seed=1, scale_rounds=2)
    curve = comparing.result(artefact, "fast", store=store).curves["fedavg", "a"]
    np.testing.assert_array_equal(curve.rounds, [0, 1, 2])
    np.testing.assert_allclose(curve.before, [[10, 50, 60], [10, 40, np.nan]])
    np.testing.assert_allclose(curve.after, [[np.nan, 55, 65], [np.nan] * 3])


def test_only_the_methods_asked_for_are_looked_up(artefact, store):
    store.add("fedavg", [10, 50, 60], seed=0)
    frame = comparing.result(artefact, "fast", store=store, methods=["fedavg+dbe"]).frame
    assert line(frame, "FedAvg")["reason"] == "not asked for"
    assert line(frame, "FedAvg")["n"] == 0


def test_missing_data_are_an_absent_cell_not_an_error(artefact):
    class Blind:
        def find(self, experiment, data_root=None):
            raise MissingData("no data")

    assert set(comparing.result(artefact, "fast", store=Blind()).frame["verdict"]) == {verdicts.NOT_RUN}


def test_wrong_names_and_numbers_are_refused(artefact, store):
    with pytest.raises(UserError, match=r"unknown scale of demo/fake 'fats'; valid: fast"):
        comparing.result(artefact, "fats", store=store)
    with pytest.raises(UserError, match="seeds must be a whole number >= 1, not 0"):
        comparing.result(artefact, "fast", store=store, seeds=0)
    with pytest.raises(UserError, match="unknown method"):
        comparing.result(artefact, "fast", store=store, methods=["fedavgg"])
