"""Callbacks: what they are told, when, and that nothing of a run depends on them; trackers, with fakes where there is a server."""

from __future__ import annotations

import pickle
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from pflrepro.errors import Paused, RunFailed, UserError
from pflrepro.experiments import Callback, MLflow, Store, TensorBoard, WandB, trackers
from pflrepro.experiments.run import identify, run
from pflrepro.experiments.sweep import sweep


class Recorder(Callback):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple] = []

    def start(self, jobs, round) -> None:
        self.told.append(("start", [job.id for job in jobs], round))

    def round(self, round, scores) -> None:
        self.told.append(("round", round, scores))

    def end(self, runs) -> None:
        self.told.append(("end", [each.id for each in runs]))

    @property
    def rounds(self) -> list[int]:
        return [told[1] for told in self.told if told[0] == "round"]


@pytest.fixture
def quick(store, fake):
    """Train with the fake engine, and these callbacks."""

    def train(experiments, *callbacks, **how):
        return run(experiments, **{"store": store, "simulate": fake, "progress": False} | how, callbacks=callbacks)

    return train


def break_before(fake, round: int, error: BaseException) -> None:
    def before_step(simulation) -> None:
        if simulation.round == round:
            raise error

    fake.before_step = before_step


def test_every_round_is_told_in_order_with_the_numbers_of_the_run(quick, make) -> None:
    told = Recorder()
    runs = quick([*make.seeds(0, 1), make.experiment("local")], told)
    ids = [each.id for each in runs]
    assert [one[0] for one in told.told] == ["start", *["round"] * 5, "end"] * 2
    assert told.told[0] == ("start", ids[:2], 0) and told.told[6] == ("end", ids[:2])
    assert told.told[7] == ("start", ids[2:], 0) and told.told[-1] == ("end", ids[2:])
    assert told.rounds == [0, 1, 2, 3, 4] * 2
    for each, place in zip(runs[:2], (0, 1), strict=True):
        lines = each.frame().set_index("round")
        for _, round, scores in told.told[1:6]:
            assert set(scores[place]) == set(lines.columns)
            np.testing.assert_array_equal(list(scores[place].values()), lines.loc[round].tolist())


def test_a_run_is_the_same_with_and_without(quick, make, tmp_path) -> None:
    plain = quick(make.experiment())
    watched = quick(make.experiment(), Recorder(), store=Store(tmp_path / "watched"))
    assert watched.id == plain.id and dict(watched.identity) == dict(plain.identity)
    assert make.same_but_timings(watched.history, plain.history)


def test_nothing_is_told_of_what_is_there(quick, make) -> None:
    quick(make.experiment())
    told = Recorder()
    quick(make.experiment(), told)
    assert told.told == []


def test_rounds_without_a_test_have_no_scores(quick, make) -> None:
    told = Recorder()
    quick(make.experiment(every=2, rounds=5), told)
    assert {one[1]: len(one[2]) for one in told.told if one[0] == "round"} == {0: 1, 1: 0, 2: 1, 3: 0, 4: 1, 5: 1}


def test_of_a_run_that_goes_on_the_rounds_of_before_are_told_too(quick, fake, make) -> None:
    break_before(fake, 2, KeyboardInterrupt())
    first = Recorder()
    with pytest.raises(KeyboardInterrupt):
        quick(make.experiment(), first, checkpoint_every=0)
    assert first.told[-1] == ("end", [])
    fake.before_step = None
    told = Recorder()
    whole = quick(make.experiment(), told)
    assert told.told[0] == ("start", [whole.id], 2) and told.rounds == [0, 1, 2, 3, 4]
    assert [one[2][0]["accuracy"] for one in told.told[1:-1]] == whole.curve.tolist()


def test_a_run_that_breaks_ends_with_none(quick, fake, make) -> None:
    break_before(fake, 1, ValueError("broken"))
    told = Recorder()
    with pytest.raises(RunFailed, match="broken"):
        quick(make.experiment(), told)
    assert told.told[-1] == ("end", [])


def test_one_that_raises_is_told_no_more_and_the_run_goes_on(quick, make, caplog) -> None:
    class Broken(Recorder):
        def round(self, round, scores) -> None:
            super().round(round, scores)
            raise ConnectionError("no\nserver")

    broken, told = Broken(), Recorder()
    assert quick(make.experiment(), broken, told).rounds == 4
    assert broken.rounds == [0] and told.rounds == [0, 1, 2, 3, 4]
    assert [each.message for each in caplog.records] == [
        "the callback Broken is told no more, round failed: ConnectionError: no server"
    ]


def test_one_that_pauses_stops_the_run_which_goes_on_from_there(quick, fake, make, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("pflrepro.experiments.training.LOOK_EVERY", 0.0)

    class Enough(Recorder):
        def round(self, round, scores) -> None:
            super().round(round, scores)
            if round == 2:
                raise Paused("enough")

    enough, beside = Enough(), Recorder()
    with pytest.raises(Paused, match="enough"):
        quick(make.experiment(), enough, beside, checkpoint_every=1000.0)
    assert enough.rounds == beside.rounds == [0, 1, 2] and enough.told[-1] == ("end", [])
    again = quick(make.experiment())
    assert fake.built[-1].steps == 2, "what was trained until then was saved"
    assert make.same_but_timings(again.history, quick(make.experiment(), store=Store(tmp_path / "whole")).history)


def test_one_that_pauses_at_the_end_stops_what_would_be_trained_next(quick, fake, make) -> None:
    class One(Recorder):
        def end(self, runs) -> None:
            super().end(runs)
            raise Paused("one is enough")

    one = One()
    with pytest.raises(Paused, match="one is enough"):
        quick([make.experiment(), make.experiment(lr=0.5)], one)
    assert len(fake.built) == 1 and [told[0] for told in one.told].count("end") == 1


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (Recorder, "is none: it is a class"),
        (print, "lacks start"),
        (SimpleNamespace(start=print, end=print), "lacks round"),
    ],
)
def test_what_is_no_callback_is_refused_before_anything_is_trained(quick, fake, make, wrong, said) -> None:
    with pytest.raises(UserError, match=rf"start, round, end; .*{said}"):
        quick(make.experiment(), wrong)
    assert fake.built == []


def test_a_sweep_tells_where_a_task_is_trained(store, fake, make, monkeypatch) -> None:
    monkeypatch.setattr("pflrepro.experiments.training.Simulation", fake)
    told, copies = Recorder(), []

    def launch(tasks, work, jobs):
        for task in tasks:
            there = pickle.loads(pickle.dumps(work))  # as a launcher with processes does
            copies.extend(there.callbacks)
            yield task, there(task)

    runs = sweep(make.seeds(0, 1), launch, jobs=1, store=store, callbacks=[told])
    assert told.told == [] and [copy.told[-1] for copy in copies] == [("end", [each.id for each in runs])]


# ---- trackers --------------------------------------------------------------------------------------------------------------------
def test_tensorboard_has_the_curves_once_also_of_a_run_that_goes_on(quick, fake, make, tmp_path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = tmp_path / "events"
    break_before(fake, 2, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        quick(make.seeds(0, 1), TensorBoard(folder), checkpoint_every=0)
    fake.before_step = None
    runs = quick(make.seeds(0, 1), TensorBoard(folder))
    for seed, each in enumerate(runs):
        [path] = folder.glob(f"fedavg-digits-seed{seed}-{each.id[:8]}")
        events = EventAccumulator(str(path)).Reload()
        found = events.Scalars("accuracy")
        assert [one.step for one in found] == [0, 1, 2, 3, 4]
        np.testing.assert_allclose([one.value for one in found], each.curve, rtol=1e-6)
        assert each.command in events.Tensors("command/text_summary")[0].tensor_proto.string_val[0].decode()


class FakeWandB(ModuleType):
    """`wandb`, as far as it is called: runs by their ids, which keep their steps."""

    def __init__(self) -> None:
        super().__init__("wandb")
        self.runs: dict[str, SimpleNamespace] = {}

    def init(self, *, id, **how):
        found = self.runs.setdefault(id, SimpleNamespace(id=id, how=how, step=0, lines=[], ended=[]))

        def log(line, step) -> None:
            assert step >= found.step
            found.step = step + 1
            found.lines.append((step, line))

        found.log, found.finish = log, lambda exit_code: found.ended.append(exit_code)
        return found


@pytest.fixture
def installed(monkeypatch):
    """A module in place of a package."""

    def put(module: ModuleType) -> None:
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(trackers, "find_spec", lambda package: package == module.__name__ or None)

    return put


def test_wandb_goes_on_with_a_run_where_the_run_does(quick, fake, make, installed) -> None:
    wandb = FakeWandB()
    installed(wandb)
    break_before(fake, 2, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        quick(make.seeds(0, 1), WandB("mine", mode="offline"), checkpoint_every=0)
    fake.before_step = None
    runs = quick(make.seeds(0, 1), WandB("mine", mode="offline"))
    assert list(wandb.runs) == [each.id for each in runs]
    for seed, (found, each) in enumerate(zip(wandb.runs.values(), runs, strict=True)):
        assert [(step, line["accuracy"]) for step, line in found.lines] == list(enumerate(each.curve))
        assert found.how["project"] == "mine" and found.how["mode"] == "offline"
        assert found.how["name"] == f"fedavg-digits-seed{seed}-{each.id[:8]}"
        assert found.how["config"] | {"algorithm": "fedavg", "seed": seed, "clients": 5} == found.how["config"]
        assert found.ended == [1, 0]


def test_mlflow_has_a_run_a_call_with_curves_and_settings(quick, make, installed) -> None:
    made = []

    class Client:
        def __init__(self, uri) -> None:
            assert uri == "file:here"

        def get_experiment_by_name(self, name):
            return SimpleNamespace(experiment_id="7") if made else None

        def create_experiment(self, name) -> str:
            assert name == "mine"
            return "7"

        def create_run(self, experiment, run_name, tags):
            made.append(SimpleNamespace(name=run_name, tags=tags, params={}, metrics=[], status=None))
            assert experiment == "7"
            return SimpleNamespace(info=SimpleNamespace(run_id=len(made) - 1))

        def log_param(self, run, name, value) -> None:
            made[run].params[name] = value

        def log_metric(self, run, name, value, step) -> None:
            made[run].metrics.append((name, step, value))

        def set_terminated(self, run, status) -> None:
            made[run].status = status

    module = ModuleType("mlflow")
    module.MlflowClient = Client
    installed(module)
    runs = quick([*make.seeds(0, 1), make.experiment("local")], MLflow("mine", "file:here"))
    assert [each.tags["pflrepro.run"] for each in made] == [each.id for each in runs]
    for found, each in zip(made, runs, strict=True):
        curve = [(step, value) for name, step, value in found.metrics if name == "accuracy"]
        assert curve == list(enumerate(each.curve)) and found.status == "FINISHED"
        assert found.params["rounds"] == 4 and found.params["seed"] == each.experiment.seed


@pytest.mark.parametrize("kind", [TensorBoard, WandB, MLflow])
def test_a_tracker_whose_package_is_not_there_says_what_to_install(kind, monkeypatch) -> None:
    monkeypatch.setattr(trackers, "find_spec", lambda package: None)
    with pytest.raises(UserError, match=rf"pip install 'pflrepro\[{kind.__name__.lower()}\]'"):
        kind()


def test_names_of_folders_hold_no_path(make) -> None:
    [job] = identify([make.experiment("gpfl/without-cov")])
    assert trackers._name(job) == f"gpfl_without-cov-digits-seed0-{job.id[:8]}"
