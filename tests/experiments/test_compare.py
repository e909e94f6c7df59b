"""Runs beside each other: lines and their labels, numbers by hand, which test is made, pictures."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pflrepro
from pflrepro.errors import UserError
from pflrepro.experiments.compare import compare
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.result import Run
from pflrepro.metrics.comparison import paired
from pflrepro.metrics.intervals import over_weighted_clients, t_interval

SAMPLES = np.array([10, 30, 0])


def finished(correct: list[list[int]], seed: int = 0, algorithm: str = "fedavg", clients: int = 3, **changes) -> Run:
    """A run with these correct predictions of three clients, one row a test."""
    rows = np.array(correct)
    tests = len(rows)
    experiment = Experiment.for_dataset(algorithm, "digits", clients=clients, seed=seed, **changes)
    history = {
        "round": np.arange(tests),
        "correct": rows,
        "correct_after": np.where(np.arange(tests)[:, None] > 0, np.minimum(rows + 1, SAMPLES), -1),
        "loss": np.ones(rows.shape),
        "train_loss": np.ones(rows.shape),
        "test_samples": SAMPLES,
    }
    identity = {"data": {"clients": clients}, "fingerprint": "f"}
    return Run(f"{algorithm}-{seed}", experiment, identity, history, {}, Path("x"))


def test_a_line_is_a_method_and_its_numbers_are_those_of_the_seeds() -> None:
    one = [finished([[0, 0, 0], [10, 30 - 2 * seed, 0], [5, 5, 0]], seed) for seed in range(3)]
    other = [finished([[0, 0, 0], [6, 30 - 2 * seed, 0], [5, 5, 0]], seed, "fedavg+dbe") for seed in (2, 0, 1)]
    found = pflrepro.compare([*one, *other])
    assert list(found.table.index) == ["fedavg", "fedavg+dbe"]
    line = found.table.loc["fedavg"]
    values = [100.0, 95.0, 90.0]
    interval = t_interval(values)
    assert line["accuracy"] == pytest.approx(95.0) and line["spread"] == pytest.approx(np.std(values))
    assert (line["low"], line["high"]) == pytest.approx((interval.low, 100.0)) and interval.high > 100
    assert (line["interval"], line["seeds"], line["rounds"]) == ("t, 3 seeds", 3, 2)
    assert [run.experiment.seed for run in found.runs["fedavg+dbe"]] == [0, 1, 2]
    assert compare(one, "last_round").table["accuracy"].tolist() == [25.0]


def test_the_interval_of_an_accuracy_stays_within_0_and_100() -> None:
    high = [finished([[10, 30, 0]], 0), finished([[8, 30, 0]], 1)]
    low = [finished([[0, 0, 0]], 0, "local"), finished([[1, 1, 0]], 1, "local")]
    table = compare([*high, *low]).table
    assert t_interval([100.0, 95.0]).high > 100 and t_interval([0.0, 5.0]).low < 0
    assert table["high"].to_dict() == {"fedavg": 100.0, "local": pytest.approx(t_interval([0.0, 5.0]).high)}
    assert table["low"].to_dict() == {"fedavg": pytest.approx(t_interval([100.0, 95.0]).low), "local": 0.0}


def test_lines_keep_the_labels_they_are_given() -> None:
    one, other = finished([[10, 30, 0]]), finished([[5, 15, 0]], algorithm="local")
    found = compare({"published": [other], "mine": [one]})
    assert found.table["accuracy"].to_dict() == {"published": 50.0, "mine": 100.0}
    for wrong in ({}, {"empty": []}):
        with pytest.raises(UserError, match="no runs"):
            compare(wrong)
    with pytest.raises(UserError, match="not str"):
        compare({"wrong": "text"})
    with pytest.raises(UserError, match=r"'both' has several runs of one seed \(0, 0\): they are no group"):
        compare({"both": [one, other]})


def test_a_run_alone_stands_for_a_list_of_it() -> None:
    """As in the runs behind a cell, seed -> run."""
    one, other = finished([[10, 30, 0]]), finished([[5, 15, 0]], seed=1)
    assert compare({0: one, 1: other}).table["accuracy"].to_dict() == {"0": 100.0, "1": 50.0}
    assert compare(one).table["accuracy"].tolist() == [100.0] and "0, 1" in repr(compare({0: one, 1: other}))


def test_seeds_are_compared_by_t_and_equal_differences_by_their_signs() -> None:
    base = [[10, 30, 0], [8, 28, 0], [9, 25, 0]]
    one = [finished([row], seed) for seed, row in enumerate(base)]
    other = [finished([[5, row[1] - seed, 0]], seed, "local") for seed, row in enumerate(base)]
    shifted = [finished([[row[0] - 2, row[1], 0]], seed, "fedprox") for seed, row in enumerate(base)]
    tests = compare([*one, *other, *shifted]).tests.set_index(["one", "other"])
    a, b = ([100 * sum(run.history["correct"][0]) / 40 for run in runs] for runs in (one, other))
    line = tests.loc["fedavg", "local"]
    assert line["difference"] == pytest.approx(np.mean(a) - np.mean(b))
    assert line["p"] == pytest.approx(paired(a, b, "t").p) and line["test"] == "paired t over 3 seeds"
    line = tests.loc["fedavg", "fedprox"]
    assert (line["difference"], line["p"], line["test"]) == (5.0, 0.25, "sign flips over 3 seeds")
    assert (tests["adjusted"] >= tests["p"]).all() and tests["adjusted"].max() <= 1


def test_one_seed_is_compared_over_clients() -> None:
    one, other = finished([[0, 0, 0], [9, 28, 0]]), finished([[2, 2, 0], [4, 20, 0]], algorithm="local")
    found = compare([one, other])
    [line] = found.tests.to_dict("records")
    assert line["difference"] == pytest.approx(100 * (37 - 24) / 40)
    assert (line["p"], line["test"], line["pairs"]) == (0.5, "sign flips over 2 clients", 2), "one has no test samples"
    assert math.isnan(found.table.loc["fedavg", "spread"])
    interval = over_weighted_clients(np.array([9, 28]) / SAMPLES[:2], SAMPLES[:2])
    assert found.table.loc["fedavg", "low"] == pytest.approx(100 * interval.low)
    assert found.table.loc["fedavg", "interval"] == "bootstrap, 2 clients"


def test_one_model_on_one_test_set_is_one_number_and_no_sample_of_clients() -> None:

    def shared(run: Run, correct: int) -> Run:
        six = {"correct": np.full((1, 6), correct), "test_samples": np.full(6, 10)}
        return replace(run, history=run.history | six)

    row = [[0, 0, 0]]
    found = compare([shared(finished(row), 9), shared(finished(row, algorithm="local"), 4)])
    [line] = found.tests.to_dict("records")
    assert (
        line["difference"] == 50.0
        and math.isnan(line["p"])
        and line["test"] == "none: one seed, and one number for all clients"
    )
    assert math.isnan(found.table.loc["fedavg", "low"])


def test_turns_of_one_test_set_are_no_sample_of_clients() -> None:
    """Twelve clients, each better off, would give p = 0.0005."""
    rows = [dict.fromkeys(["correct"], np.full((1, 12), correct) + np.arange(12)) for correct in (9, 4)]
    more = {"test_samples": np.full(12, 30)}
    runs = [finished([[0, 0, 0]], algorithm=name) for name in ("fedavg", "fedprox")]
    runs = [replace(run, history=run.history | row | more) for run, row in zip(runs, rows, strict=True)]
    assert compare(runs).tests["p"][0] < 0.001 and not math.isnan(compare(runs).table.loc["fedavg", "low"])
    turned = [
        replace(run, experiment=replace(run.experiment, data=replace(run.experiment.data, dataset="rotated-mnist")))
        for run in runs
    ]
    found = compare(turned)
    [line] = found.tests.to_dict("records")
    assert math.isnan(line["p"]) and line["test"] == "none: one seed, and turns of one test set"
    assert math.isnan(found.table.loc["fedavg", "low"])


def test_many_curves_are_told_apart_and_their_names_stand_below() -> None:
    rows = [[0, 0, 0], [5, 15, 0]]
    names = [
        *("fedavg", "local", "fedprox", "scaffold", "moon", "ditto", "apfl", "fedper", "fedrep", "fedbabu"),
        "fedavg",
    ]
    runs = [finished(rows, 0, name) for name in names[:-1]]
    figure = compare({"a label of one's own": runs[:1], **{run.experiment.algorithm: [run] for run in runs}}).curves()
    [axes] = figure.axes
    assert len({(line.get_color(), line.get_marker()) for line in axes.lines}) == len(names)
    assert axes.get_legend() is None and len(figure.legends[0].get_texts()) == len(names)


def test_accuracies_on_held_out_training_samples_are_called_so() -> None:
    row = [[9, 28, 0]]
    held = [finished(row, algorithm=name, partition="iid+validation=0.2") for name in ("fedavg", "local")]
    said = compare(held)
    assert "% validation accuracy in %, maximum over rounds; mean" in said.to_latex()
    assert said.curves().axes[0].get_ylabel().startswith("validation accuracy")
    assert (
        "test accuracy in %, maximum over rounds, on the test splits (as the papers do)"
        in compare([finished(row)])._repr_html_()
    )
    assert compare([held[0], finished(row)]).measured == "validation accuracy and test accuracy"


def test_what_has_no_common_seed_or_other_clients_is_not_tested() -> None:
    one, other = finished([[9, 28, 0]]), finished([[9, 28, 0]], 1, "local")
    [line] = compare([one, other]).tests.to_dict("records")
    assert math.isnan(line["p"]) and math.isnan(line["difference"]) and line["test"] == "none: no common seed"
    [line] = compare([one, finished([[9, 20, 0]], clients=4)]).tests.to_dict("records")
    assert math.isnan(line["p"]) and line["difference"] == 20.0 and line["test"] == "none: other clients"


def labels(*runs: Run) -> list[str]:
    return list(compare(runs).runs)


def test_labels_tell_what_differs_and_nothing_else() -> None:
    row = [[1, 1, 0]]
    assert labels(finished(row), finished(row, algorithm="fedavg+dbe", options=(("kappa", 3.0),))) == [
        "fedavg",
        "fedavg+dbe",
    ]
    assert labels(finished(row, lr=0.2), finished(row, lr=0.3)) == ["fedavg, lr=0.2", "fedavg, lr=0.3"]
    sweep = [finished(row, algorithm="fedprox", options=options) for options in ((), (("mu", 0.1),), (("mu", 1.0),))]
    assert labels(finished(row), *sweep) == ["fedavg", "fedprox", "fedprox, mu=0.1", "fedprox, mu=1.0"]
    assert labels(finished(row, 0), finished(row, 1), finished(row, 1)) == ["fedavg"]


def test_the_same_asked_for_of_other_code_is_another_line() -> None:
    old, new = (
        replace(finished([[1, 1, 0]]), id=id, identity={"engine_revision": number})
        for number, id in enumerate(("abcdef01", "0123456789"))
    )
    assert list(pflrepro.compare([old, new]).runs.items()) == [("fedavg (abcdef)", [old]), ("fedavg (012345)", [new])]


def test_it_shows_itself() -> None:
    rows = [[0, 0, 0], [5, 15, 0], [9, 27, 0]]
    runs = [finished(rows, 0), finished(rows[:2], 1), finished(rows, 0, "local"), finished(rows, 1, "local")]
    found = compare(runs)
    axes = found.curves().axes[0]
    assert [line.get_label() for line in axes.lines] == ["fedavg", "local"]
    assert axes.lines[0].get_ydata().tolist() == [0.0, 50.0], "up to the first stop"
    assert axes.lines[1].get_ydata().tolist() == [0.0, 50.0, 90.0]
    assert np.isnan(found.curves(after=True).axes[0].lines[1].get_ydata()[0])
    html = found._repr_html_()
    assert "fedavg" in html and "paired t over 2 seeds" in html
    assert "local" in repr(found) and "best_round" in repr(found)
    assert ">adjusted</th>" not in compare(runs[:2])._repr_html_(), "one method has nothing to be tested against"


def test_the_table_is_one_of_latex_too() -> None:
    seeds = [finished([[10, 20 + seed, 0]], seed) for seed in range(3)]
    made = compare({"a_1 & b": seeds, "local": [finished([[5, 15, 0]], algorithm="local")]}).to_latex()
    comment, *lines = made.splitlines()
    assert (
        comment.startswith("% test accuracy in %, maximum over rounds")
        and "t, 3 seeds; bootstrap, 2 clients" in comment
    )
    assert lines[:3] == [
        r"\begin{tabular}{lrrrr}",
        r"\toprule",
        r" & accuracy (\%) & 95 \% interval & seeds & rounds \\",
    ]
    interval = t_interval([75.0, 77.5, 80.0])
    assert rf"a\_1 \& b & 77.50 $\pm$ 2.04 & {interval.low:.2f} to {interval.high:.2f} & 3 & 0 \\" in lines
    assert any(line.startswith("local & 50.00 & ") for line in lines), "one seed has no spread"


def test_latex_calls_methods_as_the_papers_do_where_no_labels_are_given() -> None:
    one = [finished([[5, 15, 0]], algorithm="fedavg+dbe", options=(("kappa", kappa),)) for kappa in (5.0, 50.0)]
    platform = finished([[5, 15, 0]], algorithm="apfl/platform")

    def names(*runs: Run) -> list[str]:
        return [line.partition(" & ")[0] for line in compare(runs).to_latex().splitlines() if " & 50.00 & " in line]

    assert names(*one, platform) == ["FedAvg+DBE, kappa=5.0", "FedAvg+DBE, kappa=50.0", "APFL"]
    assert names(finished([[5, 15, 0]], algorithm="apfl"), platform) == ["apfl", "apfl/platform"], "no title twice"


def test_only_finished_runs_can_be_compared() -> None:
    with pytest.raises(UserError, match="there are no runs to compare"):
        compare([])
    with pytest.raises(UserError, match="compare takes finished runs, not str 'fedavg'"):
        compare(["fedavg"])
    with pytest.raises(UserError, match="compare takes finished runs, not int 5"):
        compare(5)
    arrays = {"fedavg": {"correct": np.zeros((30, 30)), "loss": np.ones((30, 30))}}
    for wrong in (arrays, [arrays], {"fedavg": 5}, {"fedavg": np.zeros((30, 3))}):
        with pytest.raises(UserError, match=r"^compare takes finished runs, not (dict|int|ndarray) .{1,90}$"):
            compare(wrong)
    with pytest.raises(UserError, match="unknown selection rule 'best'"):
        compare([finished([[1, 1, 0]])], "best")
