"""What a plan lists, and where its times come from."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.runs import PAIRS, SKEWED, fill, make_artefact, put

from pflrepro.errors import MissingData
from pflrepro.experiments.store import Store
from pflrepro.papers import planning
from pflrepro.papers.artefact import Scale, column, row
from pflrepro.papers.settings import FMNIST_PRACTICAL
from pflrepro.papers.studies import Study


@pytest.fixture
def make(store: Store):
    return lambda scale="fast", of=None, **how: Study(of or make_artefact(), scale, store=store, **how)


def test_every_experiment_once_with_its_state(make) -> None:
    found = make()
    fill(found, "fedavg", "skewed", [10, 50, 60])
    entries = found.plan()
    assert [(entry.row, entry.column, entry.seed, entry.state) for entry in entries if entry.experiment] == [
        ("FedAvg", "digits, skewed", 0, "done"),
        ("FedAvg", "digits, skewed", 1, "to run"),
        ("FedAvg+DBE", "digits, skewed", 0, "to run"),
        ("FedAvg+DBE", "digits, skewed", 1, "to run"),
    ]
    impossible = {(entry.row, entry.column): entry.reason for entry in entries if entry.experiment is None}
    assert impossible == {("Nothing", "shares: FMNIST"): "method absent not in the package"}
    assert {entry.artefact for entry in entries} == {"demo/fake"} and {entry.scale for entry in entries} == {"fast"}


def test_what_a_scale_leaves_out_is_no_part_of_its_plan(make) -> None:
    assert {entry.column for entry in make("paper", methods=["fedavg"]).plan()} == {"digits, pairs", "digits, skewed"}
    assert {entry.column for entry in make("fast", methods=["fedavg"]).plan()} == {"digits, skewed"}


def test_equal_experiments_of_two_columns_are_listed_once(make) -> None:
    columns = (column("a", SKEWED), column("b", SKEWED.with_("the same")), column("c", PAIRS))
    entries = make("paper", make_artefact(columns=columns), methods=["fedavg"], seeds=1).plan()
    assert [entry.column for entry in entries] == ["digits, skewed", "digits, pairs"]


def test_a_run_that_is_long_enough_is_done_and_one_that_is_too_short_is_not(make) -> None:
    long = make("paper", methods=["fedavg"], seeds=1)
    fill(long, "fedavg", "skewed", [10, 20, 30, 40, 50])
    assert [entry.state for entry in make("fast", methods=["fedavg"], seeds=1).plan()] == ["done"]
    short = make("fast", methods=["fedavg+dbe"], seeds=1)
    fill(short, "fedavg+dbe", "skewed", [10, 20, 30])
    assert {entry.state for entry in make("paper", methods=["fedavg+dbe"], seeds=1).plan()} == {"to run"}


def test_times_come_from_stored_runs_where_there_are_any(make, store: Store) -> None:
    found = make("fast")
    fill(found, "fedavg", "skewed", [10, 50, 60])
    by_row = {entry.row: entry for entry in found.plan() if entry.state == "to run"}
    # Two rounds: 2 * 2.0 s of training, 3 * 0.5 s of tests: 2.75 s a round.
    assert by_row["FedAvg"].seconds == pytest.approx(2 * 2.75)
    assert by_row["FedAvg"].basis == "timings of stored runs"
    # 1,797 samples, three quarters trained on, batches of 10: 134.775 steps of 10 ms, a sixth more for tests, 2 rounds.
    assert by_row["FedAvg+DBE"].seconds == pytest.approx(2 * 134.775 * 1e-2 * 7 / 6)
    assert "rough guess" in by_row["FedAvg+DBE"].basis
    assert all(entry.memory > 2**28 for entry in by_row.values())
    assert next(entry for entry in found.plan() if entry.state == "done").seconds == 0.0


@pytest.mark.parametrize(
    ("changes", "rounds"),
    [({}, 220), ({"patience": 0}, 2000), ({"rounds": 100}, 100), ({"patience": 20}, 140)],
    ids=["the papers' stop rule", "none", "short", "less patience"],
)
def test_with_the_stop_rule_a_run_takes_far_fewer_rounds_than_it_may(changes: dict, rounds: int) -> None:
    """The best round is 117 on average [DBE Table 8(a)], then the wait."""
    assert planning.expected_rounds(FMNIST_PRACTICAL.experiment("fedavg", **changes)) == rounds


def test_tests_that_are_rarer_cost_less() -> None:
    often, rarely = (FMNIST_PRACTICAL.experiment("fedavg", every=every) for every in (1, 5))
    first, second = (planning.estimate_seconds(each, 1, {})[0] for each in (often, rarely))
    training = first * 6 / 7
    assert second == pytest.approx(training + (first - training) / 5)


def test_absent_data_are_named(make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pflrepro.papers.studied.missing_data", lambda name, root: f"data set {name} not downloaded")
    found = make("fast", methods=["fedavg"])
    assert {(entry.state, entry.reason) for entry in found.plan()} == {("no data", "data set digits not downloaded")}
    with pytest.raises(
        MissingData, match=r"^demo/fake at scale fast: data set digits .*; offline works: --scale smoke$"
    ):
        found.run(progress=False)
    fill(found, "fedavg", "skewed", [10, 50, 60], [10, 50, 60])
    assert {entry.state for entry in found.plan()} == {"done"}, "what was run needs no data"


def test_a_changed_timing_key_is_another_guess(store: Store) -> None:
    """Seconds a round are those of the same method, data, network, clients and local work."""
    experiment = SKEWED.experiment("fedavg")
    put(store, experiment, 10, 20, 30, 40, 50)
    timings = planning.seconds_a_round(store)
    assert list(timings.values()) == [pytest.approx((4 * 2.0 + 5 * 0.5) / 4)]
    for other in (SKEWED.experiment("fedper"), PAIRS.experiment("fedavg"), SKEWED.experiment("fedavg", local_epochs=2)):
        assert "rough guess" in planning.estimate_seconds(other, 4, timings)[1]
    assert (
        planning.estimate_seconds(SKEWED.experiment("fedavg", seed=5, lr=0.2), 4, timings)[1]
        == "timings of stored runs"
    )


def test_rows_with_options_of_their_own_are_planned_apart(make) -> None:
    rows = (row("DBE", "fedavg+dbe", key="a"), row("DBE, 5", "fedavg+dbe", key="b", kappa=5.0))
    scales = (Scale("paper", "", options={"a": {"kappa": 5.0}}), Scale("other", ""))
    artefact = replace(make_artefact(claims=()), rows=rows, columns=(column("s", SKEWED),), scales=scales)
    assert len(make("other", artefact).plan()) == 2
    assert len(make("paper", artefact).plan()) == 1, "with the same options they are one"
