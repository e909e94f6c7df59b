"""Worker processes: the same bits as without, clear errors, methods that no module holds."""

from __future__ import annotations

import copy
import importlib
import os
import pickle
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from loky import get_reusable_executor

from pflrepro.algorithms import build_method
from pflrepro.algorithms.contract import Method
from pflrepro.checked import Count
from pflrepro.errors import RunFailed
from pflrepro.simulation import workers
from pflrepro.simulation.row_pool import RowPool
from pflrepro.simulation.workers import packed
from pflrepro.trees import Tree


@pytest.fixture
def always_in_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows go to the worker processes even where that does not pay."""
    monkeypatch.setattr(RowPool, "_pays", lambda self, program, work, load: self.workers.count > 1)


@dataclass(frozen=True)
class Stumbles(Method):
    """Defined here, so that the worker gets the class by value."""

    def loss(self, params, local, batch, ctx):
        raise ValueError("this loss is broken")


@dataclass(frozen=True)
class Dies(Method):
    parent: Count = 0

    def loss(self, params, local, batch, ctx):
        if os.getpid() != self.parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().loss(params, local, batch, ctx)


@pytest.mark.usefixtures("always_in_workers")
def test_workers_have_the_code_that_is_loaded(simulate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what a module's file said when they imported it, nor what it says by now."""
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "edited_method.py"
    text = "\n".join(
        [
            "from pflrepro.algorithms import Method",
            "class Mine(Method):",
            "    def correct(self, grads, local, ctx):",
            "        return grads * {}",
        ]
    )
    file.write_text(text.format("1.0"))
    module = importlib.import_module("edited_method")
    first = simulate(module.Mine(), workers=2).history(0)
    file.write_text(text.format("0.0 # longer, for another size"))
    loaded = simulate(module.Mine(), workers=2).history(0)
    assert np.array_equal(loaded["loss"], first["loss"])
    reloaded = importlib.reload(module).Mine()
    still, here = (simulate(reloaded, workers=count).history(0)["loss"] for count in (2, 1))
    assert np.array_equal(still, here) and not np.array_equal(still, first["loss"])
    assert np.ptp(still, axis=0).max() < 1e-12, (
        "nobody moves; the average of equal models is rounded, on some processors"
    )


@pytest.mark.usefixtures("always_in_workers")
def test_a_worker_that_is_killed_is_one_line(simulate) -> None:
    with pytest.raises(
        RunFailed, match=r"^a worker process ended unexpectedly \(out of memory\?\); try fewer workers: "
    ):
        simulate(Dies(parent=os.getpid()), workers=2)


@pytest.mark.usefixtures("always_in_workers")
@pytest.mark.parametrize(("name", "model"), [("fedavg+dbe", "mlp"), ("ditto", "cnn-digits-bn")])
def test_worker_processes_change_no_bit(simulate, differ, name: str, model: str) -> None:
    options = {"kappa": 2.0} if "dbe" in name else {}
    runs = [
        simulate(build_method(name, options), workers=workers, seeds=[0, 3], model=model, drop_last=model != "mlp")
        for workers in (1, 2)
    ]
    for mine, other in zip(*(run.replicas for run in runs), strict=True):
        assert all(differ(mine.trees[name], other.trees[name]) == 0.0 for name in mine.trees)
        assert all(
            (a == b).all() for a, b in zip(mine.history["correct_after"], other.history["correct_after"], strict=True)
        )


@pytest.mark.usefixtures("always_in_workers")
def test_workers_look_at_the_samples_of_their_own_federation(federation, simulate) -> None:
    """Two federations one after the other that differ in their samples alone."""
    other = copy.copy(federation)
    other.x = federation.x.flip(0)
    found = {
        (name, workers): simulate(build_method("fedavg"), rounds=0, workers=workers, federation=of).history(0)["loss"]
        for name, of in (("own", federation), ("other", other))
        for workers in (2, 1)
    }
    for name in ("own", "other"):
        np.testing.assert_array_equal(found[name, 2], found[name, 1])
    assert (found["own", 1] != found["other", 1]).any()


@pytest.mark.usefixtures("always_in_workers")
def test_an_error_in_a_worker_says_where(simulate) -> None:
    with pytest.raises(
        RunFailed, match=r"Stumbles, round 0, seed 0, client \d, phase 'train', step 0 at .*: ValueError: this loss is"
    ):
        simulate(Stumbles(), workers=2)


def test_a_tensor_travels_in_its_own_type_and_shape() -> None:
    sent = Tree(
        a=torch.arange(6.0).view(2, 3).t(), b=Tree(c=torch.tensor(True), d=torch.zeros(0, 4, dtype=torch.int64))
    )
    got = pickle.loads(packed(sent))
    for path, leaf in sent.flat().items():
        assert torch.equal(got.flat()[path], leaf) and got.flat()[path].dtype == leaf.dtype
    got.a.add_(1)  # what arrives is the receiver's own, not read-only


@pytest.mark.usefixtures("always_in_workers")
def test_an_interrupt_ends_the_workers_and_leaves_no_broken_pool(simulate, monkeypatch) -> None:
    interrupted = []

    def interrupt(executor, futures):
        interrupted.append(executor)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(workers, "_done", interrupt)
        simulate(build_method("fedavg"), workers=2)
    assert not interrupted[0]._processes and interrupted[0]._flags.shutdown
    with get_reusable_executor(max_workers=1) as following:
        assert following is not interrupted[0]


IN_A_CHILD = """
import multiprocessing
from pflrepro.algorithms import build_method
from pflrepro.settings import Settings
from pflrepro.simulation import Simulation
from pflrepro.simulation.cost import generated

def train():
    settings = Settings(rounds=1, evaluate_after=False)
    Simulation(build_method("fedavg"), generated((28, 28), 8), "cnn4", settings, [0], workers=2).step()

if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=train)
    child.start()
    child.join(60)
    print(child.exitcode)
    child.kill()
"""


@pytest.mark.slow
def test_a_process_of_multiprocessing_ends_with_its_workers(tmp_path: Path) -> None:
    """It waits for its own processes before anybody tells them to end."""
    (tmp_path / "script.py").write_text(IN_A_CHILD)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["0"], done.stderr
