"""What a method may know of a cohort: weights, places, and state that belongs to a place."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.local import Local
from pflrepro.algorithms.phases import Draw, Phase
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.settings import Settings
from pflrepro.simulation.participants import participants
from pflrepro.simulation.schedule import pass_numbers, table
from pflrepro.trees import Tree

F64, ANY = torch.float64, Settings(1)


def test_places_are_dealt_out_anew_every_round(start) -> None:
    task = start(Method()).task
    places = [participants(task, ANY, 0, t, np.arange(5), F64).slot.tolist() for t in range(6)]
    assert all(sorted(row) == [0, 1, 2, 3, 4] for row in places) and len({tuple(row) for row in places}) > 3
    two = participants(task, ANY, 0, 3, np.array([1, 4]), F64)
    assert sorted(two.slot.tolist()) == [0, 1] and two.id.tolist() == [1, 4]
    assert two.p.tolist() == pytest.approx([3 / 33, 30 / 33]) and float(two.N) == 5


def test_equal_weights_are_a_setting_of_the_run(simulate, start) -> None:
    uniform = Settings(1, weights="uniform")
    assert participants(start(Method()).task, uniform, 0, 0, np.array([1, 3, 4]), F64).p.tolist() == [1 / 3] * 3
    equal = simulate(Method(), rounds=1, weights="uniform").replicas[0].server.params
    models = simulate(Local(), rounds=1).replicas[0].clients.params
    for mine, theirs in zip(equal.leaves(), models.map(lambda leaf: leaf.mean(0)).leaves(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)
    with pytest.raises(UserError, match="unknown weights of the average 'equal'; valid: "):
        Settings(1, weights="equal")


def test_a_cohort_without_samples_leaves_the_server_as_it_is(federation, simulate) -> None:
    rows = [federation.rows["train"][0], [], [], [], []]
    some = Federation(federation.x, federation.y, rows, federation.rows["test"], classes=federation.classes)
    simulation = simulate(Method(), rounds=0, federation=some, participation=0.4)
    start = simulation.replicas[0].server.params
    drawn = [simulation.dispatcher.cohort(simulation.replicas[0], t) for t in range(6)]
    assert any(0 not in ids for ids in drawn), "a round without data"
    for t in range(6):
        before = simulation.replicas[0].server.params
        simulation._train(simulation.method, simulation.dispatcher.clock(t), [drawn[t]])
        after = simulation.replicas[0].server.params
        still = max(float((a - b).abs().max()) for a, b in zip(before.leaves(), after.leaves(), strict=True))
        assert (still < 1e-12) == (0 not in drawn[t])
    assert all(bool(leaf.any()) for leaf in start.leaves())


@dataclass(frozen=True)
class Visitors(Method):
    """Every place keeps who was there last, and how many have been."""

    def init_client(self, setup, info):
        return super().init_client(setup, info) | Tree(slot=Tree(last=setup.zeros() - 1, visits=setup.zeros()))

    def finish(self, local, client, ctx):
        kept, upload = super().finish(local, client, ctx)
        seen = Tree(last=ctx.info.id.to(client.slot.last), visits=client.slot.visits + 1)
        return kept | Tree(slot=seen), upload | Tree(place=ctx.info.slot)

    def aggregate(self, server, uploads, cohort, ctx):
        assert torch.equal(uploads.place, cohort.slot)
        return super().aggregate(server, uploads, cohort, ctx)


@pytest.mark.parametrize("backend", ["loop", "batched", "graph"])
def test_state_of_a_place_is_found_by_whoever_has_it(simulate, backend: str) -> None:
    simulation = simulate(Visitors(), rounds=4, participation=0.6, backend=backend, seeds=[0, 1])
    for replica in simulation.replicas:
        last, visits = [-1.0] * 5, [0.0] * 5
        for t in range(4):
            ids = simulation.dispatcher.cohort(replica, t)
            places = participants(simulation.task, ANY, replica.seed, t, ids, F64).slot.tolist()
            for client, place in zip(ids.tolist(), places, strict=True):
                last[place], visits[place] = float(client), visits[place] + 1
        assert replica.clients.slot.last.tolist() == last
        assert replica.clients.slot.visits.tolist() == visits == [4, 4, 4, 0, 0]


def test_the_number_of_the_pass_of_every_step(federation) -> None:
    """Client 0 has 24 samples, client 1 three; batches of 5: five and one a pass, four and none where incomplete ones are dropped."""
    draws = {"epoch": Draw("pass")}
    keys = [(0, 0), (0, 1)]
    found = table(federation, Phase(draws=draws), Settings(1, batch_size=5, local_epochs=2, drop_last=False), 0, keys)
    assert found.draws["epoch"][0].tolist() == [0] * 5 + [1] * 5
    assert found.draws["epoch"][1].tolist() == [0, 1] + [0] * 8, "client 1 takes two steps; the rest is padding"
    dropped = table(federation, Phase(draws=draws), Settings(1, batch_size=5, local_epochs=2), 0, keys)
    assert dropped.draws["epoch"][0].tolist() == [0] * 4 + [1] * 4


@pytest.mark.parametrize("draw", [Draw("uniform", (3,)), Draw("normal", (2, 2)), Draw("beta", (), (0.2, 0.2))])
def test_common_draws_are_one_a_step_for_all_clients_of_a_seed(federation, draw: Draw) -> None:
    """Client 0 takes five steps, client 1 one: its number is the first of the same."""
    settings, keys = Settings(1, batch_size=5, drop_last=False), [(0, 0), (0, 1), (1, 0), (0, 4)]
    draws = {"own": draw, "common": replace(draw, common=True)}
    found, next_round = (table(federation, Phase(draws=draws), settings, t, keys) for t in (0, 1))
    common, own = found.draws["common"], found.draws["own"]
    assert found.steps.tolist() == [5, 1, 5, 6]
    assert np.array_equal(common[0, :5], common[3, :5]) and np.array_equal(common[0, :1], common[1, :1])
    assert not common[1, 1:].any(), "padding"
    for other in (common[2], next_round.draws["common"][0], own[0]):
        assert not np.array_equal(common[0, :5], other[:5])
    assert not np.array_equal(own[0, :5], own[3, :5])
    assert len({step.tobytes() for step in common[3]}) == 6, "another one at every step"


def test_with_a_fixed_number_of_steps_a_pass_is_as_many_samples_as_there_are() -> None:
    settings = Settings(1, batch_size=5, local_steps=8)
    assert pass_numbers(10, Phase(), settings, 8).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert pass_numbers(12, Phase(), settings, 6).tolist() == [0, 0, 0, 1, 1, 2], "samples 0, 5, 10, 15, 20, 25 of 12"
    assert pass_numbers(3, Phase(), settings, 3).tolist() == [0, 1, 3]
    assert pass_numbers(0, Phase(), settings, 0).tolist() == []
    assert pass_numbers(9, Phase(data="none", steps=3), settings, 3).tolist() == [0, 0, 0]
