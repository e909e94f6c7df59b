"""Runs that are not finished: how far each is, how good, and whether somebody trains it now."""

from __future__ import annotations

import logging
import math
import shutil
import time

import pytest
from helpers.breaking import Killed, break_in_round
from helpers.training import quick

from pflrepro.experiments.checkpoint import read_checkpoint
from pflrepro.experiments.identity import run_id
from pflrepro.experiments.pruning import prune
from pflrepro.experiments.store import Store


def stopped(experiment, rounds: int, store: Store, fake) -> None:
    """Train it until it is killed behind so many rounds."""
    fake.before_step = break_in_round(rounds, Killed())
    with pytest.raises(Killed):
        quick(experiment, store, fake)
    fake.before_step = None


def test_how_far_a_stopped_run_is_and_how_good(store: Store, fake, make) -> None:
    asked = make.experiment(rounds=9, patience=100)
    stopped(asked, 4, store, fake)
    shutil.copytree(store.folder(run_id(asked)), store.folder(f"{run_id(asked)}.damaged-1"))
    (found,) = store.unfinished()
    whole = quick(asked, store, fake)
    assert (found.id, found.experiment, found.round, found.trained) == (whole.id, asked, 4, False)
    assert found.accuracy == whole.curve[:5].max() and found.best_round == int(whole.curve[:5].argmax())
    spent = [each["seconds"] for each in whole.environment["attempts"]]
    assert found.seconds_per_round == pytest.approx(spent[0] / 4) and 0 <= time.time() - found.saved < 60
    line = found.line()
    assert line["round"] == "4 of at most 9" and line["now"] == "stopped" and line["saved"].endswith(" ago")
    assert line["best so far"] == f"{100 * found.accuracy:.2f} %, round {found.best_round}"
    assert store.unfinished() == Store(store.root / "none").unfinished() == []


def test_a_run_that_somebody_trains_is_said_to_be_trained(store: Store, fake, make) -> None:
    stopped(make.experiment(), 2, store, fake)
    id = run_id(make.experiment())
    lock = Store(store.root).lock(id)
    assert lock.acquire()
    assert [(each.id, each.line()["now"]) for each in store.unfinished()] == [(id, "is trained")]
    lock.release()
    assert [each.trained for each in store.unfinished()] == [False]


def test_a_run_before_its_first_checkpoint_stands_at_its_start(store: Store, fake, make) -> None:
    store.begin(run_id(make.experiment()), make.experiment(), {})  # with an identity that does not fit
    assert store.unfinished() == []
    store.withdraw(run_id(make.experiment()))
    fake.before_step = lambda simulation: seen.extend(store.unfinished())
    seen: list = []
    quick(make.experiment(rounds=1), store, fake)
    (found,) = seen
    assert (found.round, found.best_round, found.saved, found.trained) == (0, -1, None, True)
    assert math.isnan(found.accuracy) and math.isnan(found.seconds_per_round)
    assert [found.line()[name] for name in ("round", "best so far", "a round", "saved")] == ["0 of 1", "", "", ""]


def test_a_finished_run_that_grows_is_one_and_what_is_left_of_it_is_none(store: Store, fake, make) -> None:
    short = quick(make.experiment(rounds=3), store, fake)
    stopped(make.experiment(rounds=8), 5, store, fake)
    assert [(each.id, each.round) for each in store.unfinished()] == [(short.id, 5)]
    checkpoint = (short.folder / "checkpoint.npz").read_bytes()
    quick(make.experiment(rounds=8), store, fake)
    (short.folder / "checkpoint.npz").write_bytes(checkpoint)
    assert store.unfinished() == []


def test_a_checkpoint_that_counted_no_samples_says_how_far_alone(store: Store, fake, make, monkeypatch) -> None:
    monkeypatch.setattr(
        "pflrepro.experiments.training._attempts", lambda group, *more: [[{"seconds": 0.0}] for _ in group.jobs]
    )
    stopped(make.experiment(), 2, store, fake)
    (found,) = store.unfinished()
    assert math.isnan(found.accuracy) and found.line()["best so far"] == f"round {found.best_round}"


def test_it_is_said_how_many_rounds_were_asked_for_last(store: Store, fake, make) -> None:
    quick(make.experiment(rounds=2), store, fake)
    stopped(make.experiment(rounds=9, patience=5), 4, store, fake)
    (found,) = store.unfinished()
    assert found.experiment == make.experiment(rounds=9, patience=5) and found.line()["round"] == "4 of at most 9"


def test_a_stopped_run_stays_listed_and_is_not_pruned_when_a_shorter_one_was_made_meanwhile(store, fake, make) -> None:
    stopped(make.experiment(rounds=9), 6, store, fake)
    short = quick(make.experiment(rounds=3), store, fake)
    (found,) = store.unfinished()
    assert (found.id, found.round, found.experiment.settings.rounds) == (short.id, 6, 9)
    assert [freed.what for freed in prune(store, states=True)] == ["states after rounds 3"]
    fake.built.clear()
    quick(make.experiment(rounds=9), store, fake)
    assert [engine.steps for engine in fake.built] == [3] and store.unfinished() == []


def test_a_run_that_is_finished_while_it_is_looked_at_is_no_unfinished_one(store, fake, make, monkeypatch) -> None:
    stopped(make.experiment(), 2, store, fake)

    def finished_first(path, *names, **how):
        monkeypatch.undo()
        quick(make.experiment(), store, fake)
        return read_checkpoint(path, *names, **how)

    monkeypatch.setattr("pflrepro.experiments.unfinished.read_checkpoint", finished_first)
    assert store.unfinished() == []


def test_a_damaged_checkpoint_is_reported(store: Store, fake, make, caplog) -> None:
    stopped(make.experiment(), 2, store, fake)
    (path,) = store.root.glob("runs/*/checkpoint.npz")
    path.write_bytes(path.read_bytes()[:-5])
    with caplog.at_level(logging.WARNING):
        assert store.unfinished() == []
    assert "an unfinished run is left out: checkpoint.npz is not an npz archive" in caplog.text


def test_a_notebook_shows_them_as_a_table(store: Store, fake, make) -> None:
    assert store.unfinished()._repr_html_() == "<p>0 unfinished runs</p>"
    stopped(make.experiment(), 2, store, fake)
    shown = store.unfinished()
    assert shown._repr_html_().startswith("<p>1 unfinished run</p>") and ">2 of 4</td>" in shown._repr_html_()
    assert repr(shown).startswith("UnfinishedRuns(1)\n  Unfinished(id=")
