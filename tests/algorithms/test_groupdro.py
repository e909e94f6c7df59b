"""GroupDRO: exponentiated-gradient weights over clients."""

from __future__ import annotations

import math

import pytest
import torch
from helpers.trees import assert_close

from pflrepro.algorithms.groupdro import GroupDRO
from pflrepro.algorithms.qffl import QFFL
from pflrepro.algorithms.task import Context
from pflrepro.algorithms.variants.groupdro import FedBRGroupDRO
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.trees import Tree


def numbers(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_two_rounds_by_hand() -> None:
    """Clients 0 and 2, then 0 and 1, with step log 2: omega = (2, 1, 4), then (4, 8, 4)."""
    method, ctx = GroupDRO(weight_step=math.log(2)), Context(task=None, kinds={}, scalars=Tree())
    server = Tree(params=Tree(base=Tree(w=numbers(0.0))), log_weights=numbers(0, 0, 0))
    for ids, losses, models, omega, expected in (
        ([0, 2], numbers(1, 2), numbers(3, 6), numbers(2, 1, 4), (2 * 3 + 4 * 6) / 6),
        ([0, 1], numbers(1, 3), numbers(9, 3), numbers(4, 8, 4), (4 * 9 + 8 * 3) / 12),
    ):
        uploads = Tree(params=Tree(base=Tree(w=models[:, None])), F=losses)
        server = server | method.aggregate(server, uploads, Tree(id=torch.tensor(ids)), ctx)
        torch.testing.assert_close(server.log_weights.exp(), omega)
        torch.testing.assert_close(server.params.base.w, numbers(expected))


def test_large_losses_do_not_overflow() -> None:
    server = Tree(params=Tree(base=Tree(w=torch.zeros(1))), log_weights=torch.tensor([500.0, 0.0]))
    uploads = Tree(params=Tree(base=Tree(w=torch.tensor([[1.0], [2.0]]))), F=torch.tensor([1e4, 0.0]))
    ctx = Context(task=None, kinds={}, scalars=Tree())
    new = GroupDRO().aggregate(server, uploads, Tree(id=torch.tensor([0, 1])), ctx)
    assert new.params.base.w.tolist() == [1.0] and new.log_weights.tolist() == [600.0, 0.0]


def test_step_zero_is_the_uniform_average(simulate) -> None:
    settings = {"rounds": 3, "participation": 0.6}
    ours, uniform = (
        simulate(method, **settings).replicas[0].server for method in (GroupDRO(weight_step=0.0), QFFL(0.0))
    )
    assert_close(ours.params, uniform.params)
    assert not ours.log_weights.any()


def test_equal_losses_are_the_uniform_average(federation, simulate) -> None:
    rows = federation.rows["train"][0]
    same = Federation(federation.x, federation.y, [rows] * 3, [rows[:3]] * 3, classes=federation.classes)
    settings = {"federation": same, "batch_size": 100, "rounds": 3}
    ours, fedavg = (simulate(method, **settings).replicas[0].server for method in (GroupDRO(weight_step=5.0), "fedavg"))
    assert_close(ours.params, fedavg.params)
    torch.testing.assert_close(ours.log_weights, ours.log_weights[0].expand(3))


def test_the_first_loss_is_that_of_the_mixed_batch(simulate) -> None:
    """With Mixup it is another one in the first round already, though nobody has trained."""
    mixed, plain = (
        simulate(name, rounds=1, batch_size=100).replicas[0].server.log_weights
        for name in ("pflrepro.algorithms.groupdro:GroupDRO+mixup", "pflrepro.algorithms.groupdro:GroupDRO")
    )
    assert bool(((mixed - plain).abs() > 1e-6).any())


def test_a_negative_step_is_refused() -> None:
    with pytest.raises(UserError, match="weight_step of GroupDRO must be"):
        GroupDRO(weight_step=-0.1)


# ---- FedBR's variant: state by place, momentum that goes on --------------------------------------------------------------------------
def test_the_weights_of_places() -> None:
    """Clients 0 and 2 at places 1 and 0, then 2 and 1 at places 0 and 1: place 0 has seen losses 2 and 1, place 1 losses 1 and 3."""
    method, ctx = FedBRGroupDRO(weight_step=math.log(2)), Context(task=None, kinds={}, scalars=Tree())
    server = Tree(params=Tree(base=Tree(w=numbers(0.0))), log_weights=numbers(0, 0, 0))
    for ids, places, losses in (([0, 2], [1, 0], numbers(1, 2)), ([2, 1], [0, 1], numbers(1, 3))):
        uploads = Tree(params=Tree(base=Tree(w=numbers(3, 6)[:, None])), F=losses)
        cohort = Tree(id=torch.tensor(ids), slot=torch.tensor(places))
        server = server | method.aggregate(server, uploads, cohort, ctx)
    torch.testing.assert_close(server.log_weights.exp(), numbers(8, 16, 1))
    torch.testing.assert_close(server.params.base.w, numbers((8 * 3 + 16 * 6) / 24))


def test_kept_momentum_joins_two_rounds_into_one_of_two_passes(federation, simulate) -> None:
    """One client, one full batch a pass: two rounds with kept momentum are one round of two local epochs."""
    rows = federation.rows["train"][0]
    alone = Federation(federation.x, federation.y, [rows], [rows[:3]], classes=federation.classes)
    settings = {"federation": alone, "batch_size": len(rows), "momentum": 0.9}
    kept, fresh = (simulate(kind(), rounds=2, **settings) for kind in (FedBRGroupDRO, GroupDRO))
    joined = simulate("fedavg", rounds=1, local_epochs=2, **settings)
    assert_close(kept.replicas[0].server.params, joined.replicas[0].server.params)
    assert float((fresh.replicas[0].server.params - joined.replicas[0].server.params).squared_norm()) > 1e-8


def test_without_momentum_nothing_is_kept(simulate) -> None:
    assert not simulate(FedBRGroupDRO()).replicas[0].clients.has_leaves()


def test_momentum_of_a_place_is_whoever_was_there(simulate) -> None:
    settings = {"participation": 0.4, "momentum": 0.9, "rounds": 3}
    slots = simulate(FedBRGroupDRO(), **settings).replicas[0].clients.slot.momentum
    used = [any(bool(leaf[k].any()) for leaf in slots.leaves()) for k in range(5)]
    assert used == [True, True, False, False, False], "two clients a round have two places"
