"""APPLE: its two updates, its scheduler, its limits."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from helpers.trees import assert_close

from pflrepro.algorithms import build_method
from pflrepro.algorithms.apple import Apple
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.models import build_model
from pflrepro.trees import Tree


@dataclass(frozen=True)
class OwnCoreOnly(Apple):
    """APPLE whose weights start at e_i."""

    def init_client(self, setup, info):
        client = super().init_client(setup, info)
        return client | Tree(params=Tree(weights=Tree(p=(setup.info.id == info.id).to(setup.dtype))))


def test_with_the_own_core_alone_it_is_local_training(simulate) -> None:
    settings = {"rounds": 3, "participation": 0.6, "momentum": 0.5, "weight_decay": 0.01}
    ours = simulate(OwnCoreOnly(weight_rate=0.0), **settings)
    alone = simulate("local", **settings)
    assert_close(ours.replicas[0].server.cores, alone.replicas[0].clients.params)
    for name in ("correct", "correct_after"):
        assert (ours.history(0)[name] == alone.history(0)[name]).all()


def test_a_single_client_is_plain_training(federation, simulate) -> None:
    train, test = ([federation.rows[split][0]] for split in ("train", "test"))
    one = Federation(federation.x, federation.y, train, test, classes=federation.classes)
    ours = simulate("apple", federation=one, options={"weight_rate": 0.0}).replicas[0].server.cores[0]
    assert_close(ours, simulate("fedavg", federation=one).replicas[0].server.params)


def test_two_rounds_by_hand(federation, simulate) -> None:
    """Full batches: one step a round on the own core and on p, from one gradient at the mixture of the received cores."""
    eta, eta_p, mu, n = 0.05, 0.3, 0.7, len(federation.rows["train"])
    options = {"weight_rate": eta_p, "mu": mu, "horizon": 1.0}
    ours = simulate("apple", options=options, batch_size=100, lr=eta).replicas[0]
    split = build_model("mlp", federation.shape, federation.classes, 0)
    model = torch.nn.Sequential(split.base, split.head).double()
    start = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    sizes = torch.as_tensor(federation.sizes("train")).double()
    prior = sizes / sizes.sum()
    cores, weights = start.repeat(n, 1), prior.repeat(n, 1)
    for strength in (1.0, 1e-3**0.5):  # 0.001^(r / 2) for r = 0, 1
        received = cores.clone()
        for i, rows in enumerate(federation.rows["train"]):
            torch.nn.utils.vector_to_parameters(weights[i] @ received, model.parameters())
            x, y = federation.batch(torch.as_tensor(rows), torch.float64)
            grads = torch.autograd.grad(F.cross_entropy(model(x), y), tuple(model.parameters()))
            g = torch.cat([leaf.flatten() for leaf in grads])
            cores[i] = received[i] - eta * weights[i, i] * g
            weights[i] = weights[i] - eta_p * (received @ g + strength * mu * (weights[i] - prior))
    torch.testing.assert_close(ours.clients.params.weights.p, weights, rtol=0, atol=1e-12)
    mine = torch.cat([ours.server.cores.flat()[path].flatten(1) for path in ("base/1.weight", "base/1.bias")], 1)
    head = torch.cat([ours.server.cores.flat()[path].flatten(1) for path in ("head/weight", "head/bias")], 1)
    torch.testing.assert_close(torch.cat([mine, head], 1), cores, rtol=0, atol=1e-12)


def test_the_scheduler() -> None:
    assert [Apple(horizon=0.5).strength(t, 8) for t in (0, 2, 4, 7)] == pytest.approx([1, 1e-3**0.5, 0, 0])
    assert Apple(horizon=0.0).strength(0, 8) == 0


def test_the_server_announces_the_scheduler(simulate) -> None:
    strengths = [
        float(simulate("apple", rounds=4, options={"horizon": h}).replicas[0].server.strength) for h in (0.0, 1.0)
    ]
    assert strengths == [0.0, 0.0]
    assert float(simulate("apple", rounds=0).replicas[0].server.strength) == 1.0


@pytest.mark.parametrize("options", [{"weight_rate": -1.0}, {"horizon": 2.0}, {"mu": -1.0}])
def test_impossible_values_are_refused(options: dict) -> None:
    with pytest.raises(UserError, match=f"option {next(iter(options))} of apple must be "):
        build_method("apple", options)
