"""Sweeps: only what is missing runs, one failure does not stop the others, launchers give the same runs."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from torch import nn

from pflrepro.algorithms.fedavg import FedAvg
from pflrepro.errors import Paused, RunFailed, UserError
from pflrepro.experiments import compact
from pflrepro.experiments.callbacks import Callback
from pflrepro.experiments.launchers import Processes
from pflrepro.experiments.run import run
from pflrepro.experiments.store import Store
from pflrepro.experiments.sweep import sweep


@pytest.fixture
def engine(fake, monkeypatch):
    """The fake in the real engine's place, as a sweep's processes would find it."""
    monkeypatch.setattr("pflrepro.experiments.training.Simulation", fake)
    return fake


def test_only_what_is_missing_runs(store, engine, make):
    run(make.experiment("local"), store=store, progress=False)
    wanted = [*make.seeds(0, 1), make.experiment("local")]
    runs = sweep(wanted, store=store, progress=False)
    assert [one.experiment for one in runs] == wanted
    assert [simulation.seeds for simulation in engine.built] == [[0], [0, 1]]
    assert [one.id for one in sweep(wanted, store=store)] == [one.id for one in runs]
    assert len(engine.built) == 2
    assert sweep([], store=store) == []


def test_a_sweep_looks_behind_the_store_that_it_was_given(store, engine, make, tmp_path):
    """A run that came with the package is trained where the store has nothing behind it, and not trained where it lies there."""
    made = run(make.experiment(), store=store, progress=False)
    compact.export(made, tmp_path / "shipped")
    full = Store(tmp_path / "full", behind=tmp_path / "shipped")
    assert [one.id for one in sweep(make.experiment(), store=full, progress=False)] == [made.id]
    assert len(engine.built) == 1
    work = []

    def launch(tasks, given, jobs):
        work.append(given)
        return [(task, given(task)) for task in tasks]

    sweep(make.experiment(), launch, store=Store(tmp_path / "empty", behind=tmp_path / "nothing"), progress=False)
    assert len(engine.built) == 2 and work[0].behind == tmp_path / "nothing"
    sweep(make.experiment(), launch, store=Store(tmp_path / "third"), progress=False)
    assert work[1].behind is None, "the package's own"


def test_one_experiment_is_a_sweep_of_one(store, engine, make):
    assert [one.experiment for one in sweep(make.experiment(), store=store, progress=False)] == [make.experiment()]


def test_failures_are_told_at_the_end_and_the_others_finish(store, engine, make):
    def break_some(simulation):
        if simulation.seeds == [0, 1] and simulation.round == 1:
            raise ValueError("not a number")

    engine.before_step = break_some
    wanted = [*make.seeds(0, 1), make.experiment("local"), make.experiment(min_size=900)]
    with pytest.raises(RunFailed) as failed:
        sweep(wanted, store=store, progress=False)
    message = str(failed.value)
    assert message.startswith(
        "2 of 3 tasks failed: fedavg on digits (seeds 0, 1) failed in round 2: ValueError: not a number; "
    )
    assert "min_size = 900" in message
    assert "\n" not in message
    assert [one.experiment.algorithm for one in store.runs()] == ["local"]


@pytest.mark.parametrize("launcher", ["serial", "processes"])
def test_a_callback_that_pauses_stops_a_sweep_in_this_process(launcher, store, engine, make):
    class Enough(Callback):
        def end(self, runs):
            raise Paused("one is enough")

    with pytest.raises(Paused, match="one is enough"):
        sweep(
            [make.experiment(), make.experiment("local")],
            launcher,
            jobs=1,
            store=store,
            progress=False,
            callbacks=[Enough()],
        )
    assert [one.experiment.algorithm for one in store.runs()] == ["fedavg"]


@pytest.mark.parametrize(
    ("launcher", "jobs", "daemon"), [("processes", 1, False), ("processes:1", None, False), ("processes", 2, True)]
)
def test_where_no_process_is_started_it_is_not_tied_to_the_life_of_another(
    launcher, jobs, daemon, store, engine, make, monkeypatch
):
    """One job, or a worker of a pool, which may have no children: a worker's watch over its parent would end the caller."""
    monkeypatch.setattr("pflrepro.simulation.lifetime.follow", lambda parent: pytest.fail("this is no worker"))
    monkeypatch.setattr("multiprocessing.current_process", lambda: SimpleNamespace(daemon=daemon))
    runs = sweep([make.experiment(), make.experiment("local")], launcher, jobs=jobs, store=store, progress=False)
    assert [one.rounds for one in runs] == [4, 4] and engine.built, "it was trained here"


def test_a_launcher_is_a_function_of_tasks(store, engine, make):
    seen = []

    def backwards(tasks, work, jobs):
        seen.append((len(tasks), jobs))
        for task in reversed(tasks):
            yield task, work(task)

    runs = sweep([*make.seeds(0, 1), make.experiment("local")], backwards, jobs=2, store=store, progress=False)
    assert seen == [(2, 2)]
    assert [one.experiment.algorithm for one in runs] == ["fedavg", "fedavg", "local"]
    assert engine.built[0].seeds == [0]


def test_too_few_packs_for_the_processes_are_split_into_seeds(store, engine, make):
    def here(tasks, work, jobs):
        yield from ((task, work(task)) for task in tasks)

    sweep(make.seeds(0, 1, 2), here, jobs=2, store=store, progress=False)
    assert [simulation.seeds for simulation in engine.built] == [[0], [1], [2]]
    assert {simulation.asked["workers"] for simulation in engine.built} == {1}


def test_what_a_launcher_gives_otherwise_is_named(store, engine, make):
    for wrong in (lambda tasks, work, jobs: [work(task) for task in tasks], lambda tasks, work, jobs: None):
        with pytest.raises(
            UserError, match=r"a launcher gives a pair a task, \(task, what work\(task\) gave\), not None"
        ):
            sweep(make.seeds(0, rounds=2 + engine.built.__len__()), wrong, store=store, progress=False)


@pytest.mark.parametrize(("launcher", "expected"), [("processes:2", [3, 1]), ("processes:3", [1, 1, 1, 1])])
def test_seeds_stay_together_where_there_are_packs_enough(launcher, expected, store, make, monkeypatch):
    handed = []

    def noting(self, tasks, work, jobs):
        handed.extend(len(task) for task in tasks)
        yield from ((task, "noted") for task in tasks)

    monkeypatch.setattr("pflrepro.experiments.launchers.Processes.__call__", noting)
    with pytest.raises(RunFailed, match="noted"):
        sweep([*make.seeds(0, 1, 2), make.experiment("local")], launcher, store=store, progress=False)
    assert handed == expected


def test_a_run_that_a_launcher_forgets_is_noticed(store, engine, make):
    with pytest.raises(RunFailed, match="not in the store"):
        sweep(make.seeds(0), lambda tasks, work, jobs: iter(()), store=store)


def test_what_stands_in_the_script_itself_is_refused_before_other_processes_start(store, engine, make, monkeypatch):
    class Mine(FedAvg):
        pass

    def net(shape, classes):
        return {"fc": [nn.Flatten(), nn.Linear(math.prod(shape), classes)]}

    Mine.__module__, Mine.__qualname__ = "__main__", "Mine"
    monkeypatch.setattr(sys.modules["__main__"], "Mine", Mine, raising=False)
    monkeypatch.setattr(Processes, "__call__", lambda *_: pytest.fail("processes start"))
    monkeypatch.setattr(sys.modules["__main__"], "net", net, raising=False)
    wanted = [make.experiment("fedavg"), make.experiment(Mine)]
    with pytest.raises(UserError, match=r"Mine stands in this script .* into a module, .* give my_module:Mine"):
        sweep(wanted, "processes:2", store=store)
    with pytest.raises(UserError, match=r"net stands in this script .* give my_module:net"):
        sweep([make.experiment("fedavg"), replace(make.experiment(), model="__main__:net")], "processes:2", store=store)
    assert engine.built == [] and list(store.runs()) == []
    assert len(sweep(wanted, lambda tasks, work, jobs: ((task, work(task)) for task in tasks), store=store)) == 2
    assert sweep(wanted, "processes:2", store=store)[1].experiment.algorithm == "__main__:Mine", "what is there is read"


def test_bad_input_is_refused_first(store, engine, make):
    with pytest.raises(UserError, match="unknown launcher 'process'; valid: processes, "):
        sweep(make.seeds(0), "process", store=store)
    with pytest.raises(UserError, match="jobs must be a whole number >= 1, not 0"):
        sweep(make.seeds(0), jobs=0, store=store)
    for how, said in (
        ({"backend": "lop"}, "unknown backend 'lop'; valid: loop"),
        ({"checkpoint_every": -1}, "checkpoint_every must be a number >= 0, not -1"),
        ({"callbacks": [3]}, "3 is none: it lacks start"),
    ):
        with pytest.raises(UserError, match=said):
            sweep(make.seeds(0), store=store, **how)
    assert engine.built == []


@pytest.mark.slow
def test_processes_give_the_runs_of_the_serial_launcher(tmp_path, make):
    wanted = make.seeds(0, 1, rounds=2, clients=3)
    there = sweep(wanted, "processes", jobs=2, store=tmp_path / "there", backend="loop")
    here = sweep(wanted, store=tmp_path / "here", backend="loop", workers=1, progress=False)
    for one, other in zip(there, here, strict=True):
        assert one.id == other.id
        assert make.same_but_timings(one.history, other.history)
        assert one.environment["threads"] == 1
