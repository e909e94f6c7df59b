"""APFL and apfl/platform: the mixture and the gradient of its share."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from helpers.trees import assert_close

from pflrepro.algorithms.apfl import APFL
from pflrepro.algorithms.phases import Phase
from pflrepro.algorithms.registry import hyperparameters
from pflrepro.algorithms.variants.apfl import PlatformAPFL
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.models import build_model
from pflrepro.simulation.schedule import batches
from pflrepro.trees import Tree

PROTOCOL = {"rounds": 3, "participation": 0.6}
NAMES = ("apfl", "apfl/platform")


def vector(*values: float) -> Tree:
    return Tree(
        base=Tree(w=torch.tensor(values[:1], dtype=torch.float64)), head=Tree(w=torch.tensor(values[1:]).double())
    )


def test_the_slope_of_alpha_by_hand() -> None:
    """v - w = (1, -1), before the batch or on the platform after it; gradients (3, 4) at v or vbar and (1, -1) at w, alpha = 1/4."""
    alpha, nothing = torch.tensor(0.25, dtype=torch.float64), vector(0.0, 0.0)
    apart = Tree(personal=vector(2.0, 0.0), params=vector(1.0, 1.0), alpha=alpha)
    equal = Tree(personal=nothing, params=nothing, alpha=alpha)
    for method, before, after, expected in (
        (APFL(), apart, equal, 3 - 4),
        (PlatformAPFL(), equal, apart, (0.75 + 0.75) - (1 - 0.75) + 0.005),
    ):
        slope = method.slope_by_alpha(before, after, vector(1.0, -1.0), vector(3.0, 4.0))
        assert float(slope) == pytest.approx(expected, abs=1e-15), method


def test_the_slope_is_the_derivative_of_the_mixtures_loss(federation) -> None:
    split = build_model("mlp", federation.shape, federation.classes, 0)
    model = torch.nn.Sequential(split.base, split.head).double()
    x, y = federation.x[:20].double(), federation.y[:20]
    w = {name: p.detach() for name, p in model.named_parameters()}
    v = {name: p + torch.sin(torch.arange(p.numel()).double()).view_as(p) for name, p in w.items()}

    def loss(params: dict[str, torch.Tensor]) -> torch.Tensor:
        return F.cross_entropy(torch.func.functional_call(model, params, (x,)), y)

    def mixed(alpha: torch.Tensor) -> dict[str, torch.Tensor]:
        return {name: alpha * v[name] + (1 - alpha) * w[name] for name in w}

    alpha = torch.tensor(0.3, dtype=torch.float64)
    grads = torch.func.grad(loss)(mixed(alpha))
    tree = Tree(personal=Tree(m=Tree(v)), params=Tree(m=Tree(w)))
    ours = APFL().slope_by_alpha(tree, Tree(), Tree(), Tree(m=Tree(grads)))
    torch.testing.assert_close(ours, torch.func.grad(lambda a: loss(mixed(a)))(alpha))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("plugins", "options"), [("", {}), ("+mr", {"kappa": 5.0, "mr_momentum": 0.3})])
def test_the_global_sequence_is_fedavgs(simulate, name: str, plugins: str, options: dict) -> None:
    fedavg = simulate(f"fedavg{plugins}", options=options, momentum=0.5, **PROTOCOL).replicas[0].server
    for adaptive in (False, True):
        chosen = options | {"alpha": 0.75, "adaptive": adaptive}
        ours = simulate(f"{name}{plugins}", options=chosen, momentum=0.5, **PROTOCOL).replicas[0].server
        assert_close(ours, fedavg, 0)


def test_alpha_zero_is_the_global_model(simulate) -> None:
    ours, fedavg = simulate(APFL(alpha=0.0), **PROTOCOL).history(0), simulate("fedavg", **PROTOCOL).history(0)
    for name in ("loss", "correct", "correct_after"):
        assert ours[name].tolist() == fedavg[name].tolist(), name


@pytest.mark.parametrize("name", NAMES)
def test_alpha_one_is_local(simulate, name: str) -> None:
    """Mean regularisation is for the global model and changes nothing here."""
    local = simulate("local", momentum=0.5, **PROTOCOL)
    for plugins in ("", "+mr"):
        options = {"alpha": 1.0, "adaptive": False}
        ours = simulate(f"{name}{plugins}", options=options, momentum=0.5, **PROTOCOL)
        assert_close(ours.replicas[0].clients.personal, local.replicas[0].clients.params, 0)
        for entry in ("loss", "correct", "correct_after"):
            assert ours.history(0)[entry].tolist() == local.history(0)[entry].tolist(), entry


@pytest.mark.parametrize("kind", [APFL, PlatformAPFL])
def test_two_rounds_of_one_client(federation, simulate, kind: type[APFL]) -> None:
    """As a plain loop over flat vectors, with an alpha that adapts."""
    rows = federation.rows["train"][0]
    alone = Federation(federation.x, federation.y, [rows], [rows[:3]], classes=federation.classes)
    ours = simulate(kind(alpha=0.6, adaptive=True, alpha_rate=2.0), federation=alone, batch_size=10)
    platform = kind is PlatformAPFL
    split = build_model("mlp", alone.shape, alone.classes, 0)
    model = torch.nn.Sequential(split.base, split.head).double()
    named = {name: p.detach() for name, p in model.named_parameters()}

    def gradient(at: dict, chosen) -> dict:
        x, y = alone.x[chosen].double(), alone.y[chosen]
        return torch.func.grad(lambda w: F.cross_entropy(torch.func.functional_call(model, w, (x,)), y))(at)

    def dot(a: dict, b: dict) -> float:
        return sum(float((a[k] * b[k]).sum()) for k in a)

    def mix(a: float, v: dict, w: dict) -> dict:
        return {k: a * v[k] + (1 - a) * w[k] for k in w}

    v, w, alpha = named, named, 0.6
    for t in range(2):
        for chosen in batches(alone, Phase(), ours.settings, 0, t, 0, "clients/train"):
            g_w, g_v = gradient(w, chosen), gradient(v if platform else mix(alpha, v, w), chosen)
            new_w = {name: w[name] - 0.05 * g_w[name] for name in w}
            new_v = {name: v[name] - 0.05 * (1 if platform else alpha) * g_v[name] for name in v}
            if platform:
                slope = dot({name: new_v[name] - new_w[name] for name in w}, mix(alpha, g_v, g_w)) + 0.02 * alpha
            else:
                slope = dot({name: v[name] - w[name] for name in w}, g_v)
            v, w, alpha = new_v, new_w, min(max(alpha - 0.1 * slope, 0.0), 1.0)
        if platform:
            v = mix(alpha, v, w)
    client = ours.replicas[0].clients[0]
    assert float(client.alpha) == pytest.approx(alpha, abs=1e-12) and abs(alpha - 0.6) > 1e-4
    for k, leaf in v.items():
        group, name = ("base", "head")[int(k[0])], k[2:]
        torch.testing.assert_close(client.personal[group][name], leaf, rtol=0, atol=1e-12)
    x = (alone.x[rows[:3]].double(),)
    with torch.no_grad():
        scores = torch.func.functional_call(model, v if platform else mix(alpha, v, w), x)
    expected = float(F.cross_entropy(scores, alone.y[rows[:3]], reduction="sum"))
    assert ours.history(0)["loss"][-1, 0] == pytest.approx(expected, abs=1e-10)


def test_alpha_stays_a_share(simulate) -> None:
    alpha = simulate(APFL(alpha=0.5, adaptive=True, alpha_rate=1e6)).replicas[0].clients.alpha
    assert ((alpha == 0) | (alpha == 1)).any() and (alpha >= 0).all() and (alpha <= 1).all()


def test_the_platforms_defaults() -> None:
    assert hyperparameters("apfl") == {"alpha": 0.5, "adaptive": False, "alpha_rate": 1.0}
    assert hyperparameters("apfl/platform") == {"alpha": 1.0, "adaptive": True, "alpha_rate": 1.0}


def test_an_alpha_that_is_no_share_is_refused() -> None:
    with pytest.raises(UserError, match="alpha of APFL must be a number >= 0 and <= 1"):
        APFL(alpha=1.5)
