"""FedProx: where the proximal term is, and where it is not."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from helpers.trees import assert_close, assert_same

from pflrepro.algorithms import build_method
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.models import build_model
from pflrepro.models.split import parameters_of
from pflrepro.trees import Tree


def test_mu_zero_is_fedavg(simulate) -> None:
    settings = {"participation": 0.6, "momentum": 0.5, "local_epochs": 2}
    ours, fedavg = simulate("fedprox", options={"mu": 0.0}, **settings), simulate("fedavg", **settings)
    assert_same(ours.replicas[0].server, fedavg.replicas[0].server)


def test_one_local_step_is_fedavg_whatever_mu_is(simulate) -> None:
    ours, fedavg = (simulate(name, options=o, batch_size=100) for name, o in (("fedprox", {"mu": 7.0}), ("fedavg", {})))
    assert_same(ours.replicas[0].server, fedavg.replicas[0].server)


def test_the_term_is_part_of_the_loss_and_spares_the_personal_bias(federation, simulate) -> None:
    """Three full-batch steps with momentum on CE(head(base(x) + b), y) + mu/2 (|base - base^t|^2 + |head - head^t|^2)."""
    rows = federation.rows["train"][0]
    alone = Federation(federation.x, federation.y, [rows], [rows[:3]], classes=federation.classes)
    settings = {"federation": alone, "rounds": 2, "batch_size": 100, "local_epochs": 3, "momentum": 0.9}
    ours = simulate("fedprox+prbm", options={"mu": 2.0}, **settings).replicas[0]
    split = build_model("mlp", alone.shape, alone.classes, 0)
    model = torch.nn.Sequential(split.base, split.head).double()
    bias = torch.zeros(32, dtype=torch.float64, requires_grad=True)
    for _ in range(2):
        received = [p.detach().clone() for p in model.parameters()]
        optimiser = torch.optim.SGD([*model.parameters(), bias], lr=0.05, momentum=0.9)
        for _ in range(3):
            loss = F.cross_entropy(split.head(split.base(alone.x[rows].double()) + bias), alone.y[rows])
            drift = sum(((p - w) ** 2).sum() for p, w in zip(model.parameters(), received, strict=True))
            optimiser.zero_grad()
            (loss + drift).backward()  # mu / 2 = 1
            optimiser.step()
    assert_close(ours.server.params, Tree(base=parameters_of(split.base), head=parameters_of(split.head)), 1e-12)
    assert_close(ours.clients.params.bias, Tree(b=bias.detach()[None]), 1e-12)


def test_a_negative_mu_is_refused() -> None:
    with pytest.raises(UserError, match="mu of fedprox must be a number >= 0, not -1"):
        build_method("fedprox", {"mu": -1.0})
