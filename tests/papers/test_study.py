"""Studies on hand-made runs in a real store, and one that is trained: what is looked up, judged, shown and written."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers.runs import DIGITS, PAIRS, SKEWED, fill, line, make_artefact, put

from pflrepro import papers
from pflrepro.errors import MissingData, RunFailed, UserError
from pflrepro.experiments import compact
from pflrepro.experiments.store import Store
from pflrepro.papers.artefact import SMOKE, Scale, column, row
from pflrepro.papers.claims import above
from pflrepro.papers.measures import ACCURACY, Measure, Value
from pflrepro.papers.relative_measures import gain_over, ratio_to
from pflrepro.papers.result import FRAME_COLUMNS
from pflrepro.papers.settings import FMNIST_PRACTICAL, lib
from pflrepro.papers.studies import Study, study
from pflrepro.papers.views.planes import Planes
from pflrepro.papers.views.table import Table


# ---- the frame -------------------------------------------------------------------------------------------------------------------
def test_every_cell_is_listed_with_nothing_run(make) -> None:
    found = make()
    assert len(found.frame) == 3 * 2 and tuple(found.frame.columns) == FRAME_COLUMNS
    assert found.frame[["ours", "low", "high"]].isna().all(axis=None) and set(found.frame["interval"]) == {""}
    assert found.verdict == "6 – not run" and found.outcomes == [] and not found.anything_run
    assert found.caption() == "scale fast: nothing run yet"
    assert repr(found) == "Study(demo/fake at scale fast: 0 of 6 cells run)"


def test_what_is_absent_says_why(make) -> None:
    found = make()
    assert line(found, "Nothing")["reason"].startswith(
        "unknown algorithm 'absent' (a method of your own: module:Class); valid: "
    )
    assert line(found, "FedAvg")["reason"] == "no finished run in the store"
    assert line(found, "FedAvg", "two classes: FMNIST")["reason"] == "not part of the scale fast"
    assert line(found, "Nothing")["source"] == "no published number"


def test_mean_spread_and_difference_by_hand(make) -> None:
    """Best rounds 84 and 88 (not the last ones): mean 86, population deviation 2; published 85.85 +- 0.19 of 3 trials."""
    found = make("paper", seeds=2)
    fill(found, "fedavg", "skewed", [10, 84, 60, 70, 20], [10, 20, 88, 70, 20])
    cell = line(found, "FedAvg")
    assert (cell["ours"], cell["spread"], cell["published"]) == (86.0, 2.0, 85.85)
    assert cell["difference"] == pytest.approx(0.15)
    # t with one degree of freedom is 12.706, the standard error 2 / sqrt(2 - 1); an accuracy ends at 100.
    assert (cell["low"], cell["high"]) == pytest.approx((86 - 2 * 12.7062, 100.0), abs=1e-3)
    assert cell["tolerance"] == pytest.approx(2 * math.sqrt(0.19**2 / 2 + 4 / 1))
    assert (cell["n"], cell["rounds"], cell["fidelity"], cell["verdict"]) == (2, 4, "same", "within tolerance")
    assert cell["source"] == "dbe_table5; spread from pfllib_leaderboard"
    assert cell["rule"] == "maximum over rounds, on the test splits (as the papers do)"
    assert cell["runs"].split() == [run.id for run in found.cells["fedavg", "skewed"].runs.values()]
    assert found.cells.get(("fedavg", "skew")) is None
    for kind in (UserError, KeyError):
        with pytest.raises(kind, match=r"^no cell \('fedavg', 'skew'\); rows: fedavg, .*; columns: .*skewed"):
            found.cells["fedavg", "skew"]


def test_a_cell_with_some_seeds_counts_those_and_says_so(make) -> None:
    found = make("paper")
    put(found.store, found.experiments(found.rows[0], found.columns[1])[1], 10, 60, 50, 40, 30)
    cell = line(found, "FedAvg")
    assert (cell["n"], cell["ours"], cell["reason"]) == (1, 60.0, "1 of 3 seeds run")
    assert cell["verdict"] == "differs" and cell["interval"] == "bootstrap, 5 clients"


def test_a_run_that_diverged_never_stands_in_a_table_unseen(make) -> None:
    found = make("paper")
    history = put(found.store, found.experiments(found.rows[0], found.columns[1])[1], 10, 60, 50, 40, 30).history
    seed, loss = found.experiments(found.rows[0], found.columns[1])[0], history["loss"].copy()
    loss[-1, 2] = math.nan
    put(found.store, seed, 10, 60, 50, 40, 30, loss=loss)
    told = f"seed {seed.seed} diverged by round {history['round'][-1]} (client 2)"
    assert line(found, "FedAvg")["reason"] == f"2 of 3 seeds run; {told}"
    assert any(told in note for view in found.artefact.views for note in view.notes(found))
    fill(found, "fedavg+dbe", "skewed", [10, 70, 50, 40, 30], [10, 71, 50, 40, 30])
    assert [each.test for each in found.outcomes] == ["paired t over 2 seeds; FedAvg diverged"]


def test_a_shorter_study_reads_the_beginning_of_longer_runs(make) -> None:
    long = make("paper", seeds=2)
    fill(long, "fedavg", "skewed", [10, 50, 60, 90, 95], [10, 52, 62, 90, 95])
    short = make("fast")
    assert (line(short, "FedAvg")["ours"], line(short, "FedAvg")["rounds"]) == (61.0, 2)
    assert line(long, "FedAvg")["ours"] == 95.0


def test_the_caption_tells_of_the_rule_of_cells_that_are_shown(make) -> None:
    rule = "maximum over rounds, on the test splits"
    for views, told in ((Table(),), True), ((Planes(()), Table()), True), ((Planes(()),), False):
        found = make(of=make_artefact(views=views))
        fill(found, "fedavg", "skewed", [10, 60, 50])
        assert (rule in found.caption()) == told


def test_the_caption_tells_of_the_rule_that_ended_the_runs(make) -> None:
    patient = lib("digits, patient", "digits", "mlp", "dirichlet:0.5", **DIGITS | {"patience": 2})
    found = make("paper", make_artefact(columns=(column("skewed", patient),)))
    fill(found, "fedavg", "skewed", [10, 60, 50, 40], [10, 60, 65, 50, 40])
    assert "2 seeds; 4 rounds, ended by 2 tests without a new best; " in found.caption()
    plain = make("paper")  # in the same store, which has the other seed
    fill(plain, "fedavg", "skewed", [10, 60, 50, 40, 30])
    assert "2 seeds; 4 rounds; " in plain.caption()


def test_a_stand_in_is_never_compared(make) -> None:
    found = make("smoke")
    fill(found, "fedavg", "skewed", [10, 86, 80])
    fill(found, "fedavg+dbe", "skewed", [10, 90, 80])
    cell = line(found, "FedAvg")
    assert (cell["ours"], cell["fidelity"], cell["verdict"]) == (86.0, "stand-in", "stand-in")
    assert math.isnan(cell["difference"]) and found.outcomes == []
    assert "small stand-in" in found.caption()


# ---- fidelities -------------------------------------------------------------------------------------------------------------
def test_fidelities_of_scales() -> None:
    artefact = make_artefact()
    skewed = artefact.column("skewed")
    assert SMOKE.fidelity(skewed) == "stand-in"
    assert Scale("paper", "").fidelity(skewed) == "same"
    assert [Scale("x", "", rounds=rounds).fidelity(skewed) for rounds in (3, 4, 9)] == ["reduced", "same", "same"]
    assert Scale("x", "", share=0.5).fidelity(skewed) == "reduced"
    assert Scale("x", "", options={"fedavg": {}}).fidelity(skewed) == "reduced"
    assert Scale("x", "", instead={"skewed": PAIRS}).fidelity(skewed) == "instead"
    assert Scale("x", "", instead={"pairs": PAIRS}).fidelity(skewed) == "same"
    half = column("half", SKEWED.with_(dataset="cifar10-half"))
    assert Scale("paper", "").fidelity(half) == "reduced"


def test_what_a_scale_changes_in_an_experiment(make) -> None:
    scales = (
        Scale("less", "", rounds=2, every=2, share=0.5, seeds=2),
        Scale("other", "", instead={"skewed": PAIRS}, options={"fedavg+dbe": {"kappa": 7.0}}),
        Scale("paper", ""),
    )
    artefact = make_artefact(scales=scales)
    stopping = replace(artefact.column("skewed"), setting=SKEWED.with_(patience=3))
    artefact = replace(artefact, columns=(artefact.column("pairs"), stopping))

    def made(scale: str, name: str = "fedavg"):
        found = make(scale, artefact)
        return found.experiments(artefact.row(name), artefact.column("skewed"))

    less = made("less")
    assert [each.seed for each in less] == [0, 1]
    assert less[0].data.partition == "dirichlet:0.5+train-share=0.5"
    assert (less[0].settings.rounds, less[0].settings.every, less[0].settings.patience) == (2, 2, 0)
    (other,) = made("other", "fedavg+dbe")
    assert other.data.partition == "pathological:2" and dict(other.options) == {"kappa": 7.0}
    (paper,) = made("paper")
    assert (paper.settings.rounds, paper.settings.every, paper.settings.patience) == (4, 1, 3)
    assert paper.data.partition == "dirichlet:0.5"


def test_the_papers_stop_rule_waits_as_many_rounds_at_every_scale() -> None:
    def length(key: str = "fmnist", **scale: Any) -> tuple[int, int, int]:
        found = Scale("fast", "", **scale).changes(column(key, FMNIST_PRACTICAL), FMNIST_PRACTICAL)
        return found["rounds"], found["every"], found["patience"]

    assert length() == (2000, 1, 100)
    assert length(rounds=400, every=5) == (400, 5, 20), "100 rounds"
    assert length(rounds=100) == (100, 1, 0), "which cannot be waited for"
    longer = {"rounds": 60, "every": 5, "column_rounds": {"cifar100": 400}}
    assert (length(**longer), length("cifar100", **longer)) == ((60, 5, 0), (400, 5, 20))


def test_rows_may_differ_in_options_by_network_protocol_and_setting(make) -> None:
    rows = (
        row("FedAvg+DBE", "fedavg+dbe", kappa=3.0, by_model={"cnn-digits": {"kappa": 9.0}}),
        row(
            "other network",
            "fedavg+dbe",
            key="net",
            setting={"model": "cnn-digits"},
            by_model={"cnn-digits": {"kappa": 9.0}},
        ),
        row("two epochs", "fedavg", key="e2", changes={"local_epochs": 2}),
    )
    found = make("paper", make_artefact(rows=rows, claims=()))
    plain, network, epochs = (found.experiments(each, found.columns[0])[0] for each in rows)
    assert (plain.model, dict(plain.options)) == ("mlp", {"kappa": 3.0})
    assert (network.model, dict(network.options)) == ("cnn-digits", {"kappa": 9.0})
    assert (plain.settings.local_epochs, epochs.settings.local_epochs) == (1, 2)
    small = make("smoke", found.artefact)
    assert small.experiments(rows[2], found.columns[0])[0].settings.local_epochs == 1, "a stand-in does little work"


# ---- what is measured ----------------------------------------------------------------------------------------------------------
def test_a_run_is_read_once_for_all_that_is_measured_of_it(make, monkeypatch) -> None:
    columns = (column("own", SKEWED, label="own"), column("gain", SKEWED, gain_over("fedavg"), label="gain"))
    found = make("paper", make_artefact(columns=columns, claims=()), seeds=2)
    fill(found, "fedavg", "own", [10, 50, 0, 0, 0], [10, 40, 0, 0, 0])
    fill(found, "fedavg+dbe", "own", [10, 60, 0, 0, 0], [10, 60, 0, 0, 0])
    read, get = [], Store.get
    monkeypatch.setattr(Store, "get", lambda self, id, **how: read.append(get(self, id, **how)) or read[-1])
    assert len(found.cells["fedavg+dbe", "gain"].values) == 2 and len(found.evidence("fedavg", "own")) == 2
    there = [run.id for run in read if run is not None]
    assert len(there) == 4 and len(set(there)) == 4


def test_measures_of_another_row_beside(make) -> None:
    """Also in a column in which that row has no cell of its own."""
    gain, ratio = gain_over("fedavg"), ratio_to("fedavg", ACCURACY)
    columns = (
        column("own", SKEWED, label="own"),
        column("gain", SKEWED, gain, label="gain", rows=("fedavg+dbe",)),
        column("ratio", SKEWED, ratio, label="ratio", rows=("fedavg+dbe", "absent")),
    )
    found = make("paper", make_artefact(columns=columns, claims=()), seeds=2)
    fill(found, "fedavg", "own", [10, 50, 0, 0, 0], [10, 40, 0, 0, 0])
    fill(found, "fedavg+dbe", "own", [10, 60, 0, 0, 0], [10, 60, 0, 0, 0])
    assert sorted(key for key in found.cells if key[1] != "own") == [
        ("absent", "ratio"),
        ("fedavg+dbe", "gain"),
        ("fedavg+dbe", "ratio"),
    ]
    assert [value.number for value in found.cells["fedavg+dbe", "gain"].values.values()] == pytest.approx([10.0, 20.0])
    assert found.cells["fedavg+dbe", "ratio"].ours == pytest.approx((60 / 50 + 60 / 40) / 2)
    assert found.cells["fedavg+dbe", "gain"].values[0].clients == pytest.approx([10.0] * 5)
    alone = make("paper", found.artefact, seeds=3)
    fill(alone, "fedavg+dbe", "own", *[[10, 60, 0, 0, 0]] * 3)
    assert [value.number for value in alone.cells["fedavg+dbe", "gain"].values.values()][:2] == pytest.approx(
        [10.0, 20.0]
    )
    assert math.isnan(alone.cells["fedavg+dbe", "gain"].values[2].number), "the other row lacks the third seed"
    assert alone.cells["fedavg+dbe", "gain"].ours == pytest.approx(15.0)


@pytest.mark.parametrize("error", [MissingData("data set x not downloaded"), RunFailed("run x is not what it was")])
def test_a_measure_that_cannot_be_taken_leaves_its_reason(make, error: Exception) -> None:
    def fails(evidence) -> Value:
        raise error

    artefact = make_artefact()
    broken = replace(artefact.column("skewed"), measure=Measure("broken", "a measure on models", fails))
    found = make("fast", replace(artefact, columns=(artefact.columns[0], broken)))
    fill(found, "fedavg", "skewed", [10, 60, 50], [10, 60, 50])
    cell = line(found, "FedAvg")
    assert found.summary()[0].startswith("1 of the 3 cells of scale fast were run (1 of them not measured yet)")
    assert (cell["verdict"], cell["reason"]) == ("not measured", str(error))


def test_a_rows_own_measure_decides_which_way_is_better(make) -> None:
    wrong = Measure(
        "wrong", "wrong answers", lambda evidence: Value(100.0 - ACCURACY.of(evidence).number), better="lower"
    )
    rows = (row("FedAvg", measure=wrong), row("FedAvg+DBE", "fedavg+dbe", measure=wrong))
    found = make("fast", make_artefact(rows=rows))
    fill(found, "fedavg", "skewed", [10, 60, 50], [10, 60, 50])
    fill(found, "fedavg+dbe", "skewed", [10, 70, 50], [10, 71, 50])
    (outcome,) = found.outcomes
    assert (outcome.said, outcome.difference, outcome.outcome) == ("FedAvg+DBE < FedAvg", 10.5, "kept")


# ---- data ----------------------------------------------------------------------------------------------------------------------
def test_missing_data_are_said_without_a_path_and_stop_nothing(store: Store, tmp_path: Path) -> None:
    found = study("dbe/table5", "fast", store=store, data_root=tmp_path / "none")
    reasons = {cell.reason for (_, column), cell in found.cells.items() if column == "practical/fmnist"}
    assert reasons == {"data set fmnist not downloaded (pflrepro data get fmnist)", "not part of the scale fast"}
    assert found.cells["pfedme", "practical/fmnist"].reason == "not part of the scale fast", "data would fill nothing"
    read = study("dbe/table5", "fast", store=store, data_root=tmp_path / "none", revives=False)
    assert {cell.reason for (_, column), cell in read.cells.items() if column == "practical/fmnist"} == {
        "no finished run in the store",
        "not part of the scale fast",
    }, "what is only read looks the same on every machine"
    assert read.cells["pfedme", "practical/fmnist"].reason == "not part of the scale fast"
    asked = study("dbe/table5", "fast", store=store, data_root=tmp_path, methods=["pfedme"], revives=False)
    assert asked.cells["pfedme", "practical/fmnist"].reason == "no finished run in the store"
    lacking = "data set cifar100 not .*; data set fmnist not .*"
    with pytest.raises(
        MissingData,
        match=f"^dbe/table5 at scale fast: {lacking}; without data work --scale smoke, and dbe/figure6$",
    ):
        found.run(progress=False)


def test_missing_proxy_data_are_missing_data(make, tmp_path: Path) -> None:
    columns = (column("proxy", SKEWED.with_(proxy="mnist")),)
    found = make("paper", make_artefact(columns=columns, scales=(Scale("paper", ""),)), data_root=tmp_path)
    assert {entry.state for entry in found.plan() if entry.experiment} == {"no data"}
    assert found.cells["fedavg", "proxy"].reason == "data set mnist not downloaded (pflrepro data get mnist)"


def test_nothing_possible_is_an_error_that_says_why(make) -> None:
    with pytest.raises(UserError, match=r"^nothing of demo/fake at scale paper can be run: unknown algorithm 'absent'"):
        make("paper", methods=["absent"]).run(progress=False)


def test_committed_runs_are_found_by_those_who_have_not_got_the_data(make, tmp_path: Path, monkeypatch) -> None:
    made = make("fast")
    runs = fill(made, "fedavg", "skewed", [10, 60, 50], [10, 64, 50])
    for run in runs:
        compact.export(run, tmp_path / "committed")

    def gone(*_):
        raise MissingData("no data on this machine")

    for place in ("experiments.store", "papers.studied"):
        monkeypatch.setattr(f"pflrepro.{place}.run_id", gone)
    reader = make("fast", store=Store(tmp_path / "empty", behind=tmp_path / "committed"))
    assert line(reader, "FedAvg")["ours"] == 62.0
    assert {e.state for e in reader.plan() if e.row == "FedAvg" and e.experiment} == {"done"}
    assert line(reader, "FedAvg+DBE")["n"] == 0
    with pytest.raises(MissingData):
        reader.find(reader.experiments(reader.rows[1], reader.columns[0])[0])


# ---- wrong names -----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"scale": "fats"}, r"unknown scale of demo/fake 'fats'; valid: fast, "),
        ({"methods": ["fedavgg"]}, r"unknown row of demo/fake 'fedavgg'; valid: fedavg, "),
        ({"columns": ["pair"]}, r"unknown column of demo/fake 'pair'; valid: pairs, skewed"),
        ({"columns": ["pairs"]}, r"the column pairs of demo/fake is not part of the scale fast; valid: skewed"),
        ({"also": ["fedavgg"]}, r"unknown algorithm 'fedavgg' \(a method of your own: module:Class\); valid: fedavg"),
        ({"seeds": 0}, r"seeds must be a whole number >= 1, not 0"),
        ({"seeds": 1.5}, r"seeds must be a whole number >= 1, not 1.5"),
    ],
)
def test_wrong_names_are_refused_in_one_line(make, how, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        make(**how)
    assert "\n" not in str(caught.value)


def test_wrong_rows_columns_and_artefacts_name_the_nearest() -> None:
    artefact = make_artefact()
    assert artefact.row("fedavg+DBE").key == "fedavg+dbe" and artefact.column("Pairs").key == "pairs"
    assert artefact.row("dbe").key == "fedavg+dbe", "by its method, which has this name too"
    with pytest.raises(UserError, match="unknown row of demo/fake 'dbee'; valid: fedavg"):
        artefact.row("dbee")
    twice = make_artefact(rows=(row("1", "ditto", key="a"), row("2", "ditto", key="b")), claims=())
    with pytest.raises(UserError, match=r"unknown row of demo/fake 'ditto'; valid: .*; of this method are: a, b$"):
        twice.row("ditto")
    with pytest.raises(UserError, match="unknown column of demo/fake 'pair'; valid: pairs, skewed"):
        artefact.column("pair")
    with pytest.raises(UserError, match="unknown artefact 'dbe/tabel5'; valid: dbe/table5"):
        study("dbe/tabel5")
    with pytest.raises(UserError, match="unknown row in a claim of demo/fake 'fedavgg'; valid: fedavg"):
        make_artefact(claims=(above("fedavgg", "fedavg"),))
    with pytest.raises(UserError, match="unknown column in a claim of demo/fake 'skew'; valid: skewed"):
        make_artefact(claims=(above("fedavg+dbe", "fedavg", columns=("skew",)),))
    with pytest.raises(UserError, match="demo/fake: two rows have one key: fedavg, fedavg"):
        make_artefact(rows=(row("FedAvg"), row("FedAvg")), claims=())


def test_the_function_is_not_hidden_by_a_module() -> None:
    assert [papers.study("demo/digits").artefact.id for _ in range(2)] == ["demo/digits"] * 2
    assert papers.Study is Study and papers.study is study
