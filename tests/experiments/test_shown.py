"""How runs, their histories and a store show themselves, as texts, pages and data frames."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import pflrepro
from pflrepro.errors import UserError
from pflrepro.experiments.config import DataConfig, Experiment
from pflrepro.experiments.history import History
from pflrepro.experiments.run import run
from pflrepro.experiments.runs import COLUMNS, Runs
from pflrepro.experiments.sweep import sweep
from pflrepro.settings import Settings


@pytest.fixture
def runs(make, store, fake) -> Runs:
    experiments = [*make.seeds(0, 1), *make.seeds(0, 1, algorithm="fedavg+dbe", options={"kappa": 5.0}, lr=0.2)]
    return run(experiments, store=store, simulate=fake, progress=False)


# ---- configurations ----------------------------------------------------------------------------------------------------------------
def test_a_configuration_is_printed_by_what_is_not_at_its_default() -> None:
    made = Experiment("fedavg", DataConfig("digits", "iid"), "mlp", Settings(rounds=3))
    assert repr(made) == (
        "Experiment(algorithm='fedavg', data=DataConfig(dataset='digits', partition='iid'), model='mlp', "
        "settings=Settings(rounds=3))"
    )
    assert eval(repr(made)) == made
    assert repr(Settings()) == "Settings()"


def test_an_experiment_shows_what_it_is_in_a_table() -> None:
    html = Experiment.for_dataset("fedavg+dbe", "digits", options={"kappa": 5.0}, rounds=7)._repr_html_()
    for text in ("fedavg+dbe", "kappa=5.0", "digits, partition=dirichlet:0.1", "rounds=7", "float32"):
        assert text in html, text
    html = Settings(lr=0.25)._repr_html_()
    assert "<b>0.25</b>" in html and "participation_low" in html and "<b>10</b>" not in html


# ---- one run -----------------------------------------------------------------------------------------------------------------------
def test_a_history_is_a_mapping_that_shows_itself(runs: Runs) -> None:
    history = runs[0].history
    assert isinstance(history, History) and isinstance(history, dict)
    assert repr(history) == "History(5 tests of 5 clients, round 0 to 4)"
    html = history._repr_html_()
    assert f"{100 * runs[0].curve[-1]:.2f}" in html and "worst client" in html and "correct_after" in html


def test_a_history_and_its_run_draw_the_same_curves(runs: Runs) -> None:
    drawn = [each.plot().get_lines() for each in (runs[0], runs[0].history)]
    assert [line.get_label() for line in drawn[0]] == [line.get_label() for line in drawn[1]]
    for one, other in zip(*drawn, strict=True):
        np.testing.assert_array_equal(one.get_ydata(), other.get_ydata())
    assert drawn[0][0].get_ydata().tolist() == (100 * runs[0].curve).tolist()


def test_a_long_history_is_shown_in_a_dozen_lines(runs: Runs) -> None:
    many = History(runs[0].history)
    for name, array in many.items():
        many[name] = array if name.endswith("_samples") else np.repeat(array[:1], 300, axis=0)
    many["round"] = np.arange(300)
    assert many._repr_html_().count("<tr>") == 1 + 12


def test_a_history_as_a_frame_has_a_line_a_test_and_client(runs: Runs) -> None:
    history, frame = runs[0].history, runs[0].history.frame()
    assert len(frame) == 5 * 5
    line = frame[(frame["round"] == 2) & (frame["client"] == 3)].iloc[0]
    assert line["correct"] == history["correct"][2, 3]
    assert line["accuracy"] == history["correct"][2, 3] / history["test_samples"][3]
    assert line["train_samples"] == history["train_samples"][3]
    assert frame["accuracy_after"].isna().sum() == 5, "before the first training"


def test_a_run_as_a_frame_has_a_line_a_test(runs: Runs) -> None:
    made, frame = runs[0], runs[0].frame()
    np.testing.assert_array_equal(frame["accuracy"], made.curve)
    np.testing.assert_array_equal(frame["accuracy_after"], made.curve_after_training)
    assert frame["round"].tolist() == [0, 1, 2, 3, 4]
    assert (frame["worst"] <= frame["accuracy"]).all() and (frame["accuracy"] <= frame["best"]).all()
    assert frame["participants"].tolist() == [0, 5, 5, 5, 5]
    assert frame["seconds"].sum() == made.seconds
    assert frame["train_loss"][2] == pytest.approx(made.history["train_loss"][2].mean())


# ---- several -----------------------------------------------------------------------------------------------------------------------
def test_several_runs_are_a_list_that_shows_a_table(runs: Runs, make, store, fake) -> None:
    assert isinstance(runs, list) and len(runs) == 4
    html = runs._repr_html_()
    for text in ("4 runs", "fedavg+dbe", "kappa=5.0", f"{100 * runs[3].accuracy():.2f}", runs[3].id):
        assert text in html, text
    assert "0.2" in html, "what differs is shown"
    assert "float32" not in html, "what all have is not"
    assert repr(runs).splitlines()[0] == "Runs(4)" and runs[1].id in repr(runs)
    assert repr(Runs([*runs] * 5)).splitlines()[-1] == "and 10 more"
    assert Runs()._repr_html_().startswith("<p>0 runs</p>")
    assert isinstance(sweep(make.seeds(0), store=store, progress=False), Runs)


def test_runs_are_chosen_by_their_columns(runs: Runs, store) -> None:
    assert [each.id for each in runs.select(algorithm="*dbe")] == [runs[2].id, runs[3].id]
    assert [each.id for each in runs.select(seed=[1, 5], lr=0.2)] == [runs[3].id]
    assert runs.select(id=runs[0].id) == [runs[0]]
    assert store.select(algorithm="fedavg", seed=1)[0].id == runs[1].id
    with pytest.raises(UserError, match="unknown column of runs 'method'; valid: "):
        runs.select(method="fedavg")


@pytest.mark.parametrize(
    "seeds",
    [{0}, frozenset({0}), (seed for seed in [0]), {0: "first"}.keys(), np.array([0]), np.arange(1), "0", ["0"], 0.0],
)
def test_a_column_may_have_one_of_several_values_in_any_form(seeds, runs: Runs) -> None:
    assert runs.select(seed=seeds) == [runs[0], runs[2]]


def test_runs_that_diverged_are_chosen_in_whichever_round(runs: Runs) -> None:
    apart = replace(runs[0], history=runs[0].history | {"loss": np.full_like(runs[0].history["loss"], np.nan)})
    both = Runs([apart, runs[1]])
    assert both.frame()["diverged"].tolist() == [0, -1]
    assert [both.select(diverged=each) for each in (True, False)] == [[apart], [runs[1]]]
    assert both.select(diverged=0) == [apart]


def test_parts_and_sums_of_runs_are_runs(runs: Runs) -> None:
    for some in (runs[:2], runs[:1] + runs[1:2], runs.copy()[:2]):
        assert isinstance(some, Runs) and some == list(runs)[:2] and len(some.frame()) == 2
    assert runs[-1] is list(runs)[-1]


def test_a_store_is_a_frame_of_its_runs(runs: Runs, store) -> None:
    frame = store.frame()
    assert tuple(frame.columns) == COLUMNS and len(frame) == 4
    line = frame.set_index("id").loc[runs[2].id]
    assert line["accuracy"] == runs[2].accuracy() and line["accuracy_last"] == runs[2].curve[-1]
    assert (line["algorithm"], line["options"], line["lr"], line["rounds"]) == ("fedavg+dbe", "kappa=5.0", 0.2, 4)
    assert line["diverged"] == -1 and list(frame.columns).index("accuracy") == 7, (
        "what came out stands before all settings"
    )
    assert store.frame(algorithm="fedavg")["seed"].sort_values().tolist() == [0, 1]
    assert len(store.frame(dataset="mnist")) == 0


def test_a_store_shows_its_newest_runs(runs: Runs, store, monkeypatch) -> None:
    html = store._repr_html_()
    assert "4 runs" in html and all(each.id in html for each in runs)
    monkeypatch.setattr("pflrepro.experiments.runs.NEWEST", 1)
    assert store._repr_html_().count("<tr>") == 1 + 1
    read = []
    monkeypatch.setattr("pflrepro.experiments.store.read_run", lambda folder: read.append(folder) or runs[0])
    store._repr_html_()
    assert len(read) == 1, "the others are not read"


def test_an_empty_store_says_so(store) -> None:
    assert store._repr_html_().endswith("none</p>") and len(store.frame()) == 0


def test_a_run_that_came_apart_says_so_wherever_it_is_shown(runs: Runs) -> None:
    history = dict(runs[0].history)
    history["loss"] = history["loss"].copy()
    history["loss"][2, 1] = np.nan
    apart = replace(runs[0], history=history)
    said = "diverged by round 2 (client 1)"
    assert said in repr(apart) and said not in repr(runs[0])
    assert Runs([apart, runs[1]]).frame()["diverged"].tolist() == [2, -1]
    compared = pflrepro.compare([apart, runs[1], runs[2]])
    assert repr(compared).splitlines()[-1].endswith(f", seed 0: {said}")
    assert said in compared._repr_html_() and "diverged" not in repr(pflrepro.compare(runs[1:3]))
