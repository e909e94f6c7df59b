"""FedNTD: distillation over the classes that are not the true one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from helpers.trees import assert_close

from pflrepro.algorithms.fedntd import FedNTD
from pflrepro.algorithms.mixup import Mixup
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.models import build_model
from pflrepro.models.split import parameters_of
from pflrepro.trees import Tree


def gathered(teacher: torch.Tensor, student: torch.Tensor, labels: torch.Tensor, tau: float) -> torch.Tensor:
    """KL(teacher || student) [B] with the columns (y + 1 ... y + C - 1) mod C, the true one dropped before the softmax."""
    classes = student.shape[1]
    columns = (labels[:, None] + torch.arange(1, classes)) % classes
    p, q = (F.log_softmax(logits.gather(1, columns) / tau, 1) for logits in (teacher, student))
    return F.kl_div(q, p, reduction="none", log_target=True).sum(1)


def test_worked_by_hand() -> None:
    """Student odds 1 : 3 and teacher odds 1 : 1 of the two classes that are not true, whatever the true one's logit is."""
    student = torch.tensor([[0.0, math.log(3), 7.0]], dtype=torch.float64)
    teacher = torch.tensor([[2.0, 2.0, -50.0]], dtype=torch.float64)
    labels = torch.tensor([2])
    expected = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    assert float(FedNTD().divergence(teacher, student, labels)) == pytest.approx(expected, rel=1e-12)
    assert float(FedNTD().divergence(student, teacher, labels)) != pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize("tau", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("kind", [torch.float64, torch.float32])
def test_masking_is_gathering(tau: float, kind: torch.dtype) -> None:
    stream = torch.Generator().manual_seed(5)
    teacher, student = (3 * torch.randn(9, 6, generator=stream, dtype=kind) for _ in range(2))
    labels, student = torch.arange(9) % 6, student.requires_grad_()
    ours, theirs = FedNTD(ntd_tau=tau).divergence(teacher, student, labels), gathered(teacher, student, labels, tau)
    tolerance = 1e-12 if kind is torch.float64 else 1e-5
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)
    gradients = [torch.autograd.grad(value.sum(), student)[0] for value in (ours, theirs)]
    torch.testing.assert_close(*gradients, rtol=0, atol=tolerance)
    assert bool((gradients[0].gather(1, labels[:, None]) == 0).all())  # the true class learns nothing from it


def test_nothing_to_distil() -> None:
    """Student = teacher, and two classes: exactly 0."""
    stream = torch.Generator().manual_seed(6)
    logits, other = (torch.randn(5, 4, generator=stream, dtype=torch.float64) for _ in range(2))
    labels = torch.arange(5) % 2
    assert FedNTD().divergence(logits, logits, labels).tolist() == [0.0] * 5
    assert FedNTD().divergence(logits[:, :2], other[:, :2], labels).tolist() == [0.0] * 5


def test_beta_zero_and_one_local_step_are_fedavg(simulate) -> None:
    settings = {"participation": 0.6, "momentum": 0.5}
    ours, fedavg = simulate(FedNTD(ntd_beta=0.0), **settings), simulate("fedavg", **settings)
    assert_close(ours.replicas[0].server, fedavg.replicas[0].server, 0)
    ours, fedavg = simulate(FedNTD(ntd_beta=9.0), batch_size=100), simulate("fedavg", batch_size=100)
    assert_close(ours.replicas[0].server, fedavg.replicas[0].server)


def test_two_rounds_in_plain_pytorch(federation, simulate) -> None:
    """Three full-batch steps a round on CE + beta tau^2 mean KL(received || trained)."""
    rows = federation.rows["train"][0]
    alone = Federation(federation.x, federation.y, [rows], [rows[:3]], classes=federation.classes)
    settings = {"federation": alone, "rounds": 2, "batch_size": 100, "local_epochs": 3, "momentum": 0.9}
    ours = simulate(FedNTD(ntd_beta=0.7, ntd_tau=2.0), **settings).replicas[0].server.params
    split = build_model("mlp", alone.shape, alone.classes, 0)
    model = torch.nn.Sequential(split.base, split.head).double()
    x, y = alone.x[rows].double(), alone.y[rows]
    for _ in range(2):
        teacher = model(x).detach()
        optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        for _ in range(3):
            logits = model(x)
            loss = F.cross_entropy(logits, y) + 0.7 * 2.0**2 * gathered(teacher, logits, y, 2.0).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    assert_close(ours, Tree(base=parameters_of(split.base), head=parameters_of(split.head)))


@dataclass(frozen=True)
class Spy(FedNTD):
    """Keeps what its loss was called with, and gave."""

    seen = []  # noqa: RUF012

    def loss(self, params, local, batch, ctx):
        value, out = super().loss(params, local, batch, ctx)
        teacher = self.forward(ctx.common.params, batch.x, ctx.at(training=False)).logits
        self.seen.append((batch, out.logits.detach(), teacher, float(value.detach())))
        return value, out


def test_both_labels_of_a_mixed_batch(simulate) -> None:
    Spy.seen.clear()
    simulate(dataclass(frozen=True)(type("Mixed", (Mixup, Spy), {}))(ntd_beta=0.5, ntd_tau=1.5), rounds=1)
    assert len(Spy.seen) > 10
    for batch, logits, teacher, value in Spy.seen:
        expected = 0.0
        for share, labels in ((batch.share, batch.y), (1 - batch.share, batch.partner)):
            term = gathered(teacher, logits, labels, 1.5).mean()
            expected += float(share * (F.cross_entropy(logits, labels) + 0.5 * 1.5**2 * term))
        assert value == pytest.approx(expected, rel=1e-12)


@dataclass(frozen=True)
class Modes(FedNTD):
    """Keeps the mode of every pass."""

    passes = []  # noqa: RUF012

    def forward(self, params, x, ctx):
        self.passes.append(ctx.training)
        return super().forward(params, x, ctx)


def test_the_teacher_is_in_evaluation_mode_and_leaves_the_running_statistics_alone(digits, simulate) -> None:
    settings = {"federation": digits, "model": "cnn-digits-bn", "rounds": 1, "batch_size": 20, "drop_last": True}
    Modes.passes.clear()
    ours, fedavg = (simulate(method, **settings).replicas[0] for method in (Modes(ntd_beta=0.0), "fedavg"))
    assert sum(Modes.passes) == 4 * 3  # four clients, three batches: the model in training, and never the teacher
    assert_close(ours.kept, fedavg.kept, 0)


@pytest.mark.parametrize("options", [{"ntd_beta": -1.0}, {"ntd_tau": 0.0}])
def test_impossible_values_are_refused(options: dict) -> None:
    with pytest.raises(UserError, match=f"{next(iter(options))} of FedNTD"):
        FedNTD(**options)
