"""The real engine, and a real SIGKILL: a run that was killed ends with the history of one that was not."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pflrepro.experiments.run import run
from pflrepro.experiments.store import Store

# The child kills itself at the n-th rename onto a file of that name: the file is written under its temporary name, and not in place.
CHILD = """
import os, signal, sys
import torch
torch.set_num_threads(1)
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.run import run

store, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
rename, seen = os.replace, []

def replace(source, target):
    if os.path.basename(target).startswith(name):
        seen.append(target)
        if len(seen) == count:
            os.kill(os.getpid(), signal.SIGKILL)
    rename(source, target)

os.replace = replace
experiments = [
    Experiment.for_dataset("fedavg+dbe", "digits", clients=4, rounds=4, model="mlp", seed=seed, participation=0.75) for seed in (0, 1)
]
run(experiments, store=store, backend=sys.argv[4], workers=1, progress=False, checkpoint_every=0)
"""


def experiments(make):
    return make.seeds(0, 1, algorithm="fedavg+dbe", clients=4, rounds=4, participation=0.75)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """backend -> the two runs, made by it without an interruption."""
    from pflrepro.experiments.config import Experiment

    wanted = [
        Experiment.for_dataset("fedavg+dbe", "digits", clients=4, rounds=4, model="mlp", seed=seed, participation=0.75)
        for seed in (0, 1)
    ]
    return {
        backend: run(wanted, store=tmp_path_factory.mktemp(backend), backend=backend, workers=1, progress=False)
        for backend in ("loop", "batched")
    }


@pytest.fixture
def uninterrupted(whole):
    return whole["loop"]


def child(folder: Path, name: str, count: int, backend: str = "loop") -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    arguments = [sys.executable, "-c", CHILD, str(folder), name, str(count), backend]
    return subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=300, cwd=folder.parent)


@pytest.mark.parametrize("backend", ["loop", "batched"])
@pytest.mark.parametrize(
    ("name", "count", "half_done", "finished"),
    [
        (".checkpoint", 4, 2, 0),  # seed 0 is about to be at round 2, seed 1 at round 1
        (".checkpoint", 2, 0, 0),  # of neither is known anything yet
        ("checkpoint.npz", 4, 2, 0),  # seed 0 is at round 2, seed 1 about to be
        ("history-", 2, 1, 1),  # seed 0 is done, seed 1 has no results yet
        ("done", 1, 2, 0),  # seed 0 has its results, and nothing that says so
    ],
)
def test_sigkill(name, count, half_done, finished, backend, tmp_path, make, whole):
    """Seeds that train together go on together, since in a batch each rounds otherwise alone."""
    killed = child(tmp_path / "store", name, count, backend)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    store = Store(tmp_path / "store")
    assert len(list((store.root / "runs").glob("*/checkpoint.npz"))) == half_done
    assert len(store.runs()) == finished
    runs = run(experiments(make), store=store, backend=backend, workers=1, progress=False)
    assert [len(found) for found in store.health()] == [2, 0, 0]
    for one, other in zip(runs, whole[backend], strict=True):
        assert one.id == other.id
        assert make.same_but_timings(one.history, other.history)
        assert (one.history["seconds"][1:] > 0).all()
        assert not list(one.folder.glob(".*"))


@pytest.mark.slow
def test_ten_processes_on_one_run_train_it_once(tmp_path, make, uninterrupted):
    """Every round is trained by one of them: each run's record names one process, and results are written once."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    counting = CHILD.replace(
        "    rename(source, target)\n", "    rename(source, target)\n    print(target, flush=True)\n"
    )
    arguments = [sys.executable, "-c", counting, str(tmp_path / "store"), "nothing", "1", "loop"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    all_of_them = [subprocess.Popen(arguments, env=environment, **pipes) for _ in range(10)]
    told = [process.communicate(timeout=900) for process in all_of_them]
    assert [process.returncode for process in all_of_them] == [0] * 10, told
    written = [os.path.basename(line) for out, _ in told for line in out.splitlines()]
    assert written.count("done") == 2 and written.count("checkpoint.npz") == 2 * 4, "two runs of four rounds, once each"
    store = Store(tmp_path / "store")
    assert [len(found) for found in store.health()] == [2, 0, 0]
    for one, whole in zip((store.find(one) for one in experiments(make)), uninterrupted, strict=True):
        assert make.same_but_timings(one.history, whole.history)
        assert len(one.environment["attempts"]) == 1


@pytest.mark.slow
def test_two_processes_on_one_run_make_it_once(tmp_path, make, uninterrupted):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    arguments = [sys.executable, "-c", CHILD, str(tmp_path / "store"), "nothing", "1", "loop"]
    both = [subprocess.Popen(arguments, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    told = [process.communicate(timeout=300)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    store = Store(tmp_path / "store")
    assert [len(found) for found in store.health()] == [2, 0, 0]
    assert len(list((store.root / "runs").iterdir())) == 2
    for one, whole in zip((store.find(one) for one in experiments(make)), uninterrupted, strict=True):
        assert make.same_but_timings(one.history, whole.history)


def test_the_real_engine_gives_a_valid_history_and_record(uninterrupted):
    first = uninterrupted[0]
    assert first.history["round"].tolist() == [0, 1, 2, 3, 4]
    assert first.history["participated"].sum(1).tolist() == [0, 3, 3, 3, 3]
    assert (first.history["correct_after"][0] == -1).all()
    assert 0.3 < first.accuracy() <= 1
    assert first.environment["backend"] == "loop"
    assert first.environment["seeds_together"] == [0, 1]


def test_bit_for_bit_the_same_alone_and_side_by_side(tmp_path, make, uninterrupted):
    alone = run(experiments(make)[1], store=tmp_path, backend="loop", workers=1, progress=False)
    assert make.same_but_timings(alone.history, uninterrupted[1].history)


# What persists at clients or the server beside the shared model: personal groups, control variates, moments, models of all clients.
PERSISTENT = ("ditto", "apfl", "fedrep", "scaffold", "fedavg+dbe", "gpfl", "pfedfda", "moon", "fedproto", "apple")


def of_method(algorithm: str):
    from pflrepro.experiments.config import Experiment

    return Experiment.for_dataset(
        algorithm, "digits", clients=4, rounds=4, model="mlp", participation=0.75, batch_size=40
    )


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", PERSISTENT)
def test_killed_anywhere_and_resumed_equals_uninterrupted(algorithm, tmp_path, make):
    """Killed twice, at renames that are drawn at random, once a method and for ever."""
    whole = run(of_method(algorithm), store=tmp_path / "whole", backend="loop", workers=1, progress=False)
    draw = random.Random(algorithm)
    listed = CHILD[: CHILD.index("experiments = [")] + "experiments = Experiment.from_dict(json.loads(sys.argv[4]))\n"
    script = f"import json\n{listed}{CHILD[CHILD.index('run(experiments, store') :]}".replace(
        "sys.argv[4], w", "'loop', w"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    for _ in range(2):
        described = json.dumps(of_method(algorithm).to_dict())
        arguments = [sys.executable, "-c", script, str(tmp_path / "store"), "", str(draw.randint(1, 6)), described]
        killed = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=300, cwd=tmp_path)
        assert killed.returncode in (-signal.SIGKILL, 0), killed.stderr
    resumed = run(of_method(algorithm), store=tmp_path / "store", progress=False)
    assert make.same_but_timings(resumed.history, whole.history)
    assert [len(found) for found in Store(tmp_path / "store").health()] == [1, 0, 0]
