"""What goes from a store, by age and size."""

from __future__ import annotations

import os
import shutil
import time

import pytest

from pflrepro.errors import RunFailed, UserError
from pflrepro.experiments import compact
from pflrepro.experiments.pruning import leftovers, prune, repair
from pflrepro.experiments.run import run
from pflrepro.experiments.store import Store


@pytest.fixture
def aged(store, fake, make):
    """Four finished runs with a state each, and a half-done one: the first is 40 days old, the last new."""

    def stop(simulation):
        if simulation.seeds == [4] and simulation.round == 2:
            raise ValueError("enough")

    fake.before_step = stop
    runs = [run(make.experiment(seed=seed), store=store, simulate=fake, progress=False) for seed in range(4)]
    with pytest.raises(RunFailed):
        run(make.experiment(seed=4), store=store, simulate=fake, progress=False, checkpoint_every=0)
    (half,) = {path.name for path in (store.root / "runs").iterdir()} - {one.id for one in runs}
    ids = [*(one.id for one in runs), half]
    for id, days in zip(ids, (40, 30, 20, 10, 35), strict=True):
        for path in store.folder(id).iterdir():
            os.utime(path, (time.time() - 86_400 * days,) * 2)
    return ids


def bytes_of(store):
    return sum(path.stat().st_size for path in (store.root / "runs").rglob("*") if path.is_file())


def test_what_is_old_goes_and_what_somebody_trains_stays(store, aged):
    month = 86_400 * 25
    promised = prune(store, runs=True, older_than=month, dry_run=True)
    assert [(freed.id, freed.what) for freed in promised] == [
        (aged[0], "a run"),
        (aged[4], "a half-done run"),
        (aged[1], "a run"),
    ]
    before = bytes_of(store)
    lock = store.lock(aged[1])
    assert lock.acquire()
    assert prune(store, runs=True, older_than=month, dry_run=True) == promised[:2], "what is trained is not promised"
    assert aged[1] not in [freed.id for freed in prune(store, states=True, dry_run=True)]
    assert prune(store, runs=True, older_than=month) == promised[:2]
    lock.release()
    assert bytes_of(store) == before - sum(freed.size for freed in promised[:2])
    assert {one.id for one in store.runs()} == set(aged[1:4]) and not list((store.root / "runs").glob(".*"))
    assert [freed.id for freed in prune(store, states=True, older_than=86_400 * 15)] == aged[1:3]
    assert [len(store.states(id)) for id in aged[1:4]] == [0, 0, 1] and len(store.runs()) == 3


def test_a_store_is_brought_under_a_size_the_oldest_first_and_models_before_runs(store, aged):
    whole, states = bytes_of(store), [store.states(id)[4].stat().st_size for id in aged[:4]]
    promised = prune(store, states=True, runs=True, keep_under=whole - states[0] - 1, dry_run=True)
    assert [(freed.id, freed.what) for freed in promised] == [(id, "states after rounds 4") for id in aged[:2]]
    assert prune(store, states=True, keep_under=whole) == []
    assert prune(store, states=True, runs=True, keep_under=whole - states[0] - 1) == promised
    limit = bytes_of(store) // 2
    promised = prune(store, states=True, runs=True, keep_under=limit, dry_run=True)
    assert [freed.id for freed in promised][:3] == [*aged[2:4], aged[0]], (
        "the states that are left, then the oldest run"
    )
    assert prune(store, states=True, runs=True, keep_under=limit) == promised
    assert bytes_of(store) <= limit and store.get(aged[3]) is not None
    assert len(prune(store, runs=True, keep_under=0)) > 0 and bytes_of(store) == 0


def test_whole_runs_need_a_limit_and_a_limit_something_to_limit(store):
    with pytest.raises(UserError, match="give --older-than or --keep-under"):
        prune(store, runs=True)
    with pytest.raises(UserError, match="--states, --runs, or both"):
        prune(store, older_than=3.0)


def test_a_refused_run_leaves_no_folder(store, make, tmp_path):
    for changes in (
        {"clients": 100_000},
        {"model": "resnet18"},
        {"batch_size": 100_000},
        {"partition": "pathological:50"},
    ):
        with pytest.raises(UserError):
            run(make.seeds(0, 1, **changes), store=store, progress=False)
        assert list((store.root / "runs").iterdir()) == []


def test_a_refusal_takes_nothing_that_was_saved(store, fake, make):
    def refuse(simulation):
        if simulation.round == 2:
            raise UserError("no")

    fake.before_step = refuse
    with pytest.raises(UserError, match="no"):
        run(make.experiment(), store=store, simulate=fake, progress=False, checkpoint_every=0)
    assert len(list((store.root / "runs").glob("*/checkpoint.npz"))) == 1


def test_a_folder_with_nothing_to_go_on_from_goes_unless_somebody_trains_it(store, fake, make):
    def fail(simulation):
        raise ValueError("enough")

    def interrupt(simulation):
        raise KeyboardInterrupt

    fake.before_step = fail
    with pytest.raises(RunFailed):
        run(make.experiment(), store=store, simulate=fake, progress=False)
    assert not list((store.root / "runs").iterdir()), "what broke before anything was saved was not begun"
    fake.before_step = interrupt
    with pytest.raises(KeyboardInterrupt):
        run(make.experiment(), store=store, simulate=fake, progress=False)
    (folder,) = (store.root / "runs").iterdir()
    lock = store.lock(folder.name)
    assert lock.acquire() and repair(store) == [] and prune(store) == []
    lock.release()
    assert [freed.id for freed in prune(store, dry_run=True)] == [folder.name]
    assert repair(store) == [f"the folder, with nothing to go on from, of run {folder.name} is removed"]
    assert not folder.exists() and store.unfinished() == []


def test_the_models_of_a_shipped_run_can_go(store, fake, make, tmp_path):
    made = run(make.experiment(), store=store, simulate=fake, progress=False)
    behind = Store(tmp_path / "empty", behind=tmp_path / "runs")
    compact.export(made, behind.behind)
    behind.begin(made.id, made.experiment, made.identity)
    behind.keep_state(made.id, store.state(made.id, 4))  # as after a look into its models
    assert behind.unfinished() == [] and store.unfinished() == []
    whole = prune(behind, runs=True, keep_under=0, dry_run=True)
    assert [freed.what for freed in whole] == ["models of a shipped run"]
    assert [freed.what for freed in prune(behind, states=True)] == ["states after rounds 4"]
    assert not behind.states(made.id)


def test_leftovers_of_killed_processes_are_found_and_removed(finished, store, make, fake):
    half = [finished.folder / ".done.12.ab.tmp", store.root / "runs" / f".{'0' * 16}.ab.tmp"]
    half[0].write_bytes(b"12")
    half[1].mkdir()
    (half[1] / "config.json").write_bytes(b"123")
    replaced = finished.folder / "history-00000000.npz"
    replaced.write_bytes(b"1")
    checkpoint = finished.folder / "checkpoint.npz"
    shutil.copy(finished.folder / "state-4.npz", checkpoint)
    junk = [*half, replaced, checkpoint]
    with_lock = store.lock(finished.id)
    assert with_lock.acquire()
    assert [freed.id for freed in leftovers(store, remove=True)] == ["0" * 16], "what somebody trains is left alone"
    with_lock.release()
    found = leftovers(store)
    assert {freed.what for freed in found} == {
        "a half-written file",
        "a replaced result",
        "the checkpoint of a finished run",
    }
    assert all(path.exists() for path in junk if path != half[1]) and not half[1].exists()
    assert prune(store, dry_run=True) == found == leftovers(store, remove=True)
    assert not any(path.exists() for path in junk) and leftovers(store) == []
    assert len(store.runs()) == 1 and list(store.states(finished.id)) == [4]


def test_the_checkpoint_of_a_run_that_grows_is_no_leftover(finished, store, make, fake):
    fake.before_step = lambda simulation: (_ for _ in ()).throw(KeyboardInterrupt) if simulation.round == 6 else None
    with pytest.raises(KeyboardInterrupt):
        run(make.experiment(rounds=9), store=store, simulate=fake, progress=False, checkpoint_every=0)
    assert (finished.folder / "checkpoint.npz").exists() and leftovers(store) == []
