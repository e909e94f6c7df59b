"""GRP-FED: adaptive aggregation by hand, the three steps of a batch against plain autograd, what is reported and tested."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers.trees import assert_close
from torch import nn

from pflrepro.algorithms import build_method
from pflrepro.algorithms.grpfed import GRPFED
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.models import build_model
from pflrepro.trees import Tree

NAME = "pflrepro.algorithms.grpfed:GRPFED"


class Spy(GRPFED):
    """Keeps what was uploaded."""

    seen: list[Tree] = []  # noqa: RUF012

    def aggregate(self, server, uploads, cohort, ctx):
        self.seen.append(uploads)
        return super().aggregate(server, uploads, cohort, ctx)


@pytest.fixture
def reports(simulate):
    """`reports(...)`: the losses L_m that were uploaded in the last round."""

    def run(**settings: Any) -> torch.Tensor:
        Spy.seen = []
        simulate(Spy(), **settings)
        return Spy.seen[-1].F

    return run


# ---- the server ------------------------------------------------------------------------------------------------------------
def close_round(method: GRPFED, losses: list[float], q: float, spread: float, started: float = 1.0) -> Tree:
    state = Tree(q=torch.tensor(q), spread=torch.tensor(spread), started=torch.tensor(started)).to(torch.float64)
    models = Tree(w=torch.eye(len(losses), dtype=torch.float64))  # the mixture shows its weights
    uploads = Tree(params=models, F=torch.tensor(losses, dtype=torch.float64))
    return method.aggregate(state, uploads, Tree(), None)


def test_q_follows_the_spread_of_the_losses() -> None:
    """Losses 1 and 3: sigma = 1. From 0.5: 10 + 0.5 * 0.5 / 0.75; from 3: 10 + 0.5 * (-2) / 2; from 1: no change."""
    for old, expected in ((0.5, 10 + 1 / 3), (3.0, 9.5), (1.0, 10.0)):
        after = close_round(GRPFED(), [1.0, 3.0], 10.0, old)
        assert float(after.q) == pytest.approx(expected, abs=1e-12) and float(after.spread) == 1.0
    assert float(close_round(GRPFED(), [1.0, 3.0], 10.0, 0.0, started=0.0).q) == 10.0
    assert float(close_round(GRPFED(), [2.0, 2.0], 10.0, 0.0).q) == 10.0  # no spread, neither now nor before
    assert float(close_round(GRPFED(), [2.0, 2.0], 10.0, 1.0).q) == 9.0  # the longest step, eta_q times 2
    assert float(close_round(GRPFED(), [2.0, 2.0], 0.4, 1.0).q) == 0.0  # never below 0


def test_weights_are_powers_of_the_losses() -> None:
    """q = 2 and losses 1, 2, 3: weights 1, 4, 9 of 14. The new q counts at once."""
    after = close_round(GRPFED(q0=2.0), [1.0, 2.0, 3.0], 2.0, 0.0, started=0.0)
    torch.testing.assert_close(after.params.w, torch.tensor([1.0, 4, 9]).double() / 14, rtol=0, atol=1e-10)
    moved = close_round(GRPFED(), [1.0, 3.0], 1.0, 3.0)  # q: 1 - 0.5
    expected = torch.tensor([1.0, math.sqrt(3)], dtype=torch.float64) / (1 + math.sqrt(3))
    torch.testing.assert_close(moved.params.w, expected, rtol=0, atol=1e-10)
    equal = close_round(GRPFED(), [0.7, 0.7, 0.7, 0.7], 10.0, 0.0)
    torch.testing.assert_close(equal.params.w, torch.full((4,), 0.25).double(), rtol=0, atol=1e-12)


def test_without_power_the_global_model_of_equal_clients_is_fedavgs(digits, simulate) -> None:
    settings = {"federation": digits, "batch_size": 20, "momentum": 0.5, "rounds": 3}
    ours = simulate(NAME, options={"q0": 0.0, "q_step": 0.0}, **settings)
    fedavg = simulate("fedavg", **settings)
    assert_close(ours.replicas[0].server.params, fedavg.replicas[0].server.params)
    for recorded in ("train_loss", "objective"):  # the history has the global extractor's losses, not the personal ones
        np.testing.assert_allclose(ours.history(0)[recorded], fedavg.history(0)[recorded], rtol=1e-9)


def test_the_first_round_keeps_q_and_later_ones_do_not(simulate) -> None:
    q = [float(simulate(NAME, rounds=rounds).replicas[0].server.q) for rounds in (0, 1, 2)]
    assert q[0] == q[1] == 10.0 and q[2] != 10.0 and abs(q[2] - 10) <= 1


# ---- one client ------------------------------------------------------------------------------------------------------------
class Plain:
    """The three steps of every batch for one client that trains on full batches, by torch.optim."""

    def __init__(self, federation: Federation, start: Tree, momentum: float, **options: Any) -> None:
        self.beta = options.get("beta", 0.5)
        network = build_model("mlp", federation.shape, federation.classes, 0)
        self.base, self.head = network.base.double(), network.head.double()
        self.local = build_model("mlp", federation.shape, federation.classes, 0).base.double()
        self.fixed = build_model("mlp", federation.shape, federation.classes, 0).base.double()
        k = network.features
        self.discriminator = nn.ModuleDict({"first": nn.Linear(k, k), "second": nn.Linear(k, 1)}).double()
        self.discriminator.load_state_dict(dict(start))
        self.x, self.y = federation.batch(torch.as_tensor(federation.rows["train"][0]), torch.float64)
        groups = (nn.ModuleList([self.base, self.head]), self.local, self.discriminator)
        self.optimisers = [torch.optim.SGD(group.parameters(), lr=0.05, momentum=momentum) for group in groups]

    def logit(self, z: torch.Tensor) -> torch.Tensor:
        return self.discriminator["second"](F.relu(self.discriminator["first"](z)))[:, 0]

    def epoch(self) -> None:
        self.descend(0, F.cross_entropy(self.head(self.base(self.x)), self.y))
        z = self.local(self.x)
        pull = torch.log(1 - torch.sigmoid(self.logit(z)))
        self.descend(1, self.beta * F.cross_entropy(self.head(z), self.y) + (1 - self.beta) * pull.mean())
        with torch.no_grad():
            features = self.fixed(self.x), self.local(self.x)
        of_global, of_local = (torch.sigmoid(self.logit(z)) for z in features)
        self.descend(2, (-torch.log(of_global) - torch.log(1 - of_local)).mean())

    def descend(self, group: int, loss: torch.Tensor) -> None:
        for optimiser in self.optimisers:
            optimiser.zero_grad()
        loss.backward()
        self.optimisers[group].step()


@pytest.mark.parametrize("options", [{}, {"beta": 0.2}])
def test_the_three_steps(federation, simulate, options: dict) -> None:
    """Three full-batch epochs with momentum; every optimiser state is its own."""
    rows = federation.rows["train"][0]
    alone = Federation(federation.x, federation.y, [rows], [rows[:3]], classes=federation.classes)
    settings = {"federation": alone, "batch_size": 100, "momentum": 0.9}
    start = simulate(NAME, rounds=0, **settings).replicas[0].clients.personal[0]
    ours = simulate(NAME, rounds=1, local_epochs=3, options=options, **settings).replicas[0]
    plain = Plain(alone, start.discriminator, 0.9, **options)
    for _ in range(3):
        plain.epoch()
    expected = Tree(
        base=Tree(plain.local.state_dict()),
        discriminator=Tree(plain.discriminator.state_dict()),
    )
    assert_close(ours.clients.personal[0], expected, 1e-11)
    assert_close(
        ours.server.params, Tree(base=Tree(plain.base.state_dict()), head=Tree(plain.head.state_dict())), 1e-11
    )


@pytest.mark.parametrize("backend", ["loop", "batched"])
def test_momentum_is_fresh_every_round(federation, simulate, backend: str) -> None:
    """Three rounds of two full-batch epochs."""
    rows = federation.rows["train"][0]
    alone = Federation(federation.x, federation.y, [rows], [rows[:3]], classes=federation.classes)
    settings = {"federation": alone, "batch_size": 100, "momentum": 0.9, "local_epochs": 2, "backend": backend}
    start = simulate(NAME, rounds=0, **settings).replicas[0].clients.personal[0]
    ours = simulate(NAME, rounds=3, **settings).replicas[0]
    plain = Plain(alone, start.discriminator, 0.9)
    for _ in range(3):
        plain.fixed.load_state_dict(plain.base.state_dict())
        for optimiser in plain.optimisers:
            optimiser.state.clear()
        plain.epoch()
        plain.epoch()
    expected = Tree(base=Tree(plain.local.state_dict()), discriminator=Tree(plain.discriminator.state_dict()))
    assert_close(ours.clients.personal[0], expected, 1e-11)
    assert_close(
        ours.server.params, Tree(base=Tree(plain.base.state_dict()), head=Tree(plain.head.state_dict())), 1e-11
    )


# ---- starts and width -----------------------------------------------------------------------------------------------------
def distinct(rows: torch.Tensor) -> int:
    return len({tuple(row.flatten().tolist()) for row in rows})


def test_starts(simulate) -> None:
    """The personal extractors start as the global one, the discriminators from one draw."""
    start = simulate(NAME, rounds=0).replicas[0]
    assert_close(start.clients.personal.base[2], start.server.params.base, 0)
    assert distinct(start.clients.personal.base["1.weight"]) == 1
    assert distinct(start.clients.personal.discriminator["first.weight"]) == 1


def test_the_width_of_the_discriminator(simulate) -> None:
    options = {"discriminator_width": 7}
    runs = [simulate(NAME, options=options, rounds=1, backend=b).replicas[0] for b in ("loop", "batched")]
    hidden = runs[0].clients.personal.discriminator
    assert hidden["first.weight"].shape == (5, 7, 32) and hidden["second.weight"].shape == (5, 1, 7)
    assert_close(runs[1].server, runs[0].server, 1e-10)


def test_beta_one_has_no_regulariser(simulate) -> None:
    """Another discriminator then leaves models and scores as they are."""
    one, other = (simulate(NAME, options={"beta": 1.0, "discriminator_width": width}, momentum=0.5) for width in (0, 7))
    assert_close(one.replicas[0].clients.personal.base, other.replicas[0].clients.personal.base, 0)
    assert_close(one.replicas[0].server, other.replicas[0].server, 0)
    assert one.history(0)["loss"].tolist() == other.history(0)["loss"].tolist()


def test_the_personal_side_does_not_touch_the_global_one(simulate) -> None:
    """One round; later ones differ through nothing but the reported losses, which are the global model's."""
    a, b = (simulate(NAME, options=options, rounds=3).replicas[0] for options in ({"beta": 0.0}, {"beta": 0.9}))
    assert_close(a.server, b.server, 0)
    with pytest.raises(AssertionError):
        assert_close(a.clients.personal.base, b.clients.personal.base, 1e-6)


# ---- the reported loss -----------------------------------------------------------------------------------------------------
def batch_losses(federation, client: int, size: int) -> torch.Tensor:
    """The mean losses of the initial model on consecutive pieces of a client's training part."""
    network = build_model("mlp", federation.shape, federation.classes, 0)
    x, y = federation.batch(torch.as_tensor(federation.rows["train"][client]), torch.float64)
    with torch.no_grad():
        losses = F.cross_entropy(network.head.double()(network.base.double()(x)), y, reduction="none")
    return torch.stack([piece.mean() for piece in losses.split(size)])


def test_reported_losses_at_rest(federation, reports) -> None:
    """At rate 0 the mean over the batches of an epoch: with full batches the received model's loss, with small ones another number."""
    start = torch.cat([batch_losses(federation, i, 100) for i in range(federation.clients)])
    got = reports(rounds=1, lr=0.0, batch_size=100, local_epochs=2)
    torch.testing.assert_close(got, start, rtol=0, atol=1e-12)
    assert not torch.allclose(reports(rounds=1, lr=0.0, batch_size=20), start, rtol=0, atol=1e-12)


def test_the_last_epoch_counts(reports) -> None:
    """With one batch an epoch: the loss before the last step, which falls from epoch to epoch."""
    last = {epochs: reports(rounds=1, batch_size=100, local_epochs=epochs) for epochs in (1, 2, 3)}
    assert (last[3] < last[2]).all() and (last[2] < last[1]).all()


# ---- what is tested ----------------------------------------------------------------------------------------------------------
def test_the_personal_extractor_is_tested_under_the_received_classifier(federation, simulate) -> None:
    simulation = simulate(NAME, participation=0.6)
    replica = simulation.replicas[0]
    for i in range(federation.clients - 1):  # the last has no test samples
        network = build_model("mlp", federation.shape, federation.classes, 0)
        network.base.double().load_state_dict(dict(replica.clients.personal.base[i]))
        network.head.double().load_state_dict(dict(replica.server.params.head))
        x, y = federation.batch(torch.as_tensor(federation.rows["test"][i]), torch.float64)
        with torch.no_grad():
            expected = F.cross_entropy(network.head(network.base(x)), y, reduction="sum")
        assert simulation.history(0)["loss"][-1][i] == pytest.approx(float(expected), rel=1e-9)


def test_each_extractor_has_running_statistics_of_its_own(digits, simulate) -> None:
    settings = {"federation": digits, "model": "cnn-digits-bn", "rounds": 1, "batch_size": 20, "drop_last": True}
    ours, fedavg = simulate(NAME, **settings).replicas[0], simulate("fedavg", **settings).replicas[0]
    assert sorted(ours.kept) == ["personal", "shared"]
    assert_close(Tree(shared=ours.kept.shared), fedavg.kept)  # the discriminator's passes leave them alone


def test_it_learns(digits, simulate) -> None:
    history = simulate(NAME, rounds=6, federation=digits, batch_size=10, local_epochs=3, dtype="float32").history(0)
    assert history["correct"][-1].sum() / history["test_samples"].sum() > 0.7 and np.isfinite(history["loss"]).all()


@pytest.mark.parametrize(
    "options",
    [
        {"beta": 1.5},
        {"q0": -1.0},
        {"q_step": -0.5},
        {"discriminator_width": -1},
    ],
)
def test_impossible_values_are_refused(options: dict) -> None:
    with pytest.raises(UserError, match="GRPFED"):
        build_method(NAME, options)
