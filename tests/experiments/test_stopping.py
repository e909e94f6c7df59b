"""SIGTERM and SIGHUP: the round at hand is finished, everything is saved, and the next call goes on there."""

from __future__ import annotations

import signal
import threading

import pytest

import pflrepro.cli
from pflrepro.errors import Stopped
from pflrepro.experiments.run import run
from pflrepro.experiments.stopping import listening, saved_first_in_a_job, stopping
from pflrepro.simulation.simulation import Simulation

SIGNALS = [signal.SIGTERM, signal.SIGHUP]


@pytest.fixture(autouse=True)
def nobody_else_handles_them():
    """As in a terminal: `nohup` and others leave SIGHUP ignored in all that they start."""
    before = {each: signal.signal(each, signal.SIG_DFL) for each in SIGNALS}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


def quick(experiments, store, fake, **how):
    return run(experiments, store=store, simulate=fake, progress=False, **{"checkpoint_every": 3600} | how)


def asked_in_round(number, sent):
    """A signal in the middle of a round."""

    def before_step(simulation):
        if simulation.round == number - 1:
            assert signal.getsignal(sent) not in (signal.SIG_DFL, signal.SIG_IGN), "it would end the tests"
            signal.raise_signal(sent)

    return before_step


@pytest.mark.parametrize("sent", SIGNALS)
def test_the_round_at_hand_is_finished_and_every_seed_saved(sent, store, fake, make, tmp_path, caplog):
    whole = quick(make.seeds(0, 1), tmp_path / "whole", fake)
    fake.built.clear()
    fake.before_step = asked_in_round(3, sent)
    with pytest.raises(Stopped) as stopped:
        quick(make.seeds(0, 1), store, fake)
    assert stopped.value.code == 75 and f"stopped by {sent.name}" in caplog.text
    assert len(list((store.root / "runs").glob("*/checkpoint.npz"))) == 2
    assert signal.getsignal(sent) is signal.SIG_DFL and not stopping.asked
    fake.before_step = None
    runs = quick(make.seeds(0, 1), store, fake)
    assert [simulation.steps for simulation in fake.built] == [3, 1]
    assert all(make.same_but_timings(one.history, other.history) for one, other in zip(runs, whole, strict=True))


def test_in_the_last_round_the_run_is_filed_first(store, fake, make):
    fake.before_step = asked_in_round(4, signal.SIGTERM)
    with pytest.raises(Stopped):
        quick([make.experiment(), make.experiment(rounds=5, seed=1)], store, fake)
    assert [len(found) for found in store.health()] == [1, 0, 0] and len(fake.built) == 1


def test_before_anything_is_trained_the_process_ends_at_once(store, make):
    def building(*arguments, **how):
        asked_in_round(1, signal.SIGTERM)(type("Before", (), {"round": 0}))

    with pytest.raises(Stopped):
        quick(make.experiment(), store, building)


def test_the_second_signal_is_the_default_s_and_other_handlers_are_left_alone(store, fake, make):
    seen = []
    before = signal.signal(signal.SIGTERM, lambda *_: seen.append("ours"))
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        fake.before_step = lambda simulation: [signal.raise_signal(each) for each in SIGNALS]
        assert quick(make.experiment(), store, fake).rounds == 4 and seen == ["ours"] * 4
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGHUP, ignored)
    with listening(), pytest.raises(Stopped), stopping.saving_first():
        signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL and stopping.asked == "SIGTERM"


def test_in_another_thread_nothing_is_touched(store, fake, make):
    seen = []
    fake.before_step = lambda simulation: seen.append(signal.getsignal(signal.SIGTERM))
    worker = threading.Thread(target=quick, args=(make.experiment(), store, fake))
    worker.start()
    worker.join()
    assert seen == [signal.SIG_DFL] * 4


def test_in_a_job_the_scheduler_s_signal_is_handled_when_all_is_saved(store, fake, make, monkeypatch):
    handled = []

    def handler(number, frame):
        handled.append((number, len(list((store.root / "runs").glob("*/checkpoint.npz")))))

    before = signal.signal(signal.SIGUSR2, handler)
    monkeypatch.setenv("SUBMITIT_EXECUTOR", "slurm")
    fake.before_step = asked_in_round(3, signal.SIGUSR2)
    try:
        with pytest.raises(Stopped), saved_first_in_a_job():
            quick(make.seeds(0, 1), store, fake)
        assert handled == [(signal.SIGUSR2, 2)] and signal.getsignal(signal.SIGUSR2) is handler
        assert fake.built[0].round == 3 and not stopping.asked
        monkeypatch.delenv("SUBMITIT_EXECUTOR")  # elsewhere the signal is the program's own
        with saved_first_in_a_job():
            assert signal.getsignal(signal.SIGUSR2) is handler
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_the_command_has_an_exit_code_of_its_own(tmp_path, monkeypatch, capsys):
    step = Simulation.step

    def asked(simulation):
        asked_in_round(2, signal.SIGTERM)(simulation)
        step(simulation)

    monkeypatch.setattr(Simulation, "step", asked)
    words = ["run", "--algorithm", "fedavg", "--clients", "3", "--rounds", "3", "--model", "mlp", "--backend", "loop"]
    words += ["--store", str(tmp_path), "--workers", "1", "--quiet"]
    assert pflrepro.cli.main(words) == 75
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(Simulation, "step", step)
    assert pflrepro.cli.main(words) == 0
    assert "3 rounds" in capsys.readouterr().out


def test_an_interrupt_says_where_the_same_call_goes_on(store, fake, make, capsys, monkeypatch):
    def interrupt(simulation):
        raise KeyboardInterrupt

    fake.before_step = interrupt
    with pytest.raises(KeyboardInterrupt, match="no round was saved yet"):
        quick(make.experiment(), store, fake)
    fake.before_step = lambda simulation: interrupt(simulation) if simulation.round == 3 else None
    how = {"checkpoint_every": 0}
    monkeypatch.setattr(pflrepro.cli.run, "handle", lambda arguments: quick(make.experiment(), store, fake, **how))
    assert pflrepro.cli.main(["run", "--algorithm", "fedavg"]) == 130
    assert capsys.readouterr().err == (
        "pflrepro: interrupted: what was trained until round 3 is in the store, and the same call goes on there\n"
    )
