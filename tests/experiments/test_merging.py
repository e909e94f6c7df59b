"""Two stores become one: the longer and whole run stays, nothing is made of two trainings, and what is repeated changes nothing."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.breaking import break_in_round
from helpers.runs import put
from helpers.training import quick

from pflrepro.errors import UserError
from pflrepro.experiments import compact
from pflrepro.experiments.merging import Merged, merge
from pflrepro.experiments.readings import Question
from pflrepro.experiments.store import Store

ASKED = Question("points", 4)


@pytest.fixture
def other(tmp_path: Path) -> Store:
    return Store(tmp_path / "other", behind=tmp_path / "nothing")


def broken_after_six(experiment, store: Store, fake) -> None:
    """Train it, saved after every round, until the one behind the sixth breaks."""
    fake.before_step = break_in_round(6, ValueError("enough"))
    with pytest.raises(Exception, match="enough"):
        quick(experiment, store, fake, checkpoint_every=0)
    fake.before_step = None


def content(store: Store) -> dict[str, bytes]:
    files = [path for path in (store.root / "runs").rglob("*") if path.is_file()]
    return {str(path.relative_to(store.root)): path.read_bytes() for path in files}


def told(found) -> list[tuple[str, int]]:
    return [(merged.what, merged.files) for merged in found]


def test_runs_of_two_machines_become_one_store(store, other, fake, make):
    here, there = make.seeds(0, 1), make.seeds(1, 2, 3)
    quick(here, store, fake)
    made = quick(there, other, fake)
    other.reading(made[1], ASKED, lambda: {"x": np.arange(3)})
    before, built = content(other), len(fake.built)
    assert sorted(told(merge(store, other.root))) == [("kept", 0), ("taken", 1), ("taken", 2)]
    assert content(other) == before
    runs = quick([*here, *there[1:]], store, fake)
    assert len(fake.built) == built, "nothing is trained again"
    assert make.same_but_timings(runs[2].history, made[1].history)
    assert [len(found) for found in store.health()] == [4, 0, 0]
    assert store.reading(runs[2], ASKED, lambda: pytest.fail("measured again"))["x"].tolist() == [0, 1, 2]
    after = content(store)
    assert told(merge(store, other.root)) == [("kept", 0)] * 3, "repeated, it changes nothing"
    assert content(store) == after
    quick(make.seeds(2, rounds=6), store, fake)
    assert fake.built[-1].steps == 2, "what was taken grows from its last state"


def test_the_longer_run_stays_whole_and_with_its_state(store, other, fake, make):
    short, long = make.seeds(0, 1), make.seeds(0, 1, rounds=7)
    quick([short[0], long[1]], store, fake)
    made = quick([long[0], short[1]], other, fake)
    assert sorted(what for what, _ in told(merge(store, other.root))) == ["kept", "replaced"]
    steps = [built.steps for built in fake.built]
    runs = quick(long, store, fake)
    assert [built.steps for built in fake.built] == steps
    assert make.same_but_timings(runs[0].history, made[0].history)
    assert {4, 7} <= set(store.states(runs[0].id)), "the numbers agree: the states of both stay"


def test_other_numbers_are_not_mixed(store, other, make):
    short, long = make.experiment(), make.experiment(rounds=6)
    here = put(store, short, 10, 20, 30, 40, 50)
    store.reading(here, ASKED, lambda: {"x": np.zeros(1)})
    there = put(other, long, 11, 21, 31, 41, 51, 61, 71)
    other.reading(there, ASKED, lambda: {"x": np.ones(1)})
    assert told(merge(store, other.root)) == [("replaced", 1)]
    found = store.get(here.id)
    assert found.history["correct"].sum(1).tolist() == [11, 21, 31, 41, 51, 61, 71]
    assert store.reading(found, ASKED, lambda: pytest.fail("measured again"))["x"] == [1]
    equally = put(Store(other.root.with_name("third")), long, 12, 22, 32, 42, 52, 62, 72)
    before = content(store)
    assert told(merge(store, equally.folder.parents[1])) == [("kept", 0)] and content(store) == before


def test_the_intact_run_wins_and_a_damaged_source_is_reported(store, other, fake, make):
    first, second = quick(make.seeds(0, 1), store, fake)
    quick(make.seeds(0, 1, 2), other, fake)
    for damaged in (first.folder, other.folder(second.id)):
        file = next(damaged.glob("history-*"))
        file.write_bytes(file.read_bytes()[:-20])
    before = content(other)
    found = {merged.id: merged for merged in merge(store, other.root)}
    assert found[first.id].what == "taken"
    assert found[second.id] == Merged(second.id, "damaged", f"{file.name} is not what was written")
    assert content(other) == before
    assert len(store.runs()) == 3 and store.get(second.id) is not None
    assert [path.name for path in (store.root / "runs").glob("*.damaged-*")] == [f"{first.id}.damaged-1"]


def test_a_half_done_run_gives_way_but_keeps_how_far_it_is(store, other, fake, make):
    broken_after_six(make.experiment(rounds=9), store, fake)
    made = quick(make.experiment(), other, fake)
    assert [what for what, _ in told(merge(store, other.root))] == ["taken"]
    assert set(store.states(made.id)) == {4, 6}
    broken_after_six(make.experiment(seed=7, rounds=9), other, fake)
    assert [what for what, _ in told(merge(store, other.root))] == ["kept"], "what is half done there stays there"


def test_a_longer_training_that_was_stopped_outlives_a_merge(store, other, fake, make):
    """Done at three rounds, stopped at six on the way to nine; of four rounds elsewhere."""
    quick(make.experiment(rounds=3), store, fake)
    broken_after_six(make.experiment(rounds=9), store, fake)
    made = quick(make.experiment(rounds=4), other, fake)
    assert [what for what, _ in told(merge(store, other.root))] == ["replaced"]
    assert 6 in store.states(made.id) and store.get(made.id).rounds == 4


def test_a_run_with_a_horizon_that_the_stop_rule_ended_gives_way_to_the_whole(store, other, fake, make, monkeypatch):
    monkeypatch.setattr("pflrepro.experiments.training.LOOK_EVERY", 0)  # the rule ends it at once
    asked = {"rounds": 24, "closing": True, "participation": 0.4}
    short = quick(make.experiment(patience=1, **asked), store, fake)
    for patience in (1, 0):
        whole = quick(make.experiment(patience=patience, **asked), other, fake)
    assert store.get(short.id).rounds < 24 == whole.rounds
    assert [merged.what for merged in merge(store, other.root)] == ["replaced"]
    assert store.get(short.id).rounds == 24
    assert [merged.what for merged in merge(store, other.root)] == ["kept"]


def test_a_run_of_another_version_here_stays_and_does_not_stop_the_others(store, other, fake, make):
    runs = sorted(quick(make.seeds(0, 1, 2), other, fake), key=lambda one: one.id)
    quick([runs[0].experiment], store, fake)
    config = store.folder(runs[0].id) / "config.json"
    config.write_text(config.read_text().replace('"format": 2', '"format": 3'))
    done = json.loads((store.folder(runs[0].id) / "done").read_text())
    done["files"]["config.json"] = hashlib.sha256(config.read_bytes()).hexdigest()
    (store.folder(runs[0].id) / "done").write_text(json.dumps(done))
    found = list(merge(store, other.root))
    assert [merged.what for merged in found] == ["unreadable", "taken", "taken"]
    assert "is of another version of pflrepro" in found[0].reason


def test_a_run_that_somebody_trains_is_left(store, other, fake, make):
    made = quick(make.experiment(), other, fake)
    for holder in (store, other):
        lock = holder.lock(made.id)
        assert lock.acquire()
        assert told(merge(store, other.root)) == [("busy", 0)] and store.get(made.id) is None
        lock.release()
    assert [what for what, _ in told(merge(store, other.root))] == ["taken"]


def test_a_full_disk_leaves_nothing_half_written_and_a_repeat_goes_on(store, other, fake, make, monkeypatch):
    quick(make.seeds(0, 1), other, fake)
    replace, room = os.replace, [0]

    def full(source, target):
        room[0] -= 1
        if room[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    for writes in range(9):
        room[0] = writes
        with pytest.raises(UserError, match="No space left"):
            list(merge(store, other.root))
        assert not store.health().damaged and not list((store.root / "runs").rglob(".*.tmp"))
        shutil.rmtree(store.root)
    monkeypatch.setattr(os, "replace", replace)
    assert [what for what, _ in told(merge(store, other.root))] == ["taken", "taken"]


@pytest.mark.parametrize("numbers", [(10, 20, 30, 40, 50), (11, 21, 31, 41, 51)])
def test_models_of_a_shipped_run_do_not_answer_for_other_numbers(numbers, store, other, make, tmp_path):
    shipped = put(store, make.experiment(), 10, 20, 30, 40, 50)
    here = Store(tmp_path / "here", behind=tmp_path / "shipped")
    compact.export(shipped, here.behind)
    here.begin(shipped.id, shipped.experiment, shipped.identity)
    here.reading(here.compact(shipped.id), ASKED, lambda: {"x": np.zeros(1)})
    assert here.looked_into(shipped.id)
    other.reading(put(other, make.experiment(), *numbers), ASKED, lambda: {"x": np.ones(1)})
    assert [what for what, _ in told(merge(here, other.root))] == ["taken"]
    assert here.reading(here.get(shipped.id), ASKED, lambda: pytest.fail("measured again"))["x"] == [1]


def test_a_merge_that_is_stopped_leaves_no_history_with_the_readings_of_another(store, other, make, monkeypatch):
    here = put(store, make.experiment(), 10, 20, 30, 40, 50)
    store.reading(here, ASKED, lambda: {"x": np.zeros(1)})
    there = put(other, make.experiment(rounds=6), 11, 21, 31, 41, 51, 61, 71)
    other.reading(there, ASKED, lambda: {"x": np.ones(1)})

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Store, "finish", stopped)
    with pytest.raises(KeyboardInterrupt):
        list(merge(store, other.root))
    found = store.get(here.id)
    assert found.history["correct"].sum(1).tolist() == [10, 20, 30, 40, 50] and not store.readings(found)


def test_what_is_no_other_store_is_refused(store, fake, make, tmp_path):
    quick(make.experiment(), store, fake)
    with pytest.raises(UserError, match="no run store at"):
        list(merge(store, tmp_path / "absent"))
    with pytest.raises(UserError, match="not merged with itself"):
        list(merge(store, store.root))
