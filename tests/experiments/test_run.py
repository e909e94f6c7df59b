"""run(): reuse, packing, resuming, stopping, failing, and several processes on one run; with an engine that costs nothing."""

from __future__ import annotations

import logging
import shutil
import threading

import numpy as np
import pytest
from helpers.breaking import Killed, break_in_round
from helpers.training import quick

from pflrepro.errors import MissingData, Paused, RunFailed, UserError
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.history import stops_at
from pflrepro.experiments.loading import load_federation
from pflrepro.experiments.run import run
from pflrepro.experiments.store import Store


def test_what_is_there_is_given_back_without_an_engine(store, fake, make):
    first = quick(make.experiment(), store, fake)
    again = quick(make.experiment(), store, fake)
    assert len(fake.built) == 1
    assert again.id == first.id
    assert first.rounds == 4


def test_seeds_train_together_and_other_settings_apart(store, fake, make):
    wanted = [*make.seeds(2, 0), make.experiment("local"), *make.seeds(1), *make.seeds(0, lr=0.2)]
    runs = quick(wanted, store, fake)
    assert [simulation.seeds for simulation in fake.built] == [[0, 1, 2], [0], [0]]
    assert [one.experiment for one in runs] == wanted
    assert runs[0].environment["seeds_together"] == [0, 1, 2]


def test_done_seeds_are_left_out_and_equal_experiments_run_once(store, fake, make):
    quick(make.seeds(1), store, fake)
    runs = quick(make.seeds(0, 1, 2, 0), store, fake)
    assert [simulation.seeds for simulation in fake.built] == [[1], [0, 2]]
    assert runs[0].id == runs[3].id
    assert len({one.id for one in runs}) == 3


def test_a_seed_has_the_same_history_alone_and_in_company(tmp_path, fake, make):
    alone = quick(make.experiment(seed=2), Store(tmp_path / "a"), fake)
    together = quick(make.seeds(0, 1, 2), Store(tmp_path / "b"), fake)
    assert make.same_but_timings(alone.history, together[2].history)


def test_no_rounds_is_a_run_too(store, fake, make):
    assert quick(make.experiment(rounds=0), store, fake).history["round"].tolist() == [0]


@pytest.mark.parametrize("killed_in", [0, 1, 3])
@pytest.mark.parametrize("again", [(0, 1, 2), (1,), (2, 0, 5)])
def test_killed_and_run_again_is_as_if_never_killed(killed_in, again, tmp_path, fake, make):
    store = Store(tmp_path / "killed")
    fake.before_step = break_in_round(killed_in, Killed())
    with pytest.raises(Killed):
        quick(make.seeds(0, 1, 2), store, fake)
    assert store.runs() == []
    fake.before_step = None
    fake.built.clear()
    runs = quick(make.seeds(*again), store, fake)
    whole = quick(make.seeds(*again), Store(tmp_path / "whole"), fake)
    for one, other in zip(runs, whole, strict=True):
        assert make.same_but_timings(one.history, other.history)
        assert not (one.folder / "checkpoint.npz").exists()
    resumed = next(one for one in fake.built if set(one.seeds) & {0, 1, 2})
    assert resumed.steps == 4 - killed_in


def test_seeds_at_different_rounds_go_on_from_where_each_is(store, fake, make):
    for seed, stop in ((0, 1), (1, 3), (2, 3)):
        fake.before_step = break_in_round(stop, Killed())
        with pytest.raises(Killed):
            quick(make.experiment(seed=seed), store, fake)
    fake.before_step = None
    fake.built.clear()
    runs = quick(make.seeds(0, 1, 2, 3), store, fake)
    assert [(simulation.seeds, simulation.steps) for simulation in fake.built] == [([1, 2], 1), ([0], 3), ([3], 4)]
    assert [entry["started_at_round"] for entry in runs[0].environment["attempts"]] == [0, 1]


def test_a_resume_takes_the_backend_that_the_run_was_begun_with(store, fake, make):
    fake.before_step = break_in_round(2, Killed())
    with pytest.raises(Killed):
        quick(make.experiment(), store, fake, backend="batched", workers=3)
    fake.before_step = None
    made = quick(make.experiment(), store, fake)
    assert (fake.built[-1].asked["backend"], fake.built[-1].asked["workers"]) == ("batched", 3)
    assert made.environment["timings"]["total"] == sum(entry["seconds"] for entry in made.environment["attempts"])


def test_a_resume_with_another_backend_by_the_user_s_wish_is_recorded(store, fake, make):
    fake.before_step = break_in_round(2, Killed())
    with pytest.raises(Killed):
        quick(make.experiment(), store, fake, backend="batched")
    fake.before_step = None
    made = quick(make.experiment(), store, fake, backend="loop")
    assert [entry["backend"] for entry in made.environment["attempts"]] == ["batched", "loop"]


def test_checkpoints_are_rare_when_time_is_the_measure(store, fake, make):
    written = []
    store.save_checkpoints = lambda found: written.extend(checkpoint.round for checkpoint in found.values())
    quick(make.experiment(), store, fake, checkpoint_every=3600)
    assert written == []
    quick(make.experiment(seed=1), store, fake, checkpoint_every=0)
    assert written == [1, 2, 3]


def half_done(store, fake, make):
    fake.before_step = break_in_round(2, Killed())
    with pytest.raises(Killed):
        quick(make.experiment(), store, fake)
    fake.before_step = None
    fake.built.clear()
    (folder,) = (store.root / "runs").iterdir()
    return folder


@pytest.mark.parametrize("name", ["checkpoint.npz", "config.json"])
def test_a_damaged_half_done_run_starts_afresh_and_is_set_aside_where_nobody_knows_what_it_is(
    name, store, fake, make, caplog
):
    folder = half_done(store, fake, make)
    (folder / name).write_bytes((folder / name).read_bytes()[:-30])
    with caplog.at_level(logging.WARNING):
        made = quick(make.experiment(), store, fake)
    assert "damaged" in caplog.text
    assert folder.with_name(f"{folder.name}.damaged-1").is_dir() == (name == "config.json")
    assert [simulation.steps for simulation in fake.built] == [4]
    assert made.rounds == 4


def harmed(path, place):
    content = path.read_bytes()
    path.write_bytes(content[: int(place * len(content))])


@pytest.mark.parametrize("place", [0, 0.02, 0.5, 0.98])
def test_whatever_file_is_cut_off_the_next_call_gives_the_same_run(place, store, fake, make, tmp_path):
    """Every file of a finished run, of one that was stopped, and of one that was stopped while it grew."""
    whole = quick(make.experiment(rounds=6), tmp_path / "whole", fake)

    def prepared(name):
        """A store with a run of 6 rounds: finished, stopped after round 3, or grown from 4 and stopped after round 5."""
        found = type(store)(tmp_path / name, behind=tmp_path / "nothing")
        fake.before_step = None
        if name != "stopped":
            quick(make.experiment(rounds=6 if name == "finished" else 4), found, fake)
        if name != "finished":
            fake.before_step = break_in_round(3 if name == "stopped" else 5, Killed())
            with pytest.raises(Killed):
                quick(make.experiment(rounds=6), found, fake)
        fake.before_step = None
        return found

    for name in ("finished", "stopped", "grown"):
        first = prepared(name)
        files = sorted(path.relative_to(first.root) for path in first.root.glob("runs/*/*"))
        assert len(files) == {"finished": 5, "stopped": 2, "grown": 6}[name], files
        shutil.copytree(first.root, tmp_path / "kept")
        for file in files:
            shutil.rmtree(first.root)
            shutil.copytree(tmp_path / "kept", first.root)
            harmed(first.root / file, place)
            made = quick(make.experiment(rounds=6), first, fake)
            assert make.same_but_timings(made.history, whole.history), f"{name}: {file} cut at {place}"
            assert first.health()[1:] == ([], [])
        shutil.rmtree(tmp_path / "kept")


def test_a_checkpoint_of_another_run_is_not_used(store, fake, make):
    folder = half_done(store, fake, make)
    content = (folder / "checkpoint.npz").read_bytes()
    fake.before_step = break_in_round(1, Killed())
    with pytest.raises(Killed):
        quick(make.experiment(seed=1), store, fake)
    fake.before_step = None
    (other,) = [path for path in (store.root / "runs").iterdir() if path != folder]
    (other / "checkpoint.npz").write_bytes(content)
    fake.built.clear()
    made = quick(make.experiment(seed=1), store, fake)
    assert [simulation.steps for simulation in fake.built] == [4]
    assert made.id == other.name


def test_a_checkpoint_that_the_engine_refuses_is_reported_and_not_used(store, fake, make, caplog):
    folder = half_done(store, fake, make)

    def refuse(self, index, arrays):
        raise KeyError("server/params/base/weight")

    fake.restore_seed = refuse
    with caplog.at_level(logging.WARNING):
        made = quick(make.experiment(), store, fake)
    assert "starts afresh: 'server/params/base/weight'" in caplog.text
    assert made.folder == folder
    assert [simulation.steps for simulation in fake.built] == [0, 4]


def test_what_a_killed_process_left_half_written_is_cleared_away(store, fake, make):
    folder = half_done(store, fake, make)
    (folder / ".history.npz.77.abcd.tmp").write_bytes(b"half")
    (folder.parent / f".{folder.name}.abcd.tmp").mkdir()
    quick(make.experiment(), store, fake)
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    assert sorted(path.name.split("-")[0] for path in folder.iterdir()) == [
        "config.json",
        "done",
        "history",
        "record",
        "state",
    ]


@pytest.mark.parametrize("patience", [1, 2, 3])
def test_patience_cuts_each_seed_where_it_would_stop_alone(patience, tmp_path, fake, make):
    wanted = make.seeds(*range(6), rounds=30, patience=patience)
    endless = quick(make.seeds(*range(6), rounds=30), Store(tmp_path / "endless"), fake)
    together = quick(wanted, Store(tmp_path / "together"), fake)
    lengths = [stops_at(one.curve, patience) for one in endless]
    assert len(set(lengths)) > 1
    assert None not in lengths
    assert [len(one.curve) for one in together] == lengths
    for one, other, length in zip(together, endless, lengths, strict=True):
        np.testing.assert_array_equal(one.history["correct"], other.history["correct"][:length])
        alone = quick(one.experiment, Store(tmp_path / "alone"), fake)
        assert make.same_but_timings(alone.history, one.history)


def test_all_stopped_ends_the_simulation(store, fake, make, monkeypatch):
    monkeypatch.setattr("pflrepro.experiments.training.LOOK_EVERY", 0.0)
    runs = quick(make.seeds(0, 1, rounds=500, patience=2), store, fake)
    assert fake.built[0].steps == max(one.rounds for one in runs) < 100


def test_a_failure_names_method_seeds_round_and_cause_and_can_be_resumed(store, fake, make):
    fake.before_step = break_in_round(2, ValueError("matrix of 3\n  by 4"))
    with pytest.raises(RunFailed) as failed:
        quick(make.seeds(0, 1), store, fake)
    assert str(failed.value) == "fedavg on digits (seeds 0, 1) failed in round 3: ValueError: matrix of 3 by 4"
    assert isinstance(failed.value.__cause__, ValueError)
    fake.before_step = None
    quick(make.seeds(0, 1), store, fake)
    assert fake.built[-1].steps == 2


def test_what_fails_does_not_stop_the_others_and_is_raised_when_they_are_done(store, fake, make, caplog):
    def break_some(simulation):
        if simulation.seeds == [0, 1] and simulation.round == 1:
            raise ValueError("not a number")

    fake.before_step = break_some
    wanted = [*make.seeds(0, 1), make.experiment("local")]
    with pytest.raises(
        RunFailed, match=r"^fedavg on digits \(seeds 0, 1\) failed in round 2: ValueError: not a number$"
    ):
        quick(wanted, store, fake)
    assert [one.experiment.algorithm for one in store.runs()] == ["local"]
    assert "not a number; the other runs go on" in caplog.text  # at once: the others may take hours

    refused = make.experiment(min_size=900)
    with pytest.raises(RunFailed, match=r"^2 of 3 trainings failed: .*not a number; .*min_size = 900") as failed:
        quick([*wanted[:2], refused, make.experiment("fedper")], store, fake)
    assert isinstance(failed.value.__cause__, RunFailed)
    assert {one.experiment.algorithm for one in store.runs()} == {"local", "fedper"}
    with pytest.raises(UserError, match=r"^2 of 2 trainings failed: .*min_size = 900.*; .*min_size = 800"):
        quick([refused, make.experiment(min_size=800)], store, fake)


def test_an_engine_that_cannot_start_is_a_failure_and_bad_input_stays_bad_input(store, make):
    def broken(*_, **__):
        raise RuntimeError("out of memory")

    with pytest.raises(RunFailed, match=r"\(seed 0\) failed before its first round: RuntimeError: out of memory"):
        quick(make.experiment(), store, broken)

    def refusing(*_, **__):
        raise UserError("a network with batch norm needs drop_last=True")

    with pytest.raises(UserError, match="batch norm"):
        quick(make.experiment(), store, refusing)
    with pytest.raises(UserError, match="min_size"):
        quick(make.experiment(min_size=900), store, broken)


def test_a_run_in_which_nobody_has_a_batch_is_refused_and_who_has_none_is_counted(store, caplog):
    def start(batch: int, method: str = "fedavg", **options) -> None:
        asked = {"clients": 5, "rounds": 1, "model": "mlp", "batch_size": batch}
        run(Experiment.for_dataset(method, "digits", **asked, **options), store=store, progress=False)

    sizes = load_federation(Experiment.for_dataset("fedavg", "digits", clients=5).data).sizes("train")
    with pytest.raises(
        UserError, match=f"largest has {sizes.max()} training samples, fewer than a batch of {sizes.max() + 1};"
    ):
        start(int(sizes.max()) + 1)
    with pytest.raises(UserError, match=f"fewer than a batch of {sizes.max() + 1};"):  # in pairs of batches
        start((int(sizes.max()) + 1) // 2, "per-fedavg")
    assert not store.runs()
    with caplog.at_level(logging.WARNING):
        start(int(sizes.max()))
    assert f"{(sizes < sizes.max()).sum()} of 5 clients never train: each has fewer than a batch" in caplog.text
    start(int(sizes.max()) + 1, fit_batch=True)


def test_a_history_that_breaks_the_schema_is_not_stored(store, fake, make):
    fake.history = lambda self, index: {"round": np.arange(2), "test_samples": self.test}
    with pytest.raises(RunFailed, match="gave no valid history"):
        quick(make.experiment(patience=0), store, fake)
    assert store.runs() == []


def test_bad_input_is_refused_before_anything_runs(store, fake, make, tmp_path):
    with pytest.raises(UserError, match="run takes experiments, not NoneType None"):
        run(None, store=store)
    with pytest.raises(
        UserError, match=r"load_federation takes a DataConfig, such as .*, or an experiment, not 'digits'"
    ):
        load_federation("digits")
    with pytest.raises(UserError, match="run takes experiments, not str 'fedavg'"):
        quick([make.experiment(), "fedavg"], store, fake)
    with pytest.raises(UserError, match="checkpoint_every must be a number >= 0, not -1"):
        quick(make.experiment(), store, fake, checkpoint_every=-1)
    with pytest.raises(MissingData, match="pflrepro data get fmnist"):
        quick([make.experiment(), make.experiment().for_dataset("fedavg", "fmnist")], store, fake, data_root=tmp_path)
    quick(make.experiment("local"), store, fake)
    fake.built.clear()
    for wrong, told in (
        ({"workers": "two"}, "workers must be a whole number >= 1, not 'two'"),
        ({"memory": "4GB"}, r"memory \(in bytes\) must be a whole number >= 1, not '4GB'"),
        ({"memory": -5}, r"memory \(in bytes\) must be a whole number >= 1, not -5"),
        ({"callbacks": 5}, "callbacks is a list of callbacks, also of one, not 5"),
        ({"keep": 2.5}, r"keep is a list of moments, such as keep=\[2.5\], not 2.5"),
        ({"data_root": 5}, "--data-root must name a folder, not 5"),
    ):
        with pytest.raises(UserError, match=told):  # also of a run that is there
            quick(make.experiment("local"), store, fake, **wrong)
    with pytest.raises(UserError, match="--store must name a folder, not 5"):
        quick(make.experiment("local"), 5, fake)
    assert fake.built == []
    assert quick([], store, fake) == []


def test_a_run_that_another_is_making_is_waited_for_and_reused(store, fake, make, caplog):
    """Two threads stand for two processes: locks are held by open files, so they shut out each other all the same."""
    started, go_on = threading.Event(), threading.Event()

    def wait(simulation):
        started.set()
        assert go_on.wait(20)

    slow = type("Slow", (fake,), {"built": [], "before_step": wait})
    first = threading.Thread(target=quick, args=(make.seeds(1, 0), store, slow))
    first.start()
    assert started.wait(20)
    with caplog.at_level(logging.WARNING):
        results = []
        second = threading.Thread(target=lambda: results.extend(quick(make.seeds(0, 1, 2), store, fake)))
        second.start()
        while "waiting for it" not in caplog.text and second.is_alive():
            second.join(0.02)
        assert [simulation.seeds for simulation in fake.built] == [[2]]  # what nobody else makes is made meanwhile
        go_on.set()
        first.join(20)
        second.join(20)
    assert [simulation.seeds for simulation in fake.built] == [[2]]
    assert [one.experiment.seed for one in results] == [0, 1, 2]


def test_a_run_whose_maker_died_is_taken_over(store, fake, make):
    folder = half_done(store, fake, make)  # its lock file is still there, held by nobody
    assert (store.root / "locks" / f"{folder.name}.lock").exists()
    assert quick(make.experiment(), store, fake).rounds == 4


@pytest.mark.parametrize("stopped_in", [0, 2])
def test_an_engine_that_stops_between_rounds_loses_none_of_them(stopped_in, tmp_path, fake, make):
    store = Store(tmp_path / "stopped")
    fake.before_step = break_in_round(stopped_in, Paused("enough"))
    with pytest.raises(Paused, match="enough"):
        quick(make.experiment(), store, fake, checkpoint_every=1000.0)
    assert store.find(make.experiment()) is None
    fake.before_step = None
    again = quick(make.experiment(), store, fake)
    assert fake.built[-1].steps == 4 - stopped_in
    whole = quick(make.experiment(), Store(tmp_path / "whole"), fake)
    assert make.same_but_timings(again.history, whole.history)
