"""Sweeps in other processes: a worker that is killed costs the round at hand, and nothing that is done is trained again."""

from __future__ import annotations

import os
import pickle
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

from pflrepro.errors import RunFailed, UserError
from pflrepro.experiments import launchers
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.run import run
from pflrepro.experiments.store import Store
from pflrepro.experiments.sweep import sweep

ROUNDS, SEEDS = 4, 3
ENDED_WITHIN = 5  # seconds after the death of a worker in which an engine ends the others
# FedAvg that notes every round in a file; the first worker that is about to end round 2 gets a signal. Some engines end all workers
# when one dies, and each of them may lose the round at hand: so the signal waits until every other run has saved what it noted, and the
# others wait until an engine that ends them had the time to do so.
NOTING = f"""
import fcntl, os, signal, time
from pathlib import Path
from pflrepro.algorithms.fedavg import FedAvg
from pflrepro.experiments.store import DONE

class Noting(FedAvg):
    def aggregate(self, server, uploads, cohort, ctx):
        folder, t = Path(os.environ["NOTES"]), ctx.clock.t
        unsaved, killed = folder / f"unsaved-{{os.getpid()}}", folder / "killed"
        unsaved.unlink(missing_ok=True)  # the round before this one is saved
        with open(folder / "lock", "w") as lock, open(folder / "rounds", "a") as rounds:
            fcntl.flock(lock, fcntl.LOCK_EX)  # held to the death: nobody notes a round before it
            while killed.exists() and time.time() - killed.stat().st_mtime < {ENDED_WITHIN}:
                time.sleep(0.01)
            print(t, file=rounds, flush=True)
            if t == 2 and os.environ.get("KILL") and not killed.exists():
                while any(folder.glob("unsaved-*")) or self.last(folder) > len(list(folder.glob(f"store/runs/*/{{DONE}}"))):
                    time.sleep(0.01)
                killed.touch()
                os.kill(os.getpid(), getattr(signal, os.environ["KILL"]))
            elif t < {ROUNDS - 1}:  # the last round is saved when the run is
                unsaved.touch()
        return super().aggregate(server, uploads, cohort, ctx)

    def last(self, folder):
        return (folder / "rounds").read_text().split().count("{ROUNDS - 1}")
"""


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Experiment]:
    """Three seeds of the method above, which workers find too; its notes go to `tmp_path`."""
    (tmp_path / "noting_module.py").write_text(NOTING)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    monkeypatch.setenv("NOTES", str(tmp_path))
    monkeypatch.setenv("KILL", "SIGKILL")
    yield [
        Experiment.for_dataset("noting_module:Noting", "digits", clients=4, rounds=ROUNDS, model="mlp", seed=seed)
        for seed in range(SEEDS)
    ]
    sys.modules.pop("noting_module", None)


@contextmanager
def processes(folder: Path):
    yield "processes"


@contextmanager
def dask(folder: Path):
    distributed = pytest.importorskip("distributed")
    how = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "local_directory": str(folder / "dask")}
    with distributed.LocalCluster(**how, silence_logs=50) as cluster:
        yield f"dask:{cluster.scheduler_address}"


@contextmanager
def ray(folder: Path):
    engine = pytest.importorskip("ray")
    try:  # its raylet ends where its agents, two processes of Python, take more than 15 s to start: no option changes that
        engine.init(include_dashboard=False, log_to_driver=False)
    except Exception as error:
        engine.shutdown()
        pytest.skip(f"Ray does not start on this machine, as busy as it is: {error}")
    try:
        yield "ray"
    finally:
        engine.shutdown()


@contextmanager
def slurm(folder: Path):
    pytest.importorskip("submitit")
    yield f"slurm:cluster=local,folder={folder / 'slurm'}"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the engines' own
@pytest.mark.parametrize("launcher", [processes, dask, ray, slurm])
def test_a_killed_worker_costs_the_round_at_hand(launcher, wanted, make, tmp_path, monkeypatch):
    how = {"backend": "loop", "progress": False, "checkpoint_every": 0}
    with launcher(tmp_path) as text:
        runs = sweep(wanted, text, jobs=2, store=tmp_path / "store", **how)
    assert (tmp_path / "killed").exists()
    rounds = Counter(map(int, (tmp_path / "rounds").read_text().split()))
    assert rounds == {0: SEEDS, 1: SEEDS, 2: SEEDS + 1, 3: SEEDS}, "one round of one run is trained twice"
    store = Store(tmp_path / "store")
    assert [len(found) for found in store.health()] == [SEEDS, 0, 0] and store.unfinished() == []
    here = run(wanted, store=tmp_path / "here", workers=1, **how)
    for one, other in zip(runs, here, strict=True):
        assert one.id == other.id and make.same_but_timings(one.history, other.history)
    assert sweep(wanted, "dask:nobody-is-asked", store=store)[0].id == runs[0].id


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_slurm_job_at_its_time_limit_saves_first_and_goes_on_where_it_was(wanted, make, tmp_path, monkeypatch):
    monkeypatch.setenv("KILL", "SIGUSR2")  # what submitit has SLURM send ahead of the limit
    how = {"backend": "loop", "progress": False, "checkpoint_every": 3600}
    with slurm(tmp_path) as text:
        runs = sweep(wanted, text, jobs=2, store=tmp_path / "store", **how)
    rounds = Counter(map(int, (tmp_path / "rounds").read_text().split()))
    assert rounds == dict.fromkeys(range(ROUNDS), SEEDS), "a round is trained twice"
    logs = [path.read_text() for path in (tmp_path / "slurm").glob("*_log.*")]
    assert sum("Requeued job" in log for log in logs) == 1
    here = run(wanted, store=tmp_path / "here", workers=1, **how)
    assert all(make.same_but_timings(one.history, other.history) for one, other in zip(runs, here, strict=True))


class Doing:
    """A work that only notes what it is given."""

    device, workers = "cpu", None

    def __call__(self, task):
        return None


def test_a_worker_that_dies_on_every_attempt_fails_its_task_alone():
    handed = []

    def once(waiting):
        handed.append(sorted(waiting))
        for index in waiting:
            if index != 1:
                yield index, "in vain" if index == 2 else None
        raise RuntimeError("a worker\ndied")

    found = list(launchers._until_answered(once, ["a", "b", "c", "d"]))
    assert found[:3] == [("a", None), ("c", "in vain"), ("d", None)]
    assert found[3:] == [("b", "its worker died (out of memory?): RuntimeError: a worker died")]
    assert handed == [[0, 1, 2, 3]] + [[1]] * launchers.TRIES


def test_what_cannot_be_sent_to_a_worker_is_no_worker_that_died():
    def once(waiting):
        raise pickle.PicklingError("Could not pickle\nthe task")
        yield

    with pytest.raises(UserError, match="cannot be sent to them: PicklingError: Could not pickle the task"):
        list(launchers._until_answered(once, ["a"]))


@pytest.mark.parametrize(
    ("text", "jobs", "device", "expected"),
    [
        ("processes", None, "cpu", launchers.usable_cores()),
        ("processes", None, "cuda:0", launchers.ON_A_GPU),
        ("processes:3", None, "cuda:0", 3),
        ("processes:3", 4, "cpu", 4),
    ],
)
def test_how_many_processes_train_at_a_time(text, jobs, device, expected, monkeypatch):
    asked = []

    def one_after_another(call, how, tasks):
        asked.append(how["n_jobs"])
        yield from (call(index, task) for index, task in tasks.items())

    monkeypatch.setattr(launchers, "_by_joblib", one_after_another)
    work = Doing()
    work.device = device
    assert list(launchers.launcher_of(text)(["a", "b"], work, jobs)) == [("a", None), ("b", None)]
    assert asked == [expected]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("processes:0", "the number of processes must be a whole number >= 1, not 0"),
        ("processes:", "the number of processes must be a whole number >= 1, not ''"),
        ("processes:all", "the number of processes must be a whole number >= 1, not 'all'"),
        ("dask", "unknown launcher 'dask'; valid: dask:ADDRESS, "),
        (5, "unknown launcher 5; valid: "),
        ("slurm:gpu", "expected slurm:NAME=VALUE,..., not 'gpu'"),
        ("slurm:partitions=gpu,cluster=local", "Unknown argument 'partitions' for executor 'slurm'"),
        ("slurm:timeout_min=long,cluster=local", '"timeout_min" expected type'),
        ("slurm:cluster=here", "doesn't know any executor named here"),
        ("dask:tcp://127.0.0.1:1", "no Dask scheduler answers at tcp://127.0.0.1:1"),
    ],
)
def test_bad_launchers_are_told_in_one_line_before_anything_runs(text, told, store, make, monkeypatch, tmp_path):
    monkeypatch.setattr(launchers, "CONNECT", 0.2)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for package in ("distributed", "submitit"):
        pytest.importorskip(package)
    with pytest.raises(UserError) as raised:
        sweep(make.seeds(0), text, store=store, progress=False)
    assert told in str(raised.value) and "\n" not in str(raised.value)
    assert not store.root.exists()


def test_a_launcher_whose_package_is_absent_says_what_to_install(monkeypatch):
    monkeypatch.setattr(launchers, "find_spec", lambda name: None)
    for text, extra in (("dask:x", "dask"), ("ray", "ray"), ("slurm", "slurm")):
        with pytest.raises(UserError, match=rf"pip install 'pflrepro\[{extra}\]'"):
            list(launchers.launcher_of(text)(["task"], Doing(), 1))


def test_pickles_go_to_a_folder_that_only_the_user_writes_to(tmp_path):
    folder = launchers._pickles(tmp_path / "of" / "mine")
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o770)
    with pytest.raises(UserError, match="others may write to the launcher's folder"):
        launchers._pickles(folder)


def test_one_line_shows_a_sweep_elsewhere(store, fake, make, monkeypatch):
    lines = []

    class Bar:
        def __init__(self, total, unit):
            lines.append((total, unit))

        def set_description_str(self, text, refresh):
            self.text = text

        def update(self, steps):
            lines.append((self.text, steps))

        def close(self):
            lines.append("closed")

    monkeypatch.setattr("pflrepro.experiments.progress._bar", Bar)
    monkeypatch.setattr("pflrepro.experiments.training.Simulation", fake)

    def launch(tasks, work, jobs):
        yield tasks[0], work(tasks[0])
        yield tasks[1], "broken"

    with pytest.raises(RunFailed, match="1 of 2 tasks failed"):
        sweep([*make.seeds(0, 1), make.experiment("local")], launch, jobs=1, store=store)
    assert lines == [
        (3, "run"),
        ("sweep: 0 running, 0 failed", 0),
        ("sweep: 0 running, 0 failed", 2),
        ("sweep: 0 running, 1 failed", 1),
        "closed",
    ]
