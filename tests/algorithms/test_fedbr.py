"""FedBR: the pseudo-data, the two steps written again in plain PyTorch, its hosts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers.trees import assert_close, assert_same
from torch import nn

from pflrepro.algorithms import build_method
from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.fedavg import FedAvg
from pflrepro.algorithms.fedbr import FedBR
from pflrepro.algorithms.local import Local
from pflrepro.algorithms.phases import Phase
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.models import build_model
from pflrepro.settings import Settings
from pflrepro.simulation import Simulation
from pflrepro.simulation.schedule import batches
from pflrepro.simulation.source import DataSource
from pflrepro.trees import Tree

TERMS_OFF = {"pseudo_weight": 0.0, "contrast_weight": 0.0}


@pytest.fixture
def alone(federation) -> Federation:
    """The first client of the made-up federation."""
    rows = federation.rows
    return Federation(federation.x, federation.y, rows["train"][:1], rows["test"][:1], classes=federation.classes)


# ---- the loss ------------------------------------------------------------------------------------------------------------------
def test_the_contrastive_loss_by_hand() -> None:
    """Cosines 1 and 0, then 0 and -1; the third row is padding. The projection of no layers leaves the features as they are."""
    method = FedBR(tau_1=2.0, tau_2=0.5)
    anchor = torch.tensor([[2.0, 0], [0, 3], [1, 1]], dtype=torch.float64)
    same = torch.tensor([[1.0, 0], [1, 0], [1, 0]], dtype=torch.float64)
    other = torch.tensor([[0.0, 5], [0, -1], [0, 1]], dtype=torch.float64)
    found = method.contrast(Tree(), anchor, same, other, Tree(mask=torch.tensor([1.0, 1, 0], dtype=torch.float64)))
    expected = np.mean([-np.log(np.exp(a) / (np.exp(a) + np.exp(b))) for a, b in ((2.0, 0.0), (0.0, -0.5))])
    assert float(found) == pytest.approx(expected, abs=1e-12)


class Literal:
    """Algorithm 1 for one client, in plain PyTorch."""

    def __init__(self, data: Federation, params: Tree, settings: Settings, **options) -> None:
        self.data, self.options, self.settings = data, options, settings
        split = build_model("mlp", data.shape, data.classes, 0)
        self.base, self.head = split.base.double(), split.head.double()
        self.base.load_state_dict(dict(params.base))
        self.head.load_state_dict(dict(params.head))
        self.projection: nn.Module = nn.Identity()
        if "projection" in params:
            layers = [nn.Linear(*reversed(params.projection[f"{k}.weight"].shape)) for k in range(3)]
            self.projection = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2]).double()
            for layer, k in zip(layers, range(3), strict=True):
                layer.load_state_dict({n: params.projection[f"{k}.{n}"] for n in ("weight", "bias")})

    def contrast(self, anchor, same, other) -> torch.Tensor:
        a, s, o = (self.projection(z) for z in (anchor, same, other))
        tau = self.options.get("tau", 2.0)
        f1, f2 = (torch.exp(tau * F.cosine_similarity(a, z)) for z in (s, o))
        return -torch.log(f1 / (f1 + f2)).mean()

    def round(self, t: int) -> None:
        opt = {"lr": self.settings.lr, "momentum": self.settings.momentum, "weight_decay": self.settings.weight_decay}
        source = DataSource(self.data, 0, torch.float64, self.settings.batch_size)
        method = FedBR(**{k: v for k, v in self.options.items() if k != "tau"})
        pseudo = method.supply(source, 0 if method.pseudo_refresh == "once" else t).pseudo
        labels = torch.full((len(pseudo), self.data.classes), 1 / self.data.classes, dtype=torch.float64)
        with torch.no_grad():
            z_global = self.base(pseudo)
        descent = torch.optim.SGD([*self.base.parameters(), *self.head.parameters()], **opt)
        theta = list(self.projection.parameters())
        ascent = torch.optim.SGD(theta, maximize=True, **opt) if theta and method.max_step else None
        for rows in batches(self.data, Phase(), self.settings, 0, t, 0, "clients/train"):
            x, y = self.data.batch(torch.as_tensor(rows), torch.float64)
            pair = [k % len(pseudo) for k in range(len(rows))]
            z, z_pseudo = self.base(x), self.base(pseudo)
            if ascent is not None:
                ascent.zero_grad()
                self.contrast(z_pseudo.detach()[pair], z_global[pair], z.detach()).backward()
                ascent.step()
            loss = F.cross_entropy(self.head(z), y)
            loss = loss + method.pseudo_weight * F.cross_entropy(self.head(z_pseudo), labels)
            loss = loss + method.contrast_weight * self.contrast(z_pseudo[pair], z_global[pair], z)
            descent.zero_grad()
            loss.backward()
            descent.step()


@pytest.mark.parametrize("backend", ["loop", "batched"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"pseudo_refresh": "once", "pseudo_weight": 0.1, "tau": 1.0, "tau_1": 1.0, "tau_2": 1.0},
        {"max_step": False, "contrast_weight": 2.0},
        {"pseudo_weight": 0.0, "pseudo_samples": 3},
    ],
    ids=str,
)
def test_it_is_algorithm_1(alone, simulate, options: dict, backend: str) -> None:
    """Two rounds of one client with momentum, decay and an incomplete batch."""
    changes = {"lr": 0.1, "momentum": 0.5, "weight_decay": 0.01}
    ours = {k: v for k, v in options.items() if k != "tau"}
    start, done = (
        simulate("fedbr", rounds=r, options=ours, federation=alone, backend=backend, **changes) for r in (0, 2)
    )
    literal = Literal(
        alone, start.replicas[0].server.params, Settings(2, batch_size=5, drop_last=False, **changes), **options
    )
    for t in range(2):
        literal.round(t)
    params = done.replicas[0].server.params
    assert_close(params.base, Tree(dict(literal.base.named_parameters())), 1e-12)
    assert_close(params.head, Tree(dict(literal.head.named_parameters())), 1e-12)
    if "projection" in params:
        found = [params.projection[f"{k}.{n}"] for k in range(3) for n in ("weight", "bias")]
        for mine, theirs in zip(found, literal.projection.parameters(), strict=True):
            torch.testing.assert_close(mine, theirs.detach(), rtol=0, atol=1e-12)


def test_the_hosts_correction_applies_to_both_steps(alone, simulate) -> None:
    """A host that doubles every gradient takes twice the step, up and down."""

    @dataclass(frozen=True)
    class Double(FedAvg):
        def correct(self, grads, local, ctx):
            return 2 * super().correct(grads, local, ctx)

    rows = alone.rows["train"][0][:5]
    one = Federation(alone.x, alone.y, [rows], [rows], classes=alone.classes)
    doubled = dataclass(frozen=True)(type("Both", (FedBR, Double), {}))
    start, single, double = (
        simulate(method, rounds=rounds, federation=one, options=options).replicas[0].server.params
        for method, rounds, options in (("fedbr", 0, {}), ("fedbr", 1, {}), (doubled(pseudo_weight=1.0), 1, None))
    )
    moved, twice = (single - start).projection, (double - start).projection
    assert float(moved["0.weight"].abs().max()) > 1e-6
    assert_close(twice, 2 * moved, 1e-12)


def test_a_projection_that_takes_no_step_is_not_uploaded(simulate) -> None:
    frozen, learned, plain = (
        simulate("fedbr", options=options, rounds=1) for options in ({"max_step": False}, {}, TERMS_OFF)
    )
    size = 32 * 256 + 256 + 256 * 256 + 256 + 256 * 128 + 128
    up = plain.traffic["numbers_up"]
    assert (frozen.traffic["numbers_up"], learned.traffic["numbers_up"]) == (up, up + size)
    start = simulate("fedbr", options={"max_step": False}, rounds=0).replicas[0].server.params.projection
    assert_same(frozen.replicas[0].server.params.projection, start)


# ---- global features ------------------------------------------------------------------------------------------------------------
class Spy(FedBR):
    """Keeps the pseudo-samples and the global features of every pass of the received base."""

    seen: list = []  # noqa: RUF012

    def received_features(self, x, ctx):
        z = super().received_features(x, ctx)
        self.seen.append((int(ctx.info.id), x, z))
        return z


def test_global_features_of_mixtures_are_of_the_step(with_proxy, simulate) -> None:
    Spy.seen = []
    method = dataclass(frozen=True)(type("X", (Spy, FedAvg), {}))
    simulate(method(pseudo="mixture"), rounds=1, federation=with_proxy)
    base = build_model("mlp", with_proxy.shape, with_proxy.classes, 0).base.double()
    by_client: dict[int, list] = {}
    for client, x, z in Spy.seen:
        torch.testing.assert_close(z, base(x).detach(), rtol=0, atol=1e-12)
        by_client.setdefault(client, []).append(x)
    assert len(by_client) == 5 and len(by_client[0]) == 5
    for drawn in by_client.values():
        assert all(not torch.equal(x, drawn[0]) for x in drawn[1:])  # mixed anew at every step


# ---- how rounds start --------------------------------------------------------------------------------------------------------------
def test_in_a_first_round_of_own_models_phi_g_is_the_clients(alone, simulate) -> None:
    Spy.seen = []
    method = dataclass(frozen=True)(type("X", (Spy, FedAvg), {}))
    simulate(method(), federation=alone, batch_size=100, first_weights="slots")
    model = build_model("mlp", alone.shape, alone.classes, 0, "weights/slot0/model").base.double()
    (_, x, z), (_, later, other) = Spy.seen[-2:]  # of the two rounds; before them memory is estimated
    torch.testing.assert_close(z, model(x).detach(), rtol=0, atol=1e-12)
    assert not torch.equal(other, model(later))


# ---- figure 6a -----------------------------------------------------------------------------------------------------------------
def test_fedavg_with_a_projection_layer_is_moon_without_its_term(alone, simulate) -> None:
    """One client against plain SGD on base, projection and head; the classifier reads the projection."""
    settings = {"federation": alone, "batch_size": 100, "momentum": 0.5, "options": {"mu": 0.0}}
    start, done = (
        simulate("moon/fedbr", rounds=r, local_epochs=3, **settings).replicas[0].server.params for r in (0, 1)
    )
    base = build_model("mlp", alone.shape, alone.classes, 0).base.double()
    layers = {"first": nn.Linear(32, 256), "second": nn.Linear(256, 128)}
    network = nn.ModuleDict({"base": base, "projector": nn.ModuleDict(layers), "head": nn.Linear(128, 6)}).double()
    network.load_state_dict({path.replace("/", "."): value for path, value in start.flat().items()})
    x, y = alone.batch(torch.as_tensor(alone.rows["train"][0]), torch.float64)
    descent = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.5)
    for _ in range(3):
        z = network["base"](x)
        for k, layer in enumerate(network["projector"].values()):
            z = layer(F.relu(z) if k else z)
        descent.zero_grad()
        F.cross_entropy(network["head"](z), y).backward()
        descent.step()
    expected = {name: value.detach() for name, value in network.named_parameters()}
    for path, value in done.flat().items():
        torch.testing.assert_close(value, expected[path.replace("/", ".")], rtol=0, atol=1e-12)


def test_fedbr_with_a_projection_layer_runs_alike_on_both_backends(simulate) -> None:
    options = {"mu": 0.0}
    one, all_ = (simulate("moon/fedbr+fedbr", options=options, backend=backend) for backend in ("loop", "batched"))
    assert_close(one.replicas[0].server, all_.replicas[0].server, 1e-11)
    plain = simulate("moon/fedbr", options=options).replicas[0].server.params
    assert float((one.replicas[0].server.params.head.weight - plain.head.weight).abs().max()) > 1e-6


# ---- identities, hosts, runs ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("host", ["fedavg", "fedavg+mixup", "scaffold"])
def test_without_weights_it_is_the_host(simulate, host: str) -> None:
    settings = {"rounds": 3, "participation": 0.6}
    ours, plain = simulate(f"{host}+fedbr", options=TERMS_OFF, **settings), simulate(host, **settings)
    assert_same(ours.replicas[0].server, plain.replicas[0].server)
    assert ours.history(0)["correct"].tolist() == plain.history(0)["correct"].tolist()


@pytest.mark.parametrize("options", [{"pseudo_weight": 1e-9, "contrast_weight": 1e-9}], ids=["tiny"])
def test_with_tiny_weights_it_is_nearly_the_host(simulate, options: dict) -> None:
    ours, plain = simulate("fedbr", options=options), simulate("fedavg")
    for part in ("base", "head"):
        assert_close(ours.replicas[0].server.params[part], plain.replicas[0].server.params[part], 1e-8)


@pytest.mark.parametrize(
    ("name", "options", "model"),
    [
        ("fedavg+fedbr", {"pseudo": "mixture"}, "mlp"),
        ("fedavg+fedbr", {"pseudo": "mixture", "mixed_samples": 2}, "mlp"),
        ("fedavg+fedbr", {"pseudo": "proxy", "pseudo_samples": 8}, "cnn-digits"),
        ("fedavg+fedbr", {"pseudo": "mixture"}, "cnn-digits-bn"),
        ("fedavg+mixup+fedbr", {"pseudo": "mixture"}, "mlp"),
        ("fedcm+mixup+fedbr", {"pseudo": "mixture"}, "mlp"),
        ("feddecorr+fedbr", {}, "mlp"),
        ("fedntd+mixup+fedbr", {"pseudo": "mixture"}, "mlp"),
        ("fedrep+fedbr", {}, "mlp"),
        ("ditto+fedbr", {}, "mlp"),
        ("fedbabu+fedbr", {"tune_epochs": 1}, "mlp"),
    ],
)
def test_hosts_agree_between_backends(with_proxy, simulate, name: str, options: dict, model: str) -> None:
    settings = {"momentum": 0.5, "receivers": "selected", "participation": 0.6, "model": model}
    settings |= {"federation": with_proxy, "options": options, "drop_last": model.endswith("bn")}
    one, all_ = (simulate(name, backend=backend, **settings) for backend in ("loop", "batched"))
    for tree in ("server", "clients"):
        assert_close(getattr(one.replicas[0], tree), getattr(all_.replicas[0], tree), 1e-11)
    assert np.array_equal(one.history(0)["correct"], all_.history(0)["correct"])


def test_it_acts_in_the_phase_that_trains_the_base(simulate) -> None:
    start, done = (simulate("fedrep+fedbr", rounds=r, momentum=0.5).replicas[0].server.params for r in (0, 1))
    assert float((done.projection["2.bias"] - start.projection["2.bias"]).abs().max()) > 1e-6


@pytest.mark.parametrize("refresh", ["once", "round"])
@pytest.mark.parametrize("backend", ["loop", "batched"])
def test_a_resumed_run_is_the_uninterrupted_one(with_proxy, simulate, refresh: str, backend: str) -> None:
    options = {"pseudo": "mixture", "pseudo_refresh": refresh}
    settings = {"options": options, "federation": with_proxy, "backend": backend, "participation": 0.6}
    whole, stopped = (simulate("fedbr", rounds=rounds, **settings) for rounds in (3, 2))
    resumed = Simulation(
        build_method("fedbr", options),
        with_proxy,
        "mlp",
        whole.settings,
        [0],
        backend=backend,
        workers=1,
        dtype="float64",
    )
    resumed.restore(stopped.state())
    resumed.step()
    assert resumed.finished
    assert_same(resumed.replicas[0].server, whole.replicas[0].server)


def test_a_host_whose_base_stays_at_home_is_refused(simulate) -> None:
    with pytest.raises(UserError, match="keep their bases"):
        simulate("local+fedbr")
    alone = dataclass(frozen=True)(type("Alone", (FedBR, Local), {}))
    with pytest.raises(UserError, match="base is shared"):
        simulate(alone())


@pytest.mark.parametrize(
    "options",
    [
        {"pseudo": "noise"},
        {"pseudo_refresh": "never"},
        {"pseudo_samples": -1},
        {"pseudo_mean": 0},
        {"mixed_samples": -1},
        {"pseudo_weight": -1.0},
        {"contrast_weight": -1.0},
        {"tau_2": -1.0},
    ],
)
def test_impossible_values_are_refused(options: dict) -> None:
    with pytest.raises(UserError, match=next(iter(options))):
        build_method("fedbr", options)


def test_balanced_means_need_labels() -> None:
    with pytest.raises(UserError, match="pseudo_balanced"):
        build_method("fedbr", {"pseudo_balanced": True, "pseudo": "proxy"})
    assert isinstance(build_method("fedbr", {"tau_2": 0.0}), Method)
