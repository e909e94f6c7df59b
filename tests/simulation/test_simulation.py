"""Rounds, tests and histories."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from helpers import differing, equal

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.fedavg import FedAvg
from pflrepro.algorithms.fedper import FedPer
from pflrepro.algorithms.phases import Phase
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.settings import Settings
from pflrepro.simulation import Simulation


def test_no_round_still_tests_the_untrained_model(simulate) -> None:
    simulation = simulate(FedAvg(), rounds=0)
    history = simulation.history(0)
    assert simulation.finished and simulation.round == 0 and history["round"].tolist() == [0]
    assert (history["correct_after"] == -1).all() and not history["participated"].any()


def test_a_finished_simulation_stays_as_it_is(simulate) -> None:
    simulation = simulate(FedAvg())
    before = simulation.state()
    simulation.step()
    after = simulation.state()
    assert before.keys() == after.keys() and all(equal(before[name], after[name]) for name in before)


def test_round_counts_and_the_end(start) -> None:
    simulation = start(FedAvg(), rounds=2)
    seen = []
    while not simulation.finished:
        simulation.step()
        seen.append(simulation.round)
    assert seen == [1, 2]


@pytest.mark.parametrize(("every", "rounds"), [(2, [0, 2, 4, 5]), (5, [0, 5]), (9, [0, 5])])
def test_tests_every_so_many_rounds_and_after_the_last(simulate, every: int, rounds: list[int]) -> None:
    history, whole = (simulate(FedPer(), rounds=5, every=e, participation=0.6).history(0) for e in (every, 1))
    assert history["round"].tolist() == rounds
    for name in ("correct", "loss", "correct_after", "participated"):
        assert (history[name] == whole[name][rounds]).all(), name


def test_without_tests_after_local_training_there_are_none(simulate) -> None:
    history = simulate(FedAvg(), evaluate_after=False).history(0)
    assert (history["correct_after"] == -1).all()


def test_scores_after_training_stay_those_of_the_last_training(simulate) -> None:
    history = simulate(FedPer(), rounds=4, participation=0.4).history(0)
    for e in range(1, 5):
        absent = ~history["participated"][e]
        assert (history["correct_after"][e][absent] == history["correct_after"][e - 1][absent]).all()


def test_seconds_are_measured(simulate) -> None:
    history = simulate(FedAvg()).history(0)
    assert (
        history["seconds"][0] == 0 and (history["seconds"][1:] > 0).all() and (history["seconds_evaluation"] > 0).all()
    )


def test_aggregation_is_timed_apart(simulate, monkeypatch) -> None:
    """Every look at the watch is a second later: training and aggregation lie between looks 1, 2, 3 and 4 of a round."""
    looks = itertools.count()
    monkeypatch.setattr("pflrepro.simulation.simulation.now", lambda device: float(next(looks)))
    history = simulate(FedAvg(), rounds=4, every=2).history(0)
    assert history["seconds"].tolist() == [0.0, 6.0, 6.0]
    assert history["seconds_aggregation"].tolist() == [0.0, 2.0, 2.0]
    assert history["seconds_evaluation"].tolist() == [1.0] * 3


def test_with_selected_receivers_an_absent_client_is_tested_with_what_it_trained_last(simulate) -> None:
    """FedAvg: a client that trained in round t - 1 and is not drawn for round t holds its own trained model."""
    simulation = simulate(FedAvg(), rounds=6, participation=0.4, receivers="selected")
    history, replica = simulation.history(0), simulation.replicas[0]
    checked = 0
    for e in range(1, 7):
        trained, next_cohort = history["participated"][e], simulation.dispatcher.cohort(replica, e)
        left = np.setdiff1d(np.flatnonzero(trained), next_cohort)
        assert (history["correct"][e][left] == history["correct_after"][e][left]).all()
        checked += len(left)
    assert checked >= 4


def test_with_everyone_present_selected_receivers_are_all(simulate) -> None:
    everyone, selected = (simulate(FedAvg(), receivers=receivers).history(0) for receivers in ("all", "selected"))
    assert (everyone["correct"] == selected["correct"]).all() and (everyone["loss"] == selected["loss"]).all()


def test_traffic_counts_the_numbers_that_move(simulate) -> None:
    base, head = 65 * 32, 33 * 6
    assert simulate(FedAvg(), participation=0.4).traffic == {"numbers_down": base + head, "numbers_up": base + head}
    assert simulate(FedPer()).traffic == {"numbers_down": base, "numbers_up": base}


def test_the_global_generators_are_neither_used_nor_moved(simulate) -> None:
    import random

    import torch

    torch.manual_seed(1), np.random.seed(1), random.seed(1)
    states = torch.random.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    first = simulate(FedPer(), participation=0.6, model="mlp").state()
    assert torch.equal(torch.random.get_rng_state(), states[0])
    assert (np.random.get_state()[1] == states[1]).all() and random.getstate() == states[2]
    torch.manual_seed(2), np.random.seed(2), random.seed(2)
    second = simulate(FedPer(), participation=0.6).state()
    assert differing(first, second) == []


def test_a_seed_that_is_not_there_has_no_history(start) -> None:
    simulation = start(FedAvg(), seeds=np.array([4, 7]))
    assert simulation.seeds == [4, 7] and simulation.history(1)["test_samples"].tolist() == [4, 4, 4, 5, 0]
    for index in (2, -1, "a"):
        for look in (simulation.history, simulation.state_of):
            with pytest.raises(UserError, match=r"the index of a seed must lie in 0\.\.1 \(seeds \[4, 7\]\), not "):
                look(index)


def test_nobody_to_train_is_refused_and_nobody_to_test_is_said(start, federation, caplog) -> None:
    nobody, facts = [[]] * federation.clients, {"classes": federation.classes}
    tested = Federation(federation.x, federation.y, nobody, federation.rows["test"], **facts)
    with pytest.raises(UserError, match="no client has a training sample: 2 rounds would train nothing"):
        start(FedAvg(), federation=tested)
    assert start(FedAvg(), rounds=0, federation=tested).task.clients == 5, "new clients are only tested"
    assert caplog.messages == []
    start(FedAvg(), federation=Federation(federation.x, federation.y, federation.rows["train"], nobody, **facts))
    assert caplog.messages == ["no client has a test sample: nothing will be measured"]


def test_the_public_signature_stands() -> None:
    import inspect

    names = list(inspect.signature(Simulation).parameters)
    assert names[:9] == ["method", "federation", "model", "settings", "seeds", "backend", "device", "workers", "chunk"]
    assert names[9:] == ["memory", "dtype"]


def test_two_phases_of_one_name_are_refused(simulate) -> None:
    @dataclass(frozen=True)
    class Twice(Method):
        def phases(self, clock):
            return [Phase("train"), Phase("train", rate={"head": 0.0})]

    with pytest.raises(UserError, match=r"^the phases of a round need different names, not train, train$"):
        simulate(Twice())


def test_a_record_every_other_round_holds_the_time_of_both(start, monkeypatch) -> None:
    clock = iter(range(1000))
    simulation = start(FedAvg(), rounds=3, every=2)
    monkeypatch.setattr("pflrepro.simulation.watch.time.perf_counter", lambda: float(next(clock)))
    while not simulation.finished:
        simulation.step()
    assert [int(t) for t in simulation.replicas[0].history["round"]] == [0, 2, 3]
    none, both, last = (float(seconds) for seconds in simulation.replicas[0].history["seconds"])
    assert none == 0 and last > 0 and both == 2 * last  # the made-up clock goes on by 1 whenever it is read


def test_the_work_is_done_where_the_caller_says(start, federation) -> None:
    moved = federation.to("cpu")
    assert moved is not federation and moved.x.data_ptr() == federation.x.data_ptr()
    simulation = Simulation(FedAvg(), federation, "mlp", Settings(1), [0], device="cpu", backend="loop")
    assert simulation.device.type == "cpu" and simulation.federation.device.type == "cpu"


def test_a_round_works_with_one_thread_and_leaves_the_number_of_threads_as_it_was(start) -> None:
    seen = []

    class Watches(FedAvg):
        def step(self, local, batch, ctx):
            seen.append(torch.get_num_threads())
            return super().step(local, batch, ctx)

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        start(Watches(), backend="batched").step()
        assert set(seen) == {1} and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
