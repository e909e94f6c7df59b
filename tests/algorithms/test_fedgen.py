"""FedGen: the generator, the clients' loss, the server's training, written again in plain PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from helpers.trees import assert_close
from torch import nn

from pflrepro.algorithms import build_method
from pflrepro.algorithms.dbe import PRBM
from pflrepro.algorithms.fedgen import FedGen
from pflrepro.errors import UserError
from pflrepro.trees import Tree

SMALL = {"server_steps": 4, "noise": 6, "hidden": 7, "rows": 8}


class Plain(nn.Module):
    """The generator as modules."""

    def __init__(self, params: Tree) -> None:
        super().__init__()
        (hidden, width), features = params.first.weight.shape, len(params.second.bias)
        self.first, self.norm = nn.Linear(width, hidden, bias=False), nn.BatchNorm1d(hidden)
        self.second = nn.Linear(hidden, features)
        self.double().load_state_dict({k.replace("/", "."): v for k, v in params.flat().items()}, strict=False)

    def forward(self, noise: torch.Tensor, labels: torch.Tensor, classes: int) -> torch.Tensor:
        hot = F.one_hot(labels, classes).double()
        return self.second(F.relu(self.norm(self.first(torch.cat([noise, hot], 1)))))


class Spy(FedGen):
    """Keeps what its loss and its server steps were called with."""

    losses: list = []  # noqa: RUF012
    steps: list = []  # noqa: RUF012

    def loss(self, params, local, batch, ctx):
        value, out = super().loss(params, local, batch, ctx)
        self.losses.append((params, batch, out, ctx, value.detach()))
        return value, out

    def serve(self, server, uploads, batch, cohort, ctx):
        new = super().serve(server, uploads, batch, cohort, ctx)
        self.steps.append((server, uploads, batch, cohort, ctx, new))
        return new


@pytest.fixture
def spy():
    Spy.losses, Spy.steps = [], []
    return Spy


def drawn_labels(u: torch.Tensor, federation) -> torch.Tensor:
    pool = [k for k, n in enumerate(federation.counts().sum(0).tolist()) for _ in range(n)]
    return torch.tensor([pool[int(float(v) * len(pool))] for v in u])


@pytest.mark.parametrize("name", ["fedgen", "fedgen+dbe"])
def test_without_weight_the_generator_teaches_nothing(simulate, name: str) -> None:
    options = SMALL | {"weight": 0.0}
    ours = simulate(name, options=options, participation=0.6).replicas[0].server.params.without(["generator"])
    assert_close(ours, simulate(name.replace("fedgen", "fedavg"), participation=0.6).replicas[0].server.params, 0)


def test_the_clients_loss(federation, simulate, spy) -> None:
    simulate(spy(**SMALL))
    assert len(spy.losses) > 10
    for params, batch, out, ctx, value in spy.losses:
        head, classes = params.head, federation.classes
        generator = Plain(ctx.common.params.generator)
        labels = drawn_labels(batch.u, federation)
        with torch.no_grad():
            generated = F.cross_entropy(
                F.linear(generator(batch.noise, labels, classes), head.weight, head.bias), labels
            )
        torch.testing.assert_close(value, F.cross_entropy(out.logits, batch.y) + generated, rtol=0, atol=1e-10)


def test_the_server_trains_its_generator_with_adam(federation, simulate, spy) -> None:
    simulation = simulate(spy(**SMALL), participation=0.6)
    assert len(spy.steps) == 2 * SMALL["server_steps"]
    generator = Plain(spy.steps[0][0].params.generator)
    optimiser = torch.optim.Adam(generator.parameters(), lr=0.005, betas=(0.9, 0.999), eps=1e-8)
    for _, uploads, batch, cohort, _, _ in spy.steps:
        labels = drawn_labels(batch.u, federation)
        features = generator(batch.noise, labels, federation.classes)
        logits = [
            F.linear(features, w, b)
            for w, b in zip(*uploads.params.head.only(["weight", "bias"]).values(), strict=True)
        ]
        loss = F.cross_entropy(sum(p * values for p, values in zip(cohort.p, logits, strict=True)), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    after = simulation.replicas[0].server.params.generator
    for path, value in after.flat().items():
        torch.testing.assert_close(
            value, dict(generator.named_parameters())[path.replace("/", ".")].data, rtol=0, atol=1e-9
        )


def test_generated_features_pass_by_the_personal_bias(simulate, spy) -> None:
    """With a personal bias, only the real features are shifted."""
    composed = dataclass(frozen=True)(type("WithBias", (PRBM, spy), {}))(**SMALL)
    simulate(composed)
    params, batch, out, ctx, value = spy.losses[-1]
    bias = params.bias.b.detach()
    assert float(bias.abs().max()) > 0
    labels = composed.labels(batch.u, ctx)
    with torch.no_grad():
        features = Plain(ctx.common.params.generator)(batch.noise, labels, ctx.task.classes)
        generated = F.cross_entropy(F.linear(features, params.head.weight, params.head.bias), labels)
        shifted = F.linear(out.z + bias, params.head.weight, params.head.bias)
    torch.testing.assert_close(out.logits.detach(), shifted.detach(), rtol=0, atol=1e-12)
    torch.testing.assert_close(value, F.cross_entropy(shifted, batch.y).detach() + generated, rtol=0, atol=1e-12)


def test_labels_are_drawn_as_often_as_they_occur(federation, simulate, spy) -> None:
    simulate(spy(**SMALL), rounds=1)
    ctx, counts = spy.losses[0][3], federation.counts().sum(0)
    total = int(counts.sum())
    grid = (torch.arange(total).double() + 0.5) / total
    assert torch.bincount(spy(**SMALL).labels(grid, ctx), minlength=len(counts)).tolist() == counts.tolist()
    assert spy(**SMALL).labels(torch.ones(1), ctx).tolist() == [
        int(torch.nonzero(counts).max())
    ]  # no class that nobody has


def test_a_head_with_running_statistics_is_refused(simulate) -> None:
    with pytest.raises(UserError, match="no running statistics for a batch norm in them"):
        simulate("fedgen", model="cnn-digits-bn@conv1", drop_last=True)


@pytest.mark.parametrize("options", [{"rows": 1}, {"noise": 0}, {"weight": -1.0}, {"server_steps": -1}])
def test_impossible_values_are_refused(options: dict) -> None:
    with pytest.raises(UserError, match=f"{next(iter(options))} of fedgen must be"):
        build_method("fedgen", options)
