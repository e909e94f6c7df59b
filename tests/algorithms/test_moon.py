"""MOON: its contrast, its previous models; FedBR's variant with its projection."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from helpers.trees import assert_close
from torch import nn

from pflrepro.algorithms.dbe import PRBM
from pflrepro.algorithms.moon import Moon
from pflrepro.algorithms.variants.moon import FedBRMoon
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.models import build_model
from pflrepro.models.split import SplitModel
from pflrepro.settings import Settings
from pflrepro.simulation import Simulation
from pflrepro.simulation.start import setup_of, task_of
from pflrepro.trees import Tree

BiasedMoon = dataclass(frozen=True)(type("BiasedMoon", (PRBM, Moon), {}))


# ---- written again in plain PyTorch ----------------------------------------------------------------------------------------------
class Plain:
    """MOON, mu 3 and tau 0.5, on full batches, two epochs a round with momentum 0.5 at rate 0.05; parameters as {path: tensor}."""

    def __init__(self, federation: Federation, start: Tree, variant: bool) -> None:
        self.federation, self.variant = federation, variant
        self.w = dict(start.flat())
        self.last = [dict(self.w) for _ in range(federation.clients)]
        self.seen = [0.0] * federation.clients
        self.bias = [torch.zeros(32, dtype=torch.float64) for _ in range(federation.clients)]

    def features(self, w: dict, x: torch.Tensor) -> torch.Tensor:
        z = F.relu(F.linear(x.flatten(1), w["base/1.weight"], w["base/1.bias"]))
        if self.variant:
            z = F.relu(F.linear(z, w["projector/first/weight"], w["projector/first/bias"]))
            z = F.linear(z, w["projector/second/weight"], w["projector/second/bias"])
        return z

    def round(self, biased: bool) -> None:
        sizes = [len(rows) for rows in self.federation.rows["train"]]
        trained = [self.train(i, biased) for i in range(self.federation.clients)]
        self.w = {path: sum(n * w[path] for n, w in zip(sizes, trained, strict=True)) / sum(sizes) for path in self.w}

    def train(self, i: int, biased: bool) -> dict:
        x, y = self.federation.batch(torch.as_tensor(self.federation.rows["train"][i]), torch.float64)
        w = {path: value.clone().requires_grad_() for path, value in self.w.items()}
        bias = self.bias[i].clone().requires_grad_(biased)
        optimiser = torch.optim.SGD([*w.values(), *([bias] if biased else [])], lr=0.05, momentum=0.5)
        near, far = self.features(self.w, x), self.features(self.last[i], x)
        weight = 3.0 if self.variant else 3.0 * self.seen[i]
        for _ in range(2):
            z = self.features(w, x)
            logits = F.linear(z + bias if biased else z, w["head/weight"], w["head/bias"])
            pair = torch.stack([F.cosine_similarity(z, near), F.cosine_similarity(z, far)], 1) / 0.5
            contrast = F.cross_entropy(pair, torch.zeros(len(y), dtype=torch.int64))
            optimiser.zero_grad()
            (F.cross_entropy(logits, y) + weight * contrast).backward()
            optimiser.step()
        w = {path: value.detach() for path, value in w.items()}
        kept = {p: v for p, v in w.items() if not (self.variant and p.startswith("base/"))}
        self.last[i], self.seen[i], self.bias[i] = self.last[i] | kept, 1.0, bias.detach()
        return w


@pytest.mark.parametrize("kind", [Moon, BiasedMoon, FedBRMoon])
def test_three_rounds_in_plain_pytorch(federation, simulate, kind: type[Moon]) -> None:
    rows = federation.rows
    few = Federation(federation.x, federation.y, rows["train"][:3], rows["test"][:3], classes=federation.classes)
    method = kind(mu=3.0, tau=0.5)
    settings = {"federation": few, "batch_size": 100, "momentum": 0.5, "local_epochs": 2}
    plain = Plain(few, simulate(method, rounds=0, **settings).replicas[0].server.params, kind is FedBRMoon)
    ours = simulate(method, rounds=3, **settings).replicas[0]
    for _ in range(3):
        plain.round(kind is BiasedMoon)
    for path, value in ours.server.params.flat().items():
        torch.testing.assert_close(value, plain.w[path], rtol=0, atol=1e-12, msg=path)
    for path, value in ours.clients.previous.flat().items():
        torch.testing.assert_close(value, torch.stack([last[path] for last in plain.last]), rtol=0, atol=1e-12)
    if kind is BiasedMoon:
        torch.testing.assert_close(ours.clients.params.bias.b, torch.stack(plain.bias), rtol=0, atol=1e-12)


# ---- identities --------------------------------------------------------------------------------------------------------------
def test_mu_zero_is_fedavg(simulate) -> None:
    settings = {"rounds": 3, "participation": 0.6, "momentum": 0.5}
    ours, fedavg = simulate(Moon(mu=0.0), **settings), simulate("fedavg", **settings)
    assert_close(ours.replicas[0].server, fedavg.replicas[0].server, 0)


@dataclass(frozen=True)
class Spy(FedBRMoon):
    """Adds up what its loss has beyond cross-entropy."""

    extras = []  # noqa: RUF012

    def loss(self, params, local, batch, ctx):
        value, out = super().loss(params, local, batch, ctx)
        self.extras.append(float((value - F.cross_entropy(out.logits, batch.y)).detach()))
        return value, out


def test_with_the_same_two_models_the_term_is_log_two_without_gradient(simulate) -> None:
    """In round 0, with the initial model as the previous one; both are read through the same projection."""
    Spy.extras.clear()
    ours, without = (simulate(kind, rounds=1) for kind in (Spy(mu=4.0), FedBRMoon(mu=0.0)))
    assert_close(ours.replicas[0].server, without.replicas[0].server)
    assert Spy.extras == pytest.approx([4 * math.log(2)] * len(Spy.extras), abs=1e-12) and Spy.extras


def test_no_contrast_in_a_client_s_first_round(simulate) -> None:
    """Absent clients keep their previous model; before a client has one, its loss is cross-entropy."""
    settings = {"participation": 0.6, "momentum": 0.5}
    first, fedavg = simulate(Moon(mu=9.0), rounds=1, **settings), simulate("fedavg", rounds=1, **settings)
    assert_close(first.replicas[0].server, fedavg.replicas[0].server, 0)
    local = simulate("local", rounds=1, **settings).replicas[0].clients.params  # w_i of the same batches
    start = simulate("fedavg", rounds=0).replicas[0].server.params
    took_part = first.replicas[0].history["participated"][-1]
    clients = first.replicas[0].clients
    assert clients.seen.tolist() == took_part.astype(float).tolist() and 0 < took_part.sum() < 5
    for i in range(5):
        assert_close(clients.previous[i], Tree(base=local.base[i] if took_part[i] else start.base), 0)


@dataclass(frozen=True)
class Modes(Moon):
    """Keeps the mode of every pass."""

    passes = []  # noqa: RUF012

    def forward(self, params, x, ctx):
        self.passes.append(ctx.training)
        return super().forward(params, x, ctx)


def test_frozen_passes_are_in_evaluation_mode_and_leave_the_running_statistics_alone(digits, simulate) -> None:
    settings = {"federation": digits, "model": "cnn-digits-bn", "rounds": 1, "batch_size": 20, "drop_last": True}
    Modes.passes.clear()
    ours, fedavg = (simulate(method, **settings).replicas[0] for method in (Modes(), "fedavg"))
    assert sum(Modes.passes) == 4 * 3  # four clients, three batches: the model in training, and never the frozen ones
    assert_close(ours.kept, fedavg.kept, 0)
    assert_close(ours.server, fedavg.server, 0)


def test_features_that_are_all_zero_stay_finite(federation) -> None:
    settings = Settings(2, batch_size=5, drop_last=False, lr=0.05)
    for backend in ("loop", "batched"):
        simulation = Simulation(Moon(), federation, "mlp", settings, [0], backend=backend, dtype="float64", workers=1)
        server = simulation.replicas[0].server
        dead = Tree({"1.bias": server.params.base["1.bias"] - 1e3})
        simulation.replicas[0].server = server | Tree(params=Tree(base=dead))
        while not simulation.finished:
            simulation.step()
        assert all(bool(leaf.isfinite().all()) for leaf in simulation.replicas[0].server.leaves())


# ---- the projection ------------------------------------------------------------------------------------------------------------
def layout(method: Moon, federation: Federation, network: SplitModel) -> dict:
    task = task_of(federation, network, Settings(1))
    return dict(setup_of(task, method, network, 0, torch.device("cpu"), torch.float64).parts)


def test_the_projection_and_the_head_behind_it(federation) -> None:
    network = build_model("mlp", federation.shape, federation.classes, 0)
    assert set(layout(Moon(), federation, network)) == {"base", "head"}
    parts = layout(FedBRMoon(), federation, network)
    assert [tuple(parts["projector"].params[name].weight.shape) for name in ("first", "second")] == [
        (256, 32),
        (128, 256),
    ]
    assert parts["head"].kind == "shared" and tuple(parts["head"].params.weight.shape) == (federation.classes, 128)
    fitting = SplitModel(network.base, nn.Linear(128, federation.classes), 32)
    kept = layout(FedBRMoon(), federation, fitting)["head"].params.weight
    assert torch.equal(kept, fitting.head.weight.detach().double())  # a head that fits keeps its initial weights


def test_a_head_that_cannot_be_fitted_is_refused(federation) -> None:
    base = build_model("mlp", federation.shape, federation.classes, 0).base
    deep = SplitModel(base, nn.Sequential(nn.Linear(32, 8), nn.ReLU(), nn.Linear(8, federation.classes)), 32)
    with pytest.raises(UserError, match=r"head that is one linear layer, not one with 0\.weight"):
        layout(FedBRMoon(), federation, deep)
    assert layout(Moon(), federation, deep)["head"].params.keys() == {"0.weight", "0.bias", "2.weight", "2.bias"}
    unbiased = SplitModel(base, nn.Linear(32, federation.classes, bias=False), 32)
    assert layout(FedBRMoon(), federation, unbiased)["head"].params.keys() == {"weight"}


@pytest.mark.parametrize("options", [{"mu": -1.0}, {"tau": 0.0}])
def test_impossible_values_are_refused(options: dict) -> None:
    with pytest.raises(UserError, match=f"{next(iter(options))} of Moon"):
        Moon(**options)


def test_a_projection_that_changes_the_width_is_refused_beside_the_bias(simulate) -> None:
    with pytest.raises(UserError, match="moon in place of moon/fedbr"):
        simulate("moon/fedbr+prbm", rounds=1)
