"""FedMix: the pool of averages, the first-order term; FedBR's variant with new averages at every step."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers.trees import assert_close, assert_same

from pflrepro.algorithms import build_method
from pflrepro.algorithms.contract import Method, mean, one_hot
from pflrepro.algorithms.fedmix import FedMix
from pflrepro.algorithms.variants.fedmix import FedBRFedMix
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.models import build_model
from pflrepro.simulation import Simulation
from pflrepro.simulation.source import DataSource
from pflrepro.trees import Tree


# ---- the pool ------------------------------------------------------------------------------------------------------------------
def test_the_pool_has_the_means_of_groups_of_each_client() -> None:
    """Sample values 2^k show which samples are in a mean."""
    sizes, values = (7, 2, 0, 3), 2.0 ** torch.arange(12, dtype=torch.float64)
    ends = np.cumsum((0, *sizes))
    rows = [np.arange(a, b) for a, b in pairwise(ends)]
    data = Federation(values[:, None], torch.arange(12) % 3, rows, [[]] * 4)
    pool = FedMix(samples=3).exchanged(DataSource(data, 0, torch.float64, 4)).averages
    assert pool.x.shape == (4, 1) and pool.y.shape == (4, 3)  # 7 // 3 = 2, one of two samples, none, one
    members = [
        {k for k in range(12) if round(float(total)) >> k & 1} for total in pool.x[:, 0] * torch.tensor([3.0, 3, 2, 3])
    ]
    assert [len(group) for group in members] == [3, 3, 2, 3]
    assert members[0] | members[1] < set(range(7)) and not members[0] & members[1]
    assert members[2:] == [{7, 8}, {9, 10, 11}]
    for group, labels in zip(members, pool.y, strict=True):
        expected = torch.bincount(torch.tensor([k % 3 for k in group]), minlength=3) / len(group)
        torch.testing.assert_close(labels, expected.double(), rtol=0, atol=1e-7)


def test_the_pool_is_made_once(federation) -> None:
    source = DataSource(federation, 0, torch.float64, 4)
    assert FedMix().supply(source, 0) is not None and FedMix().supply(source, 3) is None
    assert_same(FedMix().supply(source, 0), FedMix().supply(source, 0))


def test_every_average_is_drawn() -> None:
    """Uniform draws become numbers 0..P-1, also a draw that was rounded up to 1."""
    ctx = SimpleNamespace(common=Tree(supplied=Tree(averages=Tree(y=torch.arange(4)))))
    assert FedMix().drawn(torch.tensor([0.0, 0.24, 0.25, 0.99, 1.0]), ctx).y.tolist() == [0, 0, 1, 3, 3]


def test_new_averages_of_every_step() -> None:
    """Clients of 3, 0 and 2 samples with values 2^k: u = 0.5 is the second client that has any, 0.4 the first."""
    values, rows = (
        2.0 ** torch.arange(5, dtype=torch.float64),
        [np.array([4, 0, 2]), np.zeros(0, int), np.array([1, 3])],
    )
    data = Federation(values[:, None], torch.arange(5) % 3, rows, [[]] * 3)
    method = FedBRFedMix(samples=2)
    supplied = method.supply(DataSource(data, 0, torch.float64, 4), 0)
    assert method.supply(DataSource(data, 0, torch.float64, 4), 1) is None
    ctx = SimpleNamespace(
        common=Tree(supplied=supplied),
        samples=lambda rows: data.batch(rows, torch.float64),
        task=SimpleNamespace(classes=3),
    )
    drawn = method.drawn(torch.tensor([[0.4, 0.0, 0.99], [0.5, 0.49, 0.5], [1.0, 0.5, 1.0]]), ctx)
    assert drawn.x[:, 0].tolist() == [(16 + 4) / 2, (2 + 8) / 2, 8]
    assert drawn.y.tolist() == [[0, 0.5, 0.5], [0.5, 0.5, 0], [1, 0, 0]]


# ---- the loss ------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Squared(Method):
    """A linear model with squared loss |A x - e_y|^2 / 2, whose directional derivative is known."""

    def loss(self, params, local, batch, ctx):
        out = batch.x @ params.A.T
        errors = out - one_hot(batch.y, 3, out.dtype)
        return mean(0.5 * errors.square().sum(1), batch), Tree(logits=out)


@dataclass(frozen=True)
class Summed(FedBRFedMix):
    """The variant's scaling of the third term, on a pool."""

    drawn = FedMix.drawn


@pytest.mark.parametrize(("kind", "factor"), [(FedMix, 0.75), (Summed, 0.75 / 4)])
def test_the_third_term_of_a_linear_model_with_squared_loss(kind: type[FedMix], factor: float) -> None:
    """It is l (1 - l) mean_b (A (1-l) x_b - e_b) . A xbar_b, over the true rows; in the variant over their number once more."""
    draw = torch.Generator().manual_seed(0)
    x, average = torch.randn(2, 5, 6, generator=draw, dtype=torch.float64)
    soft = torch.rand(5, 3, generator=draw, dtype=torch.float64)
    a, y = torch.randn(3, 6, generator=draw, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1])
    mask = torch.tensor([1.0, 1, 1, 1, 0], dtype=torch.float64)
    drawn = torch.arange(5).double() / 5 + 0.01
    batch, supplied = Tree(x=x, y=y, mask=mask, average=drawn), Tree(averages=Tree(x=average, y=soft))
    ctx = SimpleNamespace(common=Tree(supplied=supplied))
    method = type("Mixed", (kind, Squared), {})(mixing=0.25)
    value, _ = method.loss(Tree(A=a), Tree(), batch, ctx)
    out = 0.75 * x @ a.T
    errors = out - F.one_hot(y, 3)
    first = 0.5 * errors.square().sum(1)
    second = F.cross_entropy(out, soft, reduction="none")
    third = (errors * (average @ a.T)).sum(1)
    expected = (0.75 * first + 0.25 * second + 0.25 * factor * third)[:4].mean()
    torch.testing.assert_close(value, expected, rtol=0, atol=1e-12)


class Spy(FedMix):
    """Keeps what its loss was called with."""

    seen: list = []  # noqa: RUF012

    def loss(self, params, local, batch, ctx):
        value, out = super().loss(params, local, batch, ctx)
        self.seen.append((params.map(torch.detach), batch, ctx, float(value.detach())))
        return value, out


def network(federation: Federation, params: Tree) -> torch.nn.Module:
    split = build_model("mlp", federation.shape, federation.classes, 0)
    split.base.double().load_state_dict(dict(params.base))
    split.head.double().load_state_dict(dict(params.head))
    return torch.nn.Sequential(split.base, split.head)


def test_the_third_term_is_the_slope_towards_the_averages(federation, simulate) -> None:
    """Against central differences of the batch's loss."""
    Spy.seen = []
    simulate(Spy(mixing=0.2), rounds=1)
    assert len(Spy.seen) > 10
    for params, batch, ctx, value in Spy.seen[:6]:
        model, pool = network(federation, params), ctx.common.supplied.averages
        chosen = [min(int(u * len(pool.y)), len(pool.y) - 1) for u in batch.average[: len(batch.y)].tolist()]
        with torch.no_grad():
            ahead, behind = (F.cross_entropy(model(0.8 * batch.x + h * pool.x[chosen]), batch.y) for h in (1e-6, -1e-6))
            first = F.cross_entropy(model(0.8 * batch.x), batch.y)
            second = F.cross_entropy(model(0.8 * batch.x), pool.y[chosen])
        expected = 0.8 * first + 0.2 * second + 0.16 * (ahead - behind) / 2e-6
        assert value == pytest.approx(float(expected), abs=1e-8)


@pytest.mark.parametrize("backend", ["loop", "batched", "graph"])
def test_a_step_differentiates_the_slope(federation, simulate, backend: str) -> None:
    """One step of one client, written with two backward passes."""
    rows = federation.rows["train"][0][:5]
    alone = Federation(federation.x, federation.y, [rows], [rows], classes=federation.classes)
    Spy.seen = []
    simulate(Spy(mixing=0.2, samples=2), rounds=1, federation=alone)
    params, batch, ctx, _ = Spy.seen[0]
    pool = ctx.common.supplied.averages
    drawn = pool[(batch.average * len(pool.y)).long()]
    model, x = network(alone, params), (0.8 * batch.x).requires_grad_()
    logits = model(x)
    losses = F.cross_entropy(logits, batch.y, reduction="none")
    towards = torch.autograd.grad(losses.sum(), x, create_graph=True)[0]  # row b depends on sample b alone
    slopes = (towards * drawn.x).flatten(1).sum(1)
    (0.8 * losses + 0.2 * F.cross_entropy(logits, drawn.y, reduction="none") + 0.16 * slopes).mean().backward()
    after = simulate("fedmix", rounds=1, federation=alone, backend=backend, options={"mixing": 0.2, "samples": 2})
    moved = after.replicas[0].server.params
    for part, module in (("base", model[0]), ("head", model[1])):
        for name, value in module.named_parameters():
            expected = value.detach() - 0.05 * value.grad
            torch.testing.assert_close(moved[part][name], expected, rtol=0, atol=1e-12)


# ---- identities, runs ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["fedmix", "fedmix+mixup"])
def test_without_mixing_it_is_fedavg(simulate, name: str) -> None:
    settings = {"rounds": 3, "participation": 0.6, "momentum": 0.5}
    ours = simulate(name, options={"mixing": 0.0}, **settings)
    plain = simulate(name.replace("fedmix", "fedavg"), **settings)
    assert_close(ours.replicas[0].server.params, plain.replicas[0].server.params, 1e-15)
    assert ours.history(0)["correct"].tolist() == plain.history(0)["correct"].tolist()


@pytest.mark.parametrize("model", ["mlp", "cnn-digits", "cnn-digits-bn"])
def test_backends_agree(simulate, model: str) -> None:
    settings = {"model": model, "drop_last": model.endswith("bn"), "seeds": [0, 1], "participation": 0.6}
    one, others = (simulate("fedmix", backend=backend, **settings) for backend in ("loop", "batched"))
    for a, b in zip(one.replicas, others.replicas, strict=True):
        assert_close(a.server.params, b.server.params, 1e-11)


def test_in_the_variant_all_clients_mix_with_the_same_averages_at_a_step(simulate) -> None:
    for kind in (FedMix, FedBRFedMix):

        class Drawn(kind):
            seen: ClassVar[dict] = {}

            def drawn(self, u: torch.Tensor, ctx) -> Tree:
                found = super().drawn(u, ctx)
                self.seen.setdefault(int(ctx.info.id), []).append(found.x)
                return found

        simulate(Drawn(), rounds=1, drop_last=True)
        first, last = Drawn.seen[0], Drawn.seen[4]  # of 24 and 30 samples: four steps and six
        assert (len(first), len(last)) == (4, 6)
        assert [torch.equal(a, b) for a, b in zip(first, last, strict=False)] == [kind is FedBRFedMix] * 4
        assert not torch.equal(last[0], last[1])


@pytest.mark.parametrize("method", [FedMix(), FedBRFedMix()], ids=lambda method: type(method).__name__)
@pytest.mark.parametrize("backend", ["loop", "batched"])
def test_a_resumed_run_makes_the_same_averages(simulate, backend: str, method: FedMix) -> None:
    whole, stopped = (simulate(method, rounds=rounds, backend=backend) for rounds in (3, 2))
    resumed = Simulation(
        method, whole.federation, "mlp", whole.settings, [0], backend=backend, workers=1, dtype="float64"
    )
    resumed.restore(stopped.state())
    resumed.step()
    assert resumed.finished
    assert_same(resumed.replicas[0].server, whole.replicas[0].server)


@pytest.mark.parametrize(
    "options",
    [{"mixing": -0.1}, {"mixing": 1.5}, {"samples": 0}, {"mixing": float("nan")}],
)
def test_impossible_values_are_refused(options: dict) -> None:
    with pytest.raises(UserError, match=f"{next(iter(options))} of fedmix must be"):
        build_method("fedmix", options)
