"""What a plan lists, and where its times come from."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.runs import PAIRS, SKEWED, fill, make_artefact

from pflrepro.errors import MissingData
from pflrepro.experiments.config import Experiment
from pflrepro.papers import availability, planning, timing
from pflrepro.papers.artefact import Scale, column, row
from pflrepro.papers.registry import find
from pflrepro.papers.settings import CIFAR100_PRACTICAL, FMNIST_PRACTICAL
from pflrepro.papers.timing import Timings


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
    impossible = {(entry.row, entry.column): entry.reason for entry in entries if entry.state == "not possible"}
    assert impossible.keys() == {("Nothing", "shares: FMNIST")}
    assert impossible["Nothing", "shares: FMNIST"].startswith(
        "unknown algorithm 'absent' (a method of your own: module:Class); valid: "
    )
    assert {entry.artefact for entry in entries} == {"demo/fake"} and {entry.scale for entry in entries} == {"fast"}


def test_what_a_scale_leaves_out_is_no_part_of_its_plan(make) -> None:
    assert {entry.column for entry in make("paper", methods=["fedavg"]).plan()} == {"digits, pairs", "digits, skewed"}
    assert {entry.column for entry in make("fast", methods=["fedavg"]).plan()} == {"digits, skewed"}


def test_only_the_columns_that_are_asked_for_are_planned(make) -> None:
    one = make("paper", methods=["fedavg"], columns="pairs")
    assert {entry.column for entry in one.plan()} == {"digits, pairs"}
    assert [column.key for column in one.columns] == ["pairs", "skewed"], "both are shown"
    assert one.command == "pflrepro reproduce demo/fake --scale paper --methods fedavg --columns pairs"
    spaced = make("paper", make_artefact(columns=(column("a b", SKEWED),)), columns=["a b"])
    assert spaced.command.endswith("--columns 'a b'")


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


def test_times_come_from_a_timing_of_this_machine(make, monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    monkeypatch.setattr(planning, "usable_cores", lambda: 2)
    found = make("fast")
    fill(found, "fedavg", "skewed", [10, 50, 60])
    timings = Timings(found.store.root)
    monkeypatch.setattr(timing, "measured", lambda experiment: timing.Timing(client=0.1, step=0.01, test=0.001))
    entries = {(entry.row, entry.seed): entry for entry in planning.plan(found, timings) if entry.experiment}
    assert entries["FedAvg", 0].seconds == 0.0
    assert [record.getMessage()[:18] for record in caplog.records] == ["networks are timed"], "it may take minutes"
    # 5 clients, 1,797 samples, three quarters trained on in batches of 10, one quarter tested twice a round; 2 rounds on 2 cores.
    assert entries["FedAvg", 1].seconds == pytest.approx(2 * (5 * 0.1 + 134.775 * 0.01 + 2 * 449.25 * 0.001) / 2)
    assert all(math.isnan(entry.seconds) for entry in planning.plan(found) if entry.state == "to run")
    assert all(entry.memory > 2**28 for entry in entries.values())
    monkeypatch.setattr(timing, "measured", lambda experiment: pytest.fail("it is kept beside the runs"))
    assert Timings(found.store.root).of(entries["FedAvg", 0].experiment).step == 0.01


def test_what_a_run_costs_follows_its_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(planning, "usable_cores", lambda: 1)
    monkeypatch.setattr(timing, "measured", lambda experiment: timing.Timing(client=0.0, step=1.0, test=0.0))

    def seconds(algorithm: str = "fedavg", partition: str = "dirichlet:0.1", **changes: Any) -> float:
        asked = {"clients": 10, "rounds": 1, "partition": partition} | changes
        return planning.estimate_seconds(Experiment.for_dataset(algorithm, "digits", **asked), 1, Timings(tmp_path))

    one = seconds()
    assert seconds(local_epochs=3) == pytest.approx(3 * one)
    assert seconds(participation=0.5) == pytest.approx(one / 2)
    assert seconds(partition="dirichlet:0.1+train-share=0.25") == pytest.approx(one / 4)
    assert seconds(partition="dirichlet:0.1+validation=0.2") == pytest.approx(0.8 * one)
    assert seconds(partition="dirichlet:0.1+of=20") == pytest.approx(one / 2)
    assert seconds(partition="fixed-size:0.1,40") == pytest.approx(10 * 40 * 0.75 / 10)
    assert seconds("gpfl") == pytest.approx(timing.RELATIVE_COST["gpfl"] * one)
    assert seconds(local_steps=7) == pytest.approx(10 * 7)
    # fine-tuned by five epochs before every test, here after every second round
    assert seconds("fedavgft", every=2) == pytest.approx(one + 5 * one / 2)


@pytest.mark.parametrize(("options", "tested"), [("", 0.25), ("+validation=0.2", 0.2 * 0.75)])
def test_tests_cost_by_what_is_tested_on(options: str, tested: float, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(planning, "usable_cores", lambda: 1)
    monkeypatch.setattr(timing, "measured", lambda experiment: timing.Timing(client=0.0, step=0.0, test=1.0))
    asked = {"partition": f"dirichlet:0.1{options}", "clients": 10, "rounds": 1, "evaluate_after": False}
    experiment = Experiment.for_dataset("fedavg", "digits", **asked)
    assert planning.estimate_seconds(experiment, 1, Timings(tmp_path)) == pytest.approx(1797 * tested)


def test_a_client_that_is_tested_officially_costs_all_official_tests(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(planning, "usable_cores", lambda: 1)
    monkeypatch.setattr(timing, "measured", lambda experiment: timing.Timing(client=0.0, step=0.0, test=1.0))
    experiment = Experiment.for_dataset("fedavg", "rotated-mnist", clients=10, rounds=1, evaluate_after=False)
    assert planning.estimate_seconds(experiment, 1, Timings(tmp_path)) == 10 * 10_000


def test_a_round_costs_each_of_its_clients_what_no_step_pays(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(planning, "usable_cores", lambda: 1)
    monkeypatch.setattr(timing, "measured", lambda experiment: timing.Timing(client=1.0, step=0.0, test=0.0))
    experiment = Experiment.for_dataset("gpfl", "digits", clients=10, rounds=3, participation=0.5, local_epochs=7)
    assert planning.estimate_seconds(experiment, 3, Timings(tmp_path)) == pytest.approx(3 * 10 * 0.5)


@pytest.mark.parametrize(
    ("dataset", "of_heads"),
    [
        # in steps of FedAvg: 500 of the server, a third of the heads' share of the network for each of ten uploads; by one of the two
        # cores, and by both of them for large heads
        ("digits", 500 * 10 / 3 * 650 / 7_562),
        ("har", 500 * 10 / 3 * 2_232_838 / 2_253_958 / 2),
    ],
)
def test_a_server_that_trains_costs_its_generator_and_every_uploads_head(
    dataset: str, of_heads: float, monkeypatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(planning, "usable_cores", lambda: 2)
    monkeypatch.setattr(timing, "measured", lambda experiment: timing.Timing(client=0.0, step=1.0, test=0.0))

    def seconds(steps: int) -> float:
        asked = {"partition": "dirichlet:0.1", "clients": 20, "participation": 0.5, "options": {"server_steps": steps}}
        return planning.estimate_seconds(Experiment.for_dataset("fedgen", dataset, **asked), 3, Timings(tmp_path))

    assert seconds(500) - seconds(0) == pytest.approx(3 * (500 * 0.6 + of_heads))


def test_a_timing_is_one_of_the_networks_steps_and_tests() -> None:
    found = timing.measured(Experiment.for_dataset("fedavg", "digits", clients=2))
    assert 0 <= found.client < 10 and 0 < found.test < found.step < 10


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        ({2: 0.7, 12: 2.2}, (0.4, 0.15)),
        ({2: 3.0}, (0.0, 1.5)),  # no second timing of a slow network
        ({2: 0.7, 12: 0.6}, (0.7, 0.0)),  # something else ran during the first
        ({2: 0.7, 12: 9.7}, (0.0, 0.35)),  # or during the second
    ],
)
def test_steps_are_told_from_the_rest_of_a_round(rounds, expected, monkeypatch) -> None:
    monkeypatch.setattr(timing, "_a_round", lambda experiment, batches: (rounds[batches], 0.01))
    found = timing.measured(Experiment.for_dataset("fedavg", "digits"))
    assert (found.client, found.step, found.test) == pytest.approx((*expected, 0.01))


def test_the_methods_costs_are_those_that_were_measured() -> None:
    rows = json.loads((Path(__file__).parents[2] / "benchmarks" / "methods_cpu.json").read_text())["rows"]
    ratios = {row["name"].removeprefix("fedavg+"): row["ratio"] for row in rows}
    assert {name: ratio for name, ratio in ratios.items() if ratio >= 1.3 and name != "fedgen"} == timing.RELATIVE_COST
    assert timing.relative_cost("scaffold+dbe") == ratios["scaffold"] and timing.relative_cost("fedavg+dbe") == 1


def test_several_artefacts_share_their_runs(make) -> None:
    fast, paper = make("fast", seeds=1), make("paper", seeds=1)
    both = [*planning.plan(fast), *planning.plan(paper)]
    once = planning.each_once(both)
    runs = [entry for entry in both if entry.experiment]
    assert len(once) < len(runs) and len(once) == len({entry.experiment.data.partition + entry.row for entry in once})
    longest = max(entry.rounds for entry in runs if entry.row == "FedAvg" and entry.column == "digits, skewed")
    assert [e.rounds for e in once if e.row == "FedAvg" and e.column == "digits, skewed"] == [longest]


@pytest.mark.parametrize(
    ("changes", "rounds"),
    [
        ({}, 220),
        ({"patience": 0}, 2000),
        ({"rounds": 100}, 100),
        ({"patience": 20}, 140),
        ({"patience": 20, "every": 5}, 220),
    ],
    ids=["the papers' stop rule", "none", "short", "less patience", "fewer tests"],
)
def test_with_the_stop_rule_a_run_takes_far_fewer_rounds_than_it_may(changes: dict, rounds: int) -> None:
    """The best round is 117 on average [DBE Table 8(a)], then the wait."""
    assert planning.expected_rounds(FMNIST_PRACTICAL.experiment("fedavg", **changes)) == rounds


def test_on_har_the_stop_rule_ends_a_run_far_later() -> None:
    (har,) = find("dbe/table9").columns
    assert planning.expected_rounds(har.setting.experiment("fedavg")) == 850
    assert planning.expected_rounds(har.setting.experiment("fedavg", rounds=200)) == 200


def test_absent_data_are_named(make, monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    monkeypatch.setattr("pflrepro.papers.studied.missing_data", lambda name, root: f"data set {name} not downloaded")
    found = make("fast", methods=["fedavg"])
    assert {(entry.state, entry.reason) for entry in found.plan()} == {("no data", "data set digits not downloaded")}
    with pytest.raises(
        MissingData, match=r"^demo/fake at scale fast: data set digits .*; without data work --scale smoke$"
    ):
        found.run(progress=False)
    fill(found, "fedavg", "skewed", [10, 50, 60], [10, 50, 60])
    assert {entry.state for entry in found.plan()} == {"done"}, "what was run needs no data"
    assert found.plan().lacking == ""
    caplog.clear()
    both = make("fast", methods=["fedavg", "fedavg+dbe"])
    said = "2 of 4 runs not trained: data set digits not downloaded"
    assert both.run(progress=False).lacking == said
    assert caplog.messages == [f"demo/fake at scale fast: {said}"]


def test_rows_with_options_of_their_own_are_planned_apart(make) -> None:
    rows = (row("DBE", "fedavg+dbe", key="a"), row("DBE, 5", "fedavg+dbe", key="b", kappa=5.0))
    scales = (Scale("paper", "", options={"a": {"kappa": 5.0}}), Scale("other", ""))
    artefact = replace(make_artefact(claims=()), rows=rows, columns=(column("s", SKEWED),), scales=scales)
    assert len(make("other", artefact).plan()) == 2
    assert len(make("paper", artefact).plan()) == 1, "with the same options they are one"


def test_what_is_missing_comes_on_top_and_is_got_by_one_command(make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "measured", lambda experiment: timing.Timing(client=0.1, step=0.01, test=0.001))
    absent = [FMNIST_PRACTICAL, FMNIST_PRACTICAL.with_("half", partition="dirichlet:0.5"), CIFAR100_PRACTICAL]
    columns = [column(str(place), setting) for place, setting in enumerate((SKEWED, *absent))]
    plan = make("paper", make_artefact(columns=tuple(columns)), methods=["fedavg"], seeds=1).plan()
    assert [entry.lacks for entry in plan] == ["", "fmnist", "fmnist", "cifar100"]
    assert re.search(
        r"1 to run, 3 no data; to run: about .+; about .+ more with the data that are missing$", plan.total
    )
    said = "the data that are missing: pflrepro data get fmnist cifar100"
    assert plan.missing == said and said in repr(plan) and said in plan._repr_html_()
    alone = planning.Plan(entry for entry in plan if entry.state == "no data")
    assert "more" not in alone.total and alone.total.endswith("with the data that are missing")
    assert planning.Plan(entry for entry in plan if entry.state == "to run").missing == ""


def test_of_a_derived_set_the_one_that_is_stored_is_got(tmp_path: Path) -> None:
    assert availability.to_get("cifar10-s", tmp_path) == "cifar10" and availability.to_get("digits", tmp_path) == ""
