"""MOON: its contrast, its projections, its previous models."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pflrepro.algorithms.dbe import PRBM
from pflrepro.algorithms.moon import Moon
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.models import build_model
from pflrepro.models.split import SplitModel
from pflrepro.settings import Settings
from pflrepro.simulation import Simulation
from pflrepro.simulation.start import setup_of, task_of
from pflrepro.trees import Tree

BiasedMoon = dataclass(frozen=True)(type("BiasedMoon", (PRBM, Moon), {}))


def assert_close(a: Tree, b: Tree, tolerance: float = 1e-12) -> None:
    for mine, theirs in zip(a.leaves(), b.leaves(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=tolerance)


# ---- written again in plain PyTorch ----------------------------------------------------------------------------------------------
class Plain:
    """MOON on full batches, two epochs a round with momentum 0.5 at rate 0.05; parameters as {path: tensor}."""

    def __init__(self, federation: Federation, options: dict, start: Tree) -> None:
        self.federation, self.mu, self.tau = federation, options["mu"], options["tau"]
        self.previous = options.get("previous", "last")
        self.w = dict(start.flat())
        self.last = [dict(self.w) for _ in range(federation.clients)]
        self.seen = [0.0] * federation.clients
        self.bias = [torch.zeros(32, dtype=torch.float64) for _ in range(federation.clients)]

    def features(self, w: dict, x: torch.Tensor) -> torch.Tensor:
        z = F.relu(F.linear(x.flatten(1), w["base/1.weight"], w["base/1.bias"]))
        layers = [name for name in ("first", "second", "third") if f"projector/{name}/weight" in w]
        for name in layers:
            z = F.linear(z, w[f"projector/{name}/weight"], w[f"projector/{name}/bias"])
            z = z if name == layers[-1] else F.relu(z)
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
        weight = self.mu if self.previous != "last" else self.mu * self.seen[i]
        for _ in range(2):
            z = self.features(w, x)
            logits = F.linear(z + bias if biased else z, w["head/weight"], w["head/bias"])
            pair = torch.stack([F.cosine_similarity(z, near), F.cosine_similarity(z, far)], 1) / self.tau
            contrast = F.cross_entropy(pair, torch.zeros(len(y), dtype=torch.int64))
            optimiser.zero_grad()
            (F.cross_entropy(logits, y) + weight * contrast).backward()
            optimiser.step()
        w = {path: value.detach() for path, value in w.items()}
        kept = {p: v for p, v in w.items() if self.previous != "initial-base" or not p.startswith("base/")}
        self.last[i], self.seen[i], self.bias[i] = self.last[i] | kept, 1.0, bias.detach()
        return w


VARIANTS = [
    (Moon, {}),
    (BiasedMoon, {}),
    (Moon, {"projection": "official"}),
    (Moon, {"projection": "fedbr", "previous": "last-or-initial"}),
    (Moon, {"projection": "fedbr-code", "previous": "initial-base"}),
    (Moon, {"previous": "initial-base"}),
]


@pytest.mark.parametrize(("method", "options"), VARIANTS, ids=lambda value: str(getattr(value, "__name__", value)))
def test_three_rounds_in_plain_pytorch(federation, simulate, method: type[Moon], options: dict) -> None:
    rows = federation.rows
    few = Federation(federation.x, federation.y, rows["train"][:3], rows["test"][:3], classes=federation.classes)
    options = {"mu": 3.0, "tau": 0.5} | options
    settings = {"federation": few, "batch_size": 100, "momentum": 0.5, "local_epochs": 2}
    plain = Plain(few, options, simulate(method(**options), rounds=0, **settings).replicas[0].server.params)
    ours = simulate(method(**options), rounds=3, **settings).replicas[0]
    for _ in range(3):
        plain.round(method is BiasedMoon)
    for path, value in ours.server.params.flat().items():
        torch.testing.assert_close(value, plain.w[path], rtol=0, atol=1e-12, msg=path)
    for path, value in ours.clients.previous.flat().items():
        torch.testing.assert_close(value, torch.stack([last[path] for last in plain.last]), rtol=0, atol=1e-12)
    if method is BiasedMoon:
        torch.testing.assert_close(ours.clients.params.bias.b, torch.stack(plain.bias), rtol=0, atol=1e-12)


# ---- identities --------------------------------------------------------------------------------------------------------------
def test_mu_zero_is_fedavg(simulate) -> None:
    settings = {"rounds": 3, "participation": 0.6, "momentum": 0.5}
    ours, fedavg = simulate(Moon(mu=0.0), **settings), simulate("fedavg", **settings)
    assert_close(ours.replicas[0].server, fedavg.replicas[0].server, 0)


@dataclass(frozen=True)
class Spy(Moon):
    """Adds up what its loss has beyond cross-entropy."""

    extras = []  # noqa: RUF012

    def loss(self, params, local, batch, ctx):
        value, out = super().loss(params, local, batch, ctx)
        self.extras.append(float((value - F.cross_entropy(out.logits, batch.y)).detach()))
        return value, out


def test_with_the_same_two_models_the_term_is_log_two_without_gradient(simulate) -> None:
    """In round 0 with the initial model as the previous one; and with one client, which is the federation."""
    Spy.extras.clear()
    ours, fedavg = simulate(Spy(mu=4.0, previous="last-or-initial"), rounds=1), simulate("fedavg", rounds=1)
    assert_close(ours.replicas[0].server, fedavg.replicas[0].server)
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


@pytest.mark.parametrize(
    ("projection", "layers", "width"),
    [
        ("none", [], 32),
        ("official", [(32, 32), (256, 32)], 256),
        ("fedbr", [(256, 32), (128, 256)], 128),
        ("fedbr-code", [(256, 32), (256, 256), (32, 256)], 32),
    ],
)
def test_the_shapes(federation, projection: str, layers: list, width: int) -> None:
    network = build_model("mlp", federation.shape, federation.classes, 0)
    parts = layout(Moon(projection=projection), federation, network)
    found = parts["projector"].params if layers else Tree()
    assert [tuple(found[name].weight.shape) for name in sorted(found)] == layers
    assert parts["head"].kind == "shared" and tuple(parts["head"].params.weight.shape) == (federation.classes, width)
    plain = network.head.weight.detach().double()
    assert width != 32 or torch.equal(parts["head"].params.weight, plain)  # a head that fits keeps its initial weights


def test_a_head_that_cannot_be_fitted_is_refused(federation) -> None:
    base = build_model("mlp", federation.shape, federation.classes, 0).base
    deep = SplitModel(base, nn.Sequential(nn.Linear(32, 8), nn.ReLU(), nn.Linear(8, federation.classes)), 32)
    with pytest.raises(UserError, match=r"head that is one linear layer, not one with 0\.weight"):
        layout(Moon(projection="fedbr"), federation, deep)
    assert layout(Moon(), federation, deep)["head"].params.keys() == {"0.weight", "0.bias", "2.weight", "2.bias"}
    unbiased = SplitModel(base, nn.Linear(32, federation.classes, bias=False), 32)
    assert layout(Moon(projection="fedbr"), federation, unbiased)["head"].params.keys() == {"weight"}


@pytest.mark.parametrize("options", [{"mu": -1.0}, {"tau": 0.0}, {"projection": "mlp"}, {"previous": "first"}])
def test_impossible_values_are_refused(options: dict) -> None:
    with pytest.raises(UserError, match=f"{next(iter(options))} of MOON"):
        Moon(**options)


def test_a_projection_beside_mean_regularisation_is_refused(simulate) -> None:
    with pytest.raises(UserError, match="without a projection"):
        simulate("moon+dbe", rounds=1, options={"projection": "official"})


def test_the_previous_model_of_a_place(simulate) -> None:
    """Two of five clients a round: places 0 and 1 have seen somebody, and hold the last model that was trained there."""
    settings = {"participation": 0.4, "rounds": 3}
    ours = simulate(Moon(state_of="slot"), **settings)
    slot = ours.replicas[0].clients.slot
    assert slot.seen.tolist() == [1, 1, 0, 0, 0]
    own = simulate(Moon(), **settings)
    last = own.dispatcher.cohort(own.replicas[0], 2)
    assert [float(seen) for seen in own.replicas[0].clients.seen[last]] == [1, 1]
    with pytest.raises(UserError, match="unknown state_of of MOON 'place'; valid: "):
        Moon(state_of="place")


def test_alone_a_place_is_the_client(federation, simulate) -> None:
    rows = federation.rows["train"][0]
    alone = Federation(federation.x, federation.y, [rows], [rows[:3]], classes=federation.classes)
    place, client = (
        simulate(Moon(state_of=whose), federation=alone, rounds=3).replicas[0].server.params
        for whose in ("slot", "client")
    )
    assert_close(place, client, 0)
