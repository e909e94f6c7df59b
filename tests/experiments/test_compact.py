"""Runs without states and what was measured on them: they answer without the store that made them, and damage is reported."""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import differing
from helpers.training import quick

from pflrepro.errors import CorruptFile
from pflrepro.experiments import compact, readings
from pflrepro.experiments.checkpoint import Checkpoint
from pflrepro.experiments.files import npz_bytes, read_npz, write
from pflrepro.experiments.history import NO_LOSS, agree, check_history, shortened
from pflrepro.experiments.readings import Question
from pflrepro.experiments.store import Store

ASKED = Question("points", 4, (("layer", "base"), ("seeds", [0, 1])), revision=2)
POINTS = {"x": np.arange(6.0).reshape(3, 2), "label": np.array([0, 1, 1])}


def never() -> dict[str, Any]:
    raise AssertionError("measured again")


@pytest.fixture
def shipped(store: Store, fake, make, tmp_path: Path) -> Store:
    """A store with nothing in it, behind which lies a run of ten rounds, tested every second, with a reading."""
    made = quick(make.experiment(rounds=10, every=2), store, fake)
    store.reading(made, ASKED, lambda: POINTS)
    compact.export(made, tmp_path / "runs")
    shutil.rmtree(store.root)
    fake.built.clear()
    return Store(tmp_path / "empty", behind=tmp_path / "runs")


def file_of(store: Store) -> Path:
    (path,) = store.behind.glob("*.npz")
    return path


def test_the_runs_that_came_with_the_package_are_listed_but_damaged_ones(shipped: Store, caplog) -> None:
    (id,) = [run.id for run in shipped.shipped()]
    assert shipped.shipped().select(algorithm="fedavg").frame()["tested_rounds"].tolist() == [10] and not shipped.runs()
    shutil.copy(file_of(shipped), shipped.behind / "0123456789abcdef.npz")  # a run by another one's name
    with caplog.at_level(logging.WARNING):
        assert [run.id for run in shipped.shipped()] == [id] and "damaged and left out" in caplog.text


# ---- readings -------------------------------------------------------------------------------------------------------------------
def test_a_measurement_is_made_once_for_every_question(store: Store, fake, make) -> None:
    made = quick(make.experiment(), store, fake)
    first = store.reading(made, ASKED, lambda: {"x": [1, 2], "label": 3.5})
    again = store.reading(made, ASKED, never)
    assert differing(first, again) == [] and again["x"].tolist() == [1, 2] and again["label"] == 3.5
    others = [
        Question("points", 4, (("layer", "base"), ("seeds", [0, 1])), revision=3),
        Question("points", 3, ASKED.options, revision=2),
        Question("points", 4, (("layer", "head"), ("seeds", [0, 1])), revision=2),
    ]
    for number, other in enumerate(others):
        assert store.reading(made, other, lambda number=number: {"x": number})["x"] == number
    assert store.readings(made) == sorted([ASKED, *others], key=lambda each: (each.round, each.text))
    assert Question("points", 4, (("seeds", [0, 1]), ("layer", "base")), revision=2).file == ASKED.file


def test_a_reading_outlives_the_growth_of_its_run(store: Store, fake, make) -> None:
    made = quick(make.experiment(), store, fake)
    store.reading(made, ASKED, lambda: POINTS)
    grown = quick(make.experiment(rounds=9), store, fake)
    assert differing(store.reading(grown, ASKED, never), POINTS) == []


@pytest.mark.parametrize("harm", ["truncated", "another"])
def test_a_damaged_reading_is_reported_and_taken_again(harm: str, store: Store, fake, make, caplog) -> None:
    made = quick(make.experiment(), store, fake)
    store.reading(made, ASKED, lambda: POINTS)
    path = made.folder / readings.FOLDER / ASKED.file
    if harm == "another":
        other = Question("points", 3)
        store.reading(made, other, lambda: POINTS)
        shutil.copy(made.folder / readings.FOLDER / other.file, path)
    else:
        path.write_bytes(path.read_bytes()[:-30])
        assert store.readings(made) == []
    with caplog.at_level(logging.WARNING):
        assert store.reading(made, ASKED, lambda: {"x": 1})["x"] == 1
    assert "damaged and taken again" in caplog.text
    assert store.reading(made, ASKED, never)["x"] == 1


# ---- compact runs ---------------------------------------------------------------------------------------------------------------
LOSSES = ("loss", "train_loss", "objective")


def kept(name: str, array: np.ndarray) -> np.ndarray:
    """An array of a history as a committed run has it."""
    return shortened(array) if name in LOSSES else array.astype(np.float32) if array.dtype.kind == "f" else array


def test_it_holds_the_whole_run_in_one_small_file(store: Store, fake, make, tmp_path: Path) -> None:
    made = quick(make.experiment(rounds=10), store, fake)
    path = compact.export(made, tmp_path / "runs")
    assert path == tmp_path / "runs" / f"{made.id}.npz" and path.stat().st_size < 20_000
    found = compact.read(path)
    assert (found.id, found.identity, found.experiment, found.folder) == (made.id, made.identity, made.experiment, path)
    assert {name: (array.dtype, array.shape) for name, array in found.history.items()} == {
        name: (array.dtype, array.shape) for name, array in made.history.items()
    }
    for name, array in made.history.items():
        np.testing.assert_array_equal(found.history[name], kept(name, array))
    assert "attempts" not in found.environment and found.environment["versions"] == made.environment["versions"]
    before = path.read_bytes()
    compact.export(made, tmp_path / "runs")
    compact.export(found, tmp_path / "again")
    assert path.read_bytes() == before == (tmp_path / "again" / path.name).read_bytes()


def test_an_objective_that_is_the_training_loss_is_kept_once(store: Store, fake, make, tmp_path: Path) -> None:
    made = quick(make.experiment(), store, fake)
    plain = replace(made, history=made.history | {"objective": made.history["train_loss"]})
    found = [compact.export(each, tmp_path / name) for name, each in (("two", made), ("one", plain))]
    assert ["history/objective" in read_npz(path) for path in found] == [True, False]
    for path, run_ in zip(found, (made, plain), strict=True):
        expected = shortened(run_.history["objective"])
        np.testing.assert_array_equal(compact.read(path).history["objective"], expected)


def a_history(tests: int, diverged: bool = False) -> dict[str, np.ndarray]:
    """Tests of three clients, the 18th of them the best."""
    rng = np.random.default_rng(0)
    loss, train, objective = rng.uniform(1, 2, (3, tests, 3))
    loss[40, 1] = np.inf if diverged else 1.5
    train[0] = objective[0] = np.nan
    correct = np.tile(np.minimum(np.arange(tests), 4), (3, 1)).T
    correct[17] = 5
    counts = {"correct": correct, "correct_after": correct, "participated": correct > 0}
    times = dict.fromkeys(("seconds", "seconds_aggregation", "seconds_evaluation"), np.full(tests, 0.5))
    sizes = dict.fromkeys(("test_samples", "train_samples"), np.array([8, 9, 10]))
    losses = {"loss": loss, "train_loss": train, "objective": objective}
    return check_history({"round": np.arange(tests), **losses, **counts, **times, **sizes})


def test_of_a_long_run_the_losses_of_some_tests_are_kept_and_all_accuracies(store: Store, fake, make, tmp_path) -> None:
    quickly = quick(make.experiment(), store, fake)
    asked = quickly.experiment.with_settings(rounds=249, every=1)
    made = replace(quickly, experiment=asked, history=a_history(250))
    path = compact.export(made, tmp_path / "runs")
    found = compact.read(path)
    tests = np.flatnonzero(found.history["loss"][:, 0] != NO_LOSS)
    assert tests.tolist() == sorted([*range(0, 250, 5), 17, 249]), "every fifth, the best and the last"
    for name, array in made.history.items():
        rows = tests if name in LOSSES else slice(None)
        np.testing.assert_array_equal(found.history[name][rows], kept(name, array)[rows])
    lost = np.setdiff1d(np.arange(250), tests)
    assert np.isnan(found.history["train_loss"][lost]).all() and np.isnan(found.history["objective"][lost]).all()
    assert np.isnan(found.history.tests()["loss"][lost]).all() and found.diverged is None
    frame = found.history.frame()
    assert frame["loss"].isna().sum() == 3 * len(lost) and frame["loss"].min() > 0
    assert agree(found.history, made.history) and agree(made.history, found.history)
    assert not agree(found.history, made.history | {"loss": made.history["loss"] * 1.01})
    before = path.read_bytes()
    compact.export(made, tmp_path / "runs")
    compact.export(found, tmp_path / "again")
    assert path.read_bytes() == before == (tmp_path / "again" / path.name).read_bytes()


@pytest.mark.parametrize(("tests", "diverged"), [(99, False), (250, True)])
def test_all_losses_are_kept_of_a_shorter_run_and_of_one_that_came_apart(
    tests: int, diverged: bool, store: Store, fake, make, tmp_path
) -> None:
    made = replace(quick(make.experiment(), store, fake), history=a_history(tests, diverged))
    found = compact.read(compact.export(made, tmp_path / "runs"))
    np.testing.assert_array_equal(found.history["loss"], shortened(made.history["loss"]))
    assert (found.diverged is not None) == diverged


def test_it_answers_requests_and_readings_without_the_original_store(shipped: Store, fake, make) -> None:
    found = quick(make.experiment(rounds=10, every=2), shipped, fake)
    assert quick(make.experiment(rounds=6, every=2), shipped, fake).history["round"].tolist() == [0, 2, 4, 6]
    assert shipped.find(make.experiment(rounds=8, every=4)).history["round"].tolist() == [0, 4, 8]
    assert fake.built == [] and shipped.made == set() and not shipped.root.exists()
    assert differing(shipped.reading(found, ASKED, never), POINTS) == [] and shipped.readings(found) == [ASKED]
    assert shipped.get(found.id) is None and shipped.get(found.id[:12]).id == found.id


def test_readings_made_anew_and_those_that_came_along_are_exported_together(
    shipped: Store, fake, make, tmp_path
) -> None:
    found = quick(make.experiment(rounds=10, every=2), shipped, fake)
    other = Question("points", 10)
    shipped.folder(found.id).mkdir(parents=True)  # as what looks at its models does, which it trains there anew
    shipped.reading(found, other, lambda: {"x": 1})
    path = compact.export(found, tmp_path / "figures", shipped.folder(found.id))
    assert compact.questions(path) == [other, ASKED]
    compact.export(found, shipped.behind, shipped.folder(found.id))
    assert (shipped.behind / path.name).read_bytes() == path.read_bytes()


def test_what_was_measured_on_a_shipped_run_is_not_kept_for_one_that_is_trained_here(shipped: Store, make) -> None:
    found = shipped.find(make.experiment(rounds=10, every=2))
    shipped.folder(found.id).mkdir(parents=True)  # as while it is trained on
    assert differing(shipped.reading(found, ASKED, never), POINTS) == []
    assert readings.questions(shipped.folder(found.id)) == []


def test_what_a_look_left_that_is_not_of_the_training_that_comes_goes(shipped: Store, fake, make, tmp_path) -> None:
    found, other = shipped.find(make.experiment(rounds=10, every=2)), Store(tmp_path / "other", behind=tmp_path / "no")
    quick(make.experiment(rounds=6, every=2), other, fake, keep=(4,))
    shipped.begin(found.id, found.experiment, found.identity)
    for round, elsewhere in ((4, 0.0), (6, 1.0)):
        state = other.state(found.id, round).state
        looked = {**state, "history/loss": state["history/loss"] + elsewhere}
        shipped.keep_state(found.id, Checkpoint(round, looked))
    shipped.reading(found, Question("points", 6), lambda: {"x": 1})
    made = quick(make.experiment(rounds=5), shipped, fake)
    assert fake.built[-1].steps == 5 and list(shipped.states(made.id)) == [4, 5]
    assert readings.questions(made.folder) == []


def test_what_it_cannot_answer_is_trained_and_then_both_are_used(shipped: Store, fake, make) -> None:
    longer = quick(make.experiment(rounds=12, every=2), shipped, fake)
    finer = quick(make.experiment(rounds=3), shipped, fake)
    assert [one.steps for one in fake.built] == [12, 3]
    assert longer.folder == finer.folder == shipped.folder(longer.id)
    assert differing(shipped.reading(longer, ASKED, never), POINTS) == []
    other = Question("points", 12)
    shipped.reading(longer, other, lambda: {"x": 1})
    assert shipped.readings(longer) == [ASKED, other]


def test_states_are_not_in_it_so_that_who_wants_one_trains(shipped: Store, fake, make) -> None:
    made = quick(make.experiment(rounds=10, every=2), shipped, fake, keep=(4,))
    assert [one.steps for one in fake.built] == [10] and list(shipped.states(made.id)) == [4, 10]


@pytest.mark.parametrize("harm", ["truncated", "empty", "renamed", "no run"])
def test_a_damaged_file_is_reported_and_left_out(harm: str, shipped: Store, fake, make, caplog) -> None:
    path = file_of(shipped)
    if harm == "renamed":
        other = make.experiment(seed=1, rounds=10, every=2)
        from pflrepro.experiments.identity import run_id

        path.rename(path.with_name(f"{run_id(other)}.npz"))
    else:
        other = make.experiment(rounds=10, every=2)
        path.write_bytes(path.read_bytes()[:-30] if harm == "truncated" else b"")
        if harm == "no run":
            np.savez(path, run=np.frombuffer(b'{"id": 1}', np.uint8))
    with caplog.at_level(logging.WARNING):
        made = quick(other, shipped, fake)
    assert "came with the package is damaged and left out" in caplog.text
    assert [one.steps for one in fake.built] == [10] and made.folder.is_dir()
    with pytest.raises(CorruptFile):
        compact.read(file_of(shipped))
    assert shipped.reading(made, ASKED, lambda: {"x": 1})["x"] == 1
    fixed = compact.read(compact.export(made, shipped.behind))
    np.testing.assert_array_equal(fixed.history["correct"], made.history["correct"])


def test_a_shorter_request_or_another_store_takes_nothing_away(shipped: Store, fake, make) -> None:
    path = file_of(shipped)
    before = path.read_bytes()
    short = shipped.find(make.experiment(rounds=4, every=2))
    assert compact.export(short, shipped.behind) == path and path.read_bytes() == before
    finer = quick(make.experiment(rounds=5), shipped, fake)
    shipped.reading(finer, Question("more", 5), lambda: {"x": 1})
    whole = compact.read(compact.export(finer, shipped.behind))
    assert whole.history["round"].tolist() == [0, 1, 2, 3, 4, 5, 6, 8, 10]
    names = {question.name for question in compact.questions(path)}
    assert names == {"points", "more"} and differing(compact.reading(path, ASKED), POINTS) == []
    for rounds, every in ((10, 2), (5, 1), (4, 4)):
        assert whole.answering(make.experiment(rounds=rounds, every=every)) is not None


def test_a_run_that_the_stop_rule_ended_is_the_same_file_in_any_order_of_requests(store: Store, fake, make, tmp_path):
    made = quick(make.experiment(rounds=400, patience=3), store, fake)
    assert made.rounds < 200
    asked = [store.find(make.experiment(rounds=rounds, patience=3)) for rounds in (400, 200)]
    for name, order in (("one", asked), ("other", asked[::-1])):
        (path,) = {compact.export(run, tmp_path / name) for run in order}
        assert compact.read(path).experiment.settings.rounds == 400
    assert (tmp_path / "one" / path.name).read_bytes() == path.read_bytes()


def test_a_file_older_than_a_setting_stays_as_it_is(shipped: Store, fake, make) -> None:
    path = file_of(shipped)
    arrays = read_npz(path)
    described = json.loads(arrays["run"].tobytes())
    del described["experiment"]["settings"]["closing"]  # as if written before there was this setting
    arrays["run"] = np.frombuffer(json.dumps(described, sort_keys=True).encode(), np.uint8)
    write(path, npz_bytes(arrays, compress=True))
    before = path.read_bytes()
    again = quick(make.experiment(rounds=10, every=2), shipped, fake)
    compact.export(again, path.parent)
    assert path.read_bytes() == before
    longer = quick(make.experiment(rounds=12, every=2), shipped, fake)
    compact.export(longer, path.parent)
    assert compact.read(path).rounds == 12


def test_a_damaged_reading_does_not_keep_a_run_from_being_exported(store: Store, fake, make, tmp_path, caplog) -> None:
    made = quick(make.experiment(), store, fake)
    for name in ("good", "bad"):
        store.reading(made, Question(name, 1), lambda: POINTS)
    (made.folder / readings.FOLDER / Question("bad", 1).file).write_bytes(b"")
    with caplog.at_level(logging.WARNING):
        path = compact.export(made, tmp_path / "runs")
    assert "damaged and left out" in caplog.text
    assert compact.questions(path) == [Question("good", 1)] and "run" in read_npz(path)


def test_of_two_trainings_no_reading_stands_beside_the_other_ones_numbers(shipped: Store, fake, make, caplog) -> None:
    path = file_of(shipped)
    theirs = compact.read(path)
    ours = replace(theirs, history=dict(theirs.history) | {"loss": theirs.history["loss"] + 1.0})
    shorter = replace(ours.answering(make.experiment(rounds=8, every=2)), folder=shipped.folder(ours.id))
    assert compact.export(shorter, path.parent) == path and compact.read(path).rounds == 10
    assert "the longer one that is in" in caplog.text and compact.reading(path, ASKED) is not None
    mine = replace(ours, folder=shipped.folder(ours.id))
    shipped.begin(ours.id, ours.experiment, ours.identity)
    assert shipped.readings(mine) == [] and shipped.readings(theirs) == [ASKED]
    assert shipped.reading(mine, ASKED, lambda: {"x": np.zeros(1)})["x"].tolist() == [0]
    shipped.finish(ours.id, ours.experiment, ours.history, {})
    assert shipped.reading(theirs, ASKED, never)["x"].tolist() == POINTS["x"].tolist(), "not ours, which lies here"
    assert not shipped.holds(theirs) and shipped.holds(mine)
    compact.export(mine, path.parent)
    np.testing.assert_allclose(compact.read(path).history["loss"], shortened(ours.history["loss"]))
    assert compact.reading(path, ASKED)["x"].tolist() == [0]
