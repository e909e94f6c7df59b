"""The run store: what is damaged is reported, set aside and redone; what another process uses is left alone."""

from __future__ import annotations

import builtins
import errno
import hashlib
import io
import json
import logging
import os
import platform
import re
import shutil
import warnings

import numpy as np
import pytest

from pflrepro.errors import UserError
from pflrepro.experiments import compact
from pflrepro.experiments.files import read_json
from pflrepro.experiments.pruning import repair
from pflrepro.experiments.readings import Question
from pflrepro.experiments.run import run
from pflrepro.experiments.store import Store

ALL = ("config.json", "history", "record", "done")


def file_of(run, name: str):
    """A file of a run by what it is, or by its name."""
    return run.folder / read_json(run.folder / "done").get(name, name)


def test_a_run_is_one_folder_and_nothing_else(finished, store):
    assert finished.folder == store.folder(finished.id)
    assert {path.name for path in finished.folder.iterdir()} == {
        *(file_of(finished, name).name for name in ALL),
        "state-4.npz",
    }
    assert [path.name for path in (store.root / "runs").iterdir()] == [finished.id]
    assert read_json(finished.folder / "config.json")["identity"]["fingerprint"] == finished.fingerprint
    assert set(read_json(finished.folder / "done")["files"]) == {file_of(finished, name).name for name in ALL[:3]}


def test_what_is_found_is_what_was_made(finished, store, make):
    found = store.find(make.experiment())
    assert found.id == finished.id
    assert found.experiment == make.experiment()
    assert found.environment == finished.environment
    for name, array in finished.history.items():
        np.testing.assert_array_equal(found.history[name], array)
    assert store.find(make.experiment(seed=1)) is None
    assert [one.id for one in store.runs()] == [finished.id]
    assert [len(found) for found in store.health()] == [1, 0, 0]


def test_the_runs_that_were_made_here_are_known(finished, store, make):
    assert store.made == {finished.id}
    other = Store(store.root)
    assert run(make.experiment(), store=other, progress=False).id == finished.id
    assert other.made == set(), "found, not made"


def test_a_run_is_found_by_the_beginning_of_its_id(finished, store, make, fake):
    others = run(make.seeds(1, 2), store=store, simulate=fake, progress=False)
    ids = sorted(one.id for one in (finished, *others))
    assert store.matching("") == ids and store.matching(finished.id) == [finished.id]
    assert store.matching("x") == store.matching("*") == Store(store.root / "none").matching("") == []
    shutil.copytree(finished.folder, store.root / "runs" / f"{finished.id}.damaged-1")
    compact.export(others[0], store.behind)
    shutil.rmtree(others[0].folder)
    assert store.matching("") == ids, "one is kept without states, a damaged one does not count"
    for one in (finished, *others):
        lengths = [n for n in range(16) if len(store.matching(one.id[:n])) == 1]
        assert {store.get(one.id[:n]).id for n in lengths} == {one.id}
    assert store.get(others[0].id) is None, "a whole id is looked for here alone"
    with pytest.raises(UserError, match=f"3 runs begin with '': {', '.join(ids)}; give more digits"):
        store.get("")
    with pytest.raises(UserError, match="a run's id is a text of 16 hex digits, or how it begins, not 5"):
        store.get(5)
    with pytest.raises(UserError, match="no run begins with 'xyz' among the 3 of"):
        store.get("xyz")


def truncate(path):
    path.write_bytes(path.read_bytes()[:-5])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def garble(path):
    path.write_text('{"format": 1')


def empty(path):
    path.write_bytes(b"")


def remove(path):
    path.unlink()


@pytest.mark.parametrize("harm", [truncate, flip, garble, empty, remove])
@pytest.mark.parametrize("name", ALL)
def test_damage_is_reported_set_aside_and_redone(name, harm, finished, store, make, fake, caplog):
    harm(file_of(finished, name))
    history = {key: array.copy() for key, array in finished.history.items()}
    with caplog.at_level(logging.WARNING):
        again = run(make.experiment(), store=store, simulate=fake, progress=False)
    assert len(fake.built) == 2
    assert make.same_but_timings(again.history, history)
    # Without its mark a run is not finished: it starts afresh in the same folder. Else the old folder is kept for inspection.
    aside = store.folder(f"{finished.id}.damaged-1")
    assert aside.exists() == ((name, harm) != ("done", remove))
    (message,) = [record.getMessage() for record in caplog.records]
    assert finished.id in message
    assert "\n" not in message
    assert [len(found) for found in store.health()] == [1, 0, 0]
    assert [one.id for one in store.runs()] == [finished.id]


def test_every_damaged_folder_keeps_its_own_name(finished, store, make, fake):
    for number in (1, 2, 3):
        truncate(file_of(finished, "history"))
        run(make.experiment(), store=store, simulate=fake, progress=False)
        assert store.folder(f"{finished.id}.damaged-{number}").is_dir()


def test_looking_at_all_runs_reports_damage_and_changes_nothing(finished, store, caplog):
    truncate(file_of(finished, "history"))
    with caplog.at_level(logging.WARNING):
        assert store.runs() == []
    assert "damaged" in caplog.text
    ((folder, reason),) = store.health()[1]
    assert (folder, reason) == (finished.folder, f"{file_of(finished, 'history').name} is not what was written")
    assert finished.folder.is_dir()


def test_a_damaged_run_that_another_uses_is_left_alone(finished, store, make, caplog):
    truncate(file_of(finished, "history"))
    lock = store.lock(finished.id)
    assert lock.acquire()
    try:
        with caplog.at_level(logging.WARNING):
            assert store.find(make.experiment()) is None
        assert "left alone" in caplog.text
        assert finished.folder.is_dir()
    finally:
        lock.release()
    assert store.find(make.experiment()) is None
    assert not finished.folder.exists()


def test_a_folder_under_a_wrong_name_is_not_trusted(finished, store, make):
    other = make.experiment(seed=1)
    from pflrepro.experiments.identity import run_id

    shutil.copytree(finished.folder, store.folder(run_id(other)))
    assert store.find(other) is None
    assert store.folder(f"{run_id(other)}.damaged-1").is_dir()
    assert store.find(make.experiment()) is not None


def test_sums_that_fit_do_not_excuse_a_history_that_does_not(finished, store, make):
    arrays = dict(finished.history) | {"correct": finished.history["correct"] + 10**6}
    path = file_of(finished, "history")
    np.savez(path, **arrays)
    done = read_json(finished.folder / "done")
    done["files"][path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    (finished.folder / "done").write_text(json.dumps(done))
    assert store.health()[1][0][1] == "the history's correct has impossible values"
    assert store.find(make.experiment()) is None


def test_the_records_name_no_place_and_no_machine(finished, store, tmp_path):
    for name in ("config.json", "record", "done"):
        text = file_of(finished, name).read_text()
        assert str(tmp_path) not in text
        assert os.path.expanduser("~") not in text
        assert platform.node() not in text
    record = finished.environment
    assert set(record["versions"]) == {"python", "pflrepro", "commit", "torch", "numpy"}
    assert (record["backend"], record["device"], record["dtype"], record["workers"]) == ("loop", "cpu", "float32", 2)
    assert record["timings"]["training"] == 5 * 0.25
    assert record["timings"]["evaluation"] == 5 * 0.125
    assert record["timings"]["total"] > 0
    assert record["peak_memory_bytes"] > 2**20
    assert record["threads"] == 1


def test_a_partition_s_folder_is_not_written_down(tmp_path, store, fake, make):
    (tmp_path / "mine.csv").write_text("client,label,count\n0,0,60\n1,1,60\n0,1,20\n")
    made = run(
        make.experiment(partition=f"counts:{tmp_path / 'mine.csv'}", clients=2),
        store=store,
        simulate=fake,
        progress=False,
    )
    assert str(tmp_path) not in (made.folder / "config.json").read_text()
    assert store.get(made.id).experiment.data.partition == "counts:mine.csv"
    exported = compact.export(made, tmp_path / "exported")
    assert compact.read(exported).experiment.data.partition == "counts:mine.csv"
    assert str(tmp_path / "mine.csv") in made.experiment.data.partition, (
        "as it was asked for, so that its data are found"
    )


def test_only_an_experiment_is_looked_for(store: Store) -> None:
    with pytest.raises(UserError, match="a run is found by its experiment, not str 'fedavg'"):
        store.find("fedavg")


@pytest.mark.parametrize("id", ["../../elsewhere-00001", "0123456789abcdeg", "0123456789abcdef0"])
def test_what_is_no_id_is_refused(id: str, store: Store) -> None:
    with pytest.raises(UserError, match="a run's id is 16 hex digits, not "):
        store.get(id)
    assert not (store.root / "locks").exists()


def test_the_place_of_the_store(tmp_path, monkeypatch):
    assert Store(tmp_path).root == tmp_path
    monkeypatch.setenv("PFLREPRO_STORE", str(tmp_path / "there"))
    assert Store().root == tmp_path / "there"
    assert Store().runs() == []
    assert not (tmp_path / "there").exists()
    monkeypatch.chdir(tmp_path)
    assert Store("mine").root == tmp_path / "mine"  # wherever the process goes from here
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"--store must name a folder, not the file .*file"):
        Store(tmp_path / "file")
    for number in (5, 0):
        with pytest.raises(UserError, match=f"--store must name a folder, not {number}$"):
            Store(number)
    with pytest.raises(UserError, match="behind must name a folder, not 5"):
        Store(tmp_path, behind=5)
    monkeypatch.delenv("PFLREPRO_STORE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Store().root == tmp_path / "pflrepro" / "store"


def test_a_store_that_cannot_be_written_is_told_in_one_line(tmp_path, fake, make):
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "locks").touch()
    with pytest.raises(UserError, match="cannot lock"):
        run(make.experiment(), store=tmp_path / "store", simulate=fake, progress=False)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "runs").touch()
    with pytest.raises(UserError, match="cannot write to the run store"):
        run(make.experiment(), store=tmp_path / "other", simulate=fake, progress=False)


@pytest.fixture
def forbidden(monkeypatch):
    """A list of files that nobody may open, whoever runs the tests."""
    listed, really = [], io.open

    def guarded(file, *how, **more):
        if str(file) in map(str, listed):
            raise PermissionError(13, "Permission denied", str(file))
        return really(file, *how, **more)

    for module in (io, builtins):
        monkeypatch.setattr(module, "open", guarded)
    return listed


@pytest.mark.parametrize("name", ALL)
def test_what_must_not_be_read_is_not_called_damaged_and_not_touched(name, finished, store, make, fake, forbidden):
    forbidden.append(file_of(finished, name))
    with pytest.raises(UserError, match=rf"^cannot read {forbidden[0]}: Permission denied$"):
        run(make.experiment(), store=store, simulate=fake, progress=False)
    assert store.health() == ([], [], [f"cannot read {forbidden[0]}: Permission denied"])
    forbidden.clear()
    assert store.runs() and len(fake.built) == 1


def test_a_reading_that_cannot_be_kept_is_given_all_the_same(finished, store, caplog):
    (finished.folder / "readings").write_text("no folder")
    question = Question("mean", 4)
    assert store.reading(finished, question, lambda: {"value": np.arange(3)})["value"].tolist() == [0, 1, 2]
    assert "the reading mean of run" in caplog.text and "is not kept" in caplog.text


def test_repair_sets_damaged_runs_aside_and_clears_up(finished, store):
    shutil.copy(finished.folder / "state-4.npz", finished.folder / "checkpoint.npz")
    assert repair(store) == [f"the checkpoint of a finished run of run {finished.id} is removed"]
    truncate(file_of(finished, "history"))
    (told,) = repair(store)
    assert told.startswith(f"run folder {finished.id} was damaged (") and told.endswith("and is set aside")
    assert store.folder(f"{finished.id}.damaged-1").is_dir() and [len(found) for found in store.health()] == [0, 0, 0]
    assert repair(store) == []


def test_a_full_disk_is_one_clear_error_and_leaves_nothing_half_written(tmp_path, make, fake, monkeypatch):
    whole = run(make.experiment(), store=tmp_path / "whole", simulate=fake, progress=False)
    store, sync, room = Store(tmp_path / "store", behind=tmp_path / "none"), os.fsync, [0]

    def fill(descriptor):
        room[0] -= 1
        if room[0] < 0:
            raise OSError(28, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fill)
    refused = 0
    while not store.runs():
        room[0] = refused  # the disk is full behind one more file in every attempt
        try:
            made = run(make.experiment(), store=store, simulate=fake, progress=False, checkpoint_every=0)
        except UserError as error:
            assert re.fullmatch(r"cannot write .*: No space left on device", str(error))
            refused += 1
        assert not list(store.root.rglob("*.tmp")) and store.health()[1:] == ([], [])
        assert refused < 20
    assert refused >= 4, (
        "attempts go on from the checkpoint: what is left is configuration, state, history, record, mark"
    )
    assert make.same_but_timings(made.history, whole.history)


def test_a_run_shows_itself(finished):
    import matplotlib.pyplot as plt

    assert finished.accuracy("last_round") == finished.curve[-1]
    assert float(finished.accuracy()) == finished.curve.max()
    assert np.isnan(finished.curve_after_training[0])
    html = finished._repr_html_()
    assert f"{100 * finished.accuracy():.2f} %" in html
    assert str(finished.folder.parent) not in html
    assert finished.id in repr(finished)
    ax = finished.plot()
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), 100 * finished.curve)
    assert len(ax.lines) == 2
    plt.close(ax.figure)


def test_a_file_system_without_locks_has_lock_files(store, monkeypatch):
    def absent(*_):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("fcntl.flock", absent)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, other = store.lock("a"), store.lock("a")
        assert one.acquire() and not other.acquire()
        one.release()
        assert other.acquire()
        other.release()


def test_a_stray_file_beside_the_states_is_none(finished, store, make, fake):
    shutil.copy(finished.folder / "state-4.npz", finished.folder / "state-4 (copy).npz")
    assert list(store.states(finished.id)) == [4]
    assert run(make.experiment(rounds=5), store=store, simulate=fake, progress=False).rounds == 5
