"""What a plan lists, and where its times come from."""

from dataclasses import replace

import pytest

from pflrepro.errors import MissingData, UserError
from pflrepro.papers import planning, running, scoring, verdicts
from pflrepro.papers.artefact import Claim, Row, Scale


def test_every_experiment_once_with_its_state(artefact, store):
    store.add("fedavg", [10, 50, 60], seed=0)
    entries = planning.plan(artefact, "fast", store=store)
    listed = [(entry.row, entry.column, entry.seed, entry.state) for entry in entries if entry.experiment]
    assert listed == [
        ("FedAvg", "A", 0, "done"),
        ("FedAvg", "A", 1, "to run"),
        ("FedAvg+DBE", "A", 0, "to run"),
        ("FedAvg+DBE", "A", 1, "to run"),
    ]
    impossible = {(entry.row, entry.column): entry.reason for entry in entries if entry.experiment is None}
    assert impossible["Nothing", "A"] == "no method"
    assert impossible["FedAvg", "B"] == "not part of the scale fast"


def test_equal_experiments_of_two_columns_are_listed_once(artefact, store):
    entries = planning.plan(artefact, "paper", store=store, methods=["fedavg"], seeds=1)
    assert [(entry.row, entry.column, entry.state) for entry in entries] == [("FedAvg", "A", "to run")]


def test_times_come_from_stored_runs_where_there_are_any(artefact, store):
    # Two rounds: 2 * 2.0 s of training, 3 * 0.5 s of evaluation: 2.75 s a round.
    store.add("fedavg", [10, 50, 60], seed=0)
    by_row = {entry.row: entry for entry in planning.plan(artefact, "fast", store=store) if entry.state == "to run"}
    assert by_row["FedAvg"].seconds == pytest.approx(2 * 2.75)
    assert by_row["FedAvg"].basis == "timings of stored runs"
    # 400 samples, three quarters trained on, batches of 10: 30 steps of 10 ms, a sixth more for evaluation, 2 rounds.
    assert by_row["FedAvg+DBE"].seconds == pytest.approx(2 * 30 * 1e-2 * 7 / 6)
    assert "rough guess" in by_row["FedAvg+DBE"].basis
    assert all(entry.memory > 2**28 for entry in by_row.values())


def test_absent_data_are_named(artefact, store, monkeypatch):
    monkeypatch.setattr(planning, "missing_data", lambda *_: "data set x not downloaded (pflrepro data get x)")
    entries = [entry for entry in planning.plan(artefact, "fast", store=store) if entry.experiment]
    assert {entry.state for entry in entries} == {"no data"}
    with pytest.raises(
        MissingData, match=r"demo/fake at scale fast: data set x not downloaded .*offline works: --scale smoke"
    ):
        running.run(artefact, "fast", store=store)


def test_nothing_possible_is_an_error_that_says_why(artefact, store):
    with pytest.raises(UserError, match="nothing of demo/fake can be run at scale fast: no method"):
        running.run(artefact, "fast", store=store, methods=["absent"])


def test_a_complete_store_trains_nothing(artefact, store):
    for seed in (0, 1):
        store.add("fedavg", [10, 50, 60], seed=seed)
    planned = running.run(artefact, "fast", store=store, methods=["fedavg"])
    assert {entry.state for entry in planned if entry.experiment} == {"done"}


def test_the_score_card_takes_the_most_exact_scale_with_runs(artefact, store, monkeypatch):
    monkeypatch.setattr(scoring, "select", lambda paper: [artefact])
    for seed in (0, 1):
        store.add("fedavg", [10, 50, 60], seed=seed)
        store.add("fedavg+dbe", [10, 50, 70], seed=seed)
    for seed in (0, 1, 2):
        store.add("fedavg", [10, 50, 85], seed=seed, scale_rounds=9)
    store.add("absent", [10, 90], rounds=1)
    card = scoring.score(store=store)
    found = {(line.row, line.column): line for line in card.itertuples()}
    assert (found["FedAvg", "A"].scale, found["FedAvg", "A"].ours, found["FedAvg", "A"].n) == ("paper", 85.0, 3)
    assert (found["FedAvg+DBE", "A"].scale, found["FedAvg+DBE", "A"].ours) == ("fast", 70.0)
    assert found["Nothing", "A"].verdict == verdicts.NOT_RUN
    assert found["Nothing", "A"].scale == ""
    assert found["FedAvg+DBE", "A"].interval == "t, 2 seeds"
    assert found["Nothing", "A"].interval == ""
    counts = scoring.summary(card)
    assert counts.loc["demo/fake", "cells"] == 6


def test_the_score_card_tells_claims_and_ranks_at_the_most_exact_scale_that_has_them(artefact, store, monkeypatch):
    methods = ("fedavg", "fedavg+dbe", "ditto")
    rows = (Row("FedAvg", "fedavg"), Row("FedAvg+DBE", "fedavg+dbe"), Row("Ditto", "ditto"))
    claims = (Claim("fedavg+dbe", "fedavg", source="one"), Claim("ditto", "fedavg", source="two"))
    scales = (Scale("fast", "", 2, 5, columns=("a",)), Scale("paper", "", 9, 5, columns=("a",)))
    artefact = replace(artefact, rows=rows, claims=claims, scales=scales)
    monkeypatch.setattr(scoring, "select", lambda paper: [artefact])
    for seed in range(5):
        for place, method in enumerate(methods):
            store.add(method, [10, 50 + 5 * place + seed % (place + 2)], seed=seed, scale_rounds=2)
        for place, method in enumerate(methods[:2]):
            store.add(method, [10, 80 - 10 * place + seed % (place + 2)], seed=seed, scale_rounds=9)
    card = scoring.score_card(store=store)
    assert tuple(card.claims.columns) == scoring.CLAIM_COLUMNS
    found = {line.source: line for line in card.claims.itertuples()}
    assert [(found[name].scale, found[name].column, found[name].outcome) for name in ("one", "two")] == [
        ("paper", "A", "broken"),
        ("fast", "A", "kept"),
    ]
    # One claim could be tested at the scale paper, two at the scale fast: the correction knows both, the card shows each once.
    assert found["one"].adjusted == found["one"].p
    assert found["two"].adjusted > found["two"].p
    assert found["one"].firm and found["two"].firm
    assert tuple(card.claim_counts.columns) == scoring.COUNT_COLUMNS
    assert card.claim_counts.to_dict("split")["data"] == [
        ["demo/fake", "paper", 0, 0, 1, 1, 0, 1, 0.05],
        ["demo/fake", "fast", 1, 1, 0, 0, 0, 1, 0.05],
    ]
    assert tuple(card.ranks.columns) == scoring.RANK_COLUMNS
    assert [(line.method, line.rank) for line in card.ranks.itertuples()] == [
        ("Ditto", 1),
        ("FedAvg+DBE", 2),
        ("FedAvg", 3),
    ]
    assert set(card.ranks["scale"]) == {"fast"}
    assert set(card.ranks["blocks"]) == {"5 seeds (A)"}


def test_an_empty_store_has_a_card_without_claims_and_ranks(artefact, store, monkeypatch):
    monkeypatch.setattr(scoring, "select", lambda paper: [artefact])
    card = scoring.score_card(store=store)
    assert card.claims.empty and card.claim_counts.empty and card.ranks.empty
    assert tuple(card.claim_counts.columns) == scoring.COUNT_COLUMNS
    assert tuple(card.ranks.columns) == scoring.RANK_COLUMNS
