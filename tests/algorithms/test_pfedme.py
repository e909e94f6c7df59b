"""pFedMe: its inner and outer steps, what is tested."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from helpers.trees import assert_close

from pflrepro.algorithms import Phase, build_method
from pflrepro.algorithms.pfedme import DECAY, PFedMe
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.models import build_model
from pflrepro.settings import Settings
from pflrepro.simulation.schedule import batches
from pflrepro.trees import Tree


def network(federation: Federation) -> torch.nn.Module:
    split = build_model("mlp", federation.shape, federation.classes, 0)
    return torch.nn.ModuleDict({"base": split.base, "head": split.head}).double()


def gradient(
    model: torch.nn.Module, at: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor
) -> dict[str, torch.Tensor]:
    leaves = {name: value.detach().requires_grad_() for name, value in at.items()}
    base = {name.removeprefix("base."): leaf for name, leaf in leaves.items() if name.startswith("base.")}
    head = {name.removeprefix("head."): leaf for name, leaf in leaves.items() if name.startswith("head.")}
    z = torch.func.functional_call(model["base"], base, (x,))
    loss = F.cross_entropy(torch.func.functional_call(model["head"], head, (z,)), y)
    return dict(zip(leaves, torch.autograd.grad(loss, tuple(leaves.values())), strict=True))


def first(federation: Federation) -> Federation:
    train, test = (federation.rows[split][:1] for split in ("train", "test"))
    return Federation(federation.x, federation.y, train, test, classes=federation.classes)


def test_the_steps_by_hand(federation, simulate) -> None:
    """Two rounds of one client with several batches; momentum and weight decay of the run touch nothing."""
    alone, lam, rate, eta = first(federation), 4.0, 0.02, 0.03
    options = {"lam": lam, "inner_steps": 3, "personal_rate": rate}
    settings = {"federation": alone, "lr": eta, "momentum": 0.9, "weight_decay": 0.2}
    ours = simulate("pfedme", options=options, **settings).replicas[0]
    model = network(alone)
    w = {name: value.detach().clone() for name, value in model.named_parameters()}
    for t in range(2):
        theta = dict(w)
        for rows in batches(alone, Phase(), Settings(2, batch_size=5, drop_last=False), 0, t, 0, "clients/train"):
            x, y = alone.batch(torch.as_tensor(rows), torch.float64)
            for _ in range(3):
                g = gradient(model, theta, x, y)
                theta = {k: v - rate * (g[k] + lam * (v - w[k]) + 0.001 * v) for k, v in theta.items()}
            w = {k: v - eta * lam * (v - theta[k]) for k, v in w.items()}
    for expected, found in ((w, ours.server.params), (theta, ours.clients.personal[0])):
        for path, value in found.flat().items():
            torch.testing.assert_close(value, expected[path.replace("/", ".", 1)], rtol=0, atol=1e-12)


@dataclass(frozen=True)
class Quadratic(PFedMe):
    """pFedMe on l(theta) = |theta - 1|^2 / 2, whatever the data."""

    def loss(self, params, local, batch, ctx):
        away = params - params.map(torch.ones_like)
        return 0.5 * away.squared_norm(), Tree()


def test_many_inner_steps_reach_the_minimiser(simulate) -> None:
    """(theta - 1) + lambda (theta - w) + decay theta = 0 at theta = (1 + lambda w) / (1 + lambda + decay)."""
    method = Quadratic(lam=3.0, inner_steps=100, personal_rate=0.1)
    replica = simulate(method, rounds=1, lr=0.0).replicas[0]
    minimiser = replica.server.params.map(lambda w: (1 + 3.0 * w) / (1 + 3.0 + DECAY))
    for client in range(5):
        assert_close(replica.clients.personal[client], minimiser)


def test_beta_mixes_the_server(simulate) -> None:
    start = simulate("pfedme", rounds=0).replicas[0].server.params
    none, half, one, two = (
        simulate("pfedme", rounds=1, options={"beta": beta}).replicas[0].server.params for beta in (0.0, 0.5, 1.0, 2.0)
    )
    assert_close(none, start, 0)
    assert_close(half, 0.5 * (start + one))
    assert_close(two, 2 * one - start)


def test_after_training_and_before_the_next_one_the_same_model_is_tested(simulate) -> None:
    history = simulate("pfedme", rounds=3).history(0)
    assert (history["correct"][1:] == history["correct_after"][1:]).all()


@pytest.mark.parametrize("options", [{"lam": -1.0}, {"inner_steps": 0}, {"beta": -1.0}])
def test_impossible_values_are_refused(options: dict) -> None:
    with pytest.raises(UserError, match=f"option {next(iter(options))} of pfedme must be "):
        build_method("pfedme", options)
