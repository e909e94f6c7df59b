"""FedPHP and fedphp/platform: the historical model, its schedule, and the two regularisers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers.trees import assert_close

from pflrepro.algorithms.fedphp import FedPHP
from pflrepro.algorithms.task import Context
from pflrepro.algorithms.variants.fedphp import PlatformFedPHP, mmd
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.models import build_model
from pflrepro.models.split import parameters_of
from pflrepro.trees import Tree


class GentleFedPHP(FedPHP):
    """FedPHP whose gradients are scaled down to a norm that they reach."""

    clip = 0.05


# ---- MMD -----------------------------------------------------------------------------------------------------------------------
def test_mmd_of_two_points() -> None:
    """One row each at distance 5: 2 sum_a (1 - k_a)."""
    x, y, mask = torch.zeros(1, 2).double(), torch.tensor([[3.0, 4.0]]).double(), torch.ones(1).double()
    assert float(mmd(x, y, mask)) == pytest.approx(2 * sum(1 - math.exp(-25 / (2 * a)) for a in (10, 15, 20, 50)))


def test_mmd_over_all_pairs_and_without_padding() -> None:
    source = torch.Generator().manual_seed(0)
    x, y = (torch.randn(5, 3, generator=source, dtype=torch.float64) for _ in range(2))
    rows = torch.cat([x[:4], y[:4]])
    apart = [float(((a - b) ** 2).sum()) for a in rows for b in rows]
    kernel = np.array([sum(math.exp(-d / s) for s in (20, 30, 40, 100)) for d in apart]).reshape(8, 8)
    expected = (kernel[:4, :4] + kernel[4:, 4:] - 2 * kernel[:4, 4:]).mean()
    mask = torch.tensor([1.0, 1, 1, 1, 0]).double()
    assert float(mmd(x, y, mask)) == pytest.approx(expected, abs=1e-7)
    assert float(mmd(x[:4], y[:4], mask[:4])) == pytest.approx(expected, abs=1e-7)
    assert float(mmd(x, x, mask)) == pytest.approx(0, abs=1e-12)


# ---- rounds --------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", [FedPHP, PlatformFedPHP])
def test_without_teacher_and_inheritance_it_is_fedavg(simulate, kind: type[FedPHP]) -> None:
    """The history is then the model of the last local training."""
    settings = {"rounds": 3, "participation": 0.6, "momentum": 0.5}
    method = kind(weight=0.0, inheritance=0.0)
    ours, fedavg = simulate(method, **settings), simulate("fedavg", **settings)
    assert_close(ours.replicas[0].server.params, fedavg.replicas[0].server.params)
    assert ours.history(0)["correct_after"].tolist() == fedavg.history(0)["correct_after"].tolist()
    if kind is PlatformFedPHP:  # tested is the start of training, w^t
        assert ours.history(0)["correct"].tolist() == fedavg.history(0)["correct"].tolist()


def test_the_first_round_of_a_client(simulate) -> None:
    """Without a lesson, and with mu = 0: FedAvg, and the history is the trained model."""
    ours, fedavg = simulate(FedPHP(weight=0.5), rounds=1), simulate("fedavg", rounds=1)
    assert_close(ours.replicas[0].server.params, fedavg.replicas[0].server.params)
    history = ours.history(0)
    assert history["correct"][1].tolist() == history["correct_after"][1].tolist()


def test_counts_of_rounds(simulate) -> None:
    ours = simulate(FedPHP(), rounds=7, participation=0.6)
    counts = ours.history(0)["participated"].sum(0)
    assert ours.replicas[0].clients.count.tolist() == counts.tolist()


def test_the_share_that_is_inherited(simulate) -> None:
    """Three of five clients in each of seven rounds: each is expected floor(21 / 5) = 4 times."""
    task = simulate(FedPHP(), rounds=7, participation=0.6).task
    ctx = Context(task, {}, Tree(t=torch.tensor(2.0)))
    shares = [float(FedPHP().inherited(Tree(count=torch.tensor(c)), ctx)) for c in (0.0, 1.0, 4.0, 9.0)]
    assert shares == pytest.approx([0, 0.225, 0.9, 0.9])
    assert float(PlatformFedPHP().inherited(Tree(), ctx)) == pytest.approx(0.9 * 2 / 7)


@pytest.mark.parametrize("kind", [FedPHP, GentleFedPHP, PlatformFedPHP])
def test_three_rounds_of_one_client(federation, simulate, kind: type[FedPHP]) -> None:
    """Full batches, weight 0.4, as a plain loop; of three rounds mu is 0, 0.3 and 0.6."""
    rows = federation.rows["train"][3]
    alone = Federation(federation.x, federation.y, [rows], [rows[:4]], classes=federation.classes)
    ours = simulate(kind(weight=0.4), federation=alone, batch_size=100, rounds=3, local_epochs=2)
    platform = kind is PlatformFedPHP
    split = build_model("mlp", alone.shape, alone.classes, 0)
    base, head = split.base.double(), split.head.double()
    x, y = alone.x[rows].double(), alone.y[rows]
    parameters = [*base.parameters(), *head.parameters()]

    def load(values: list[torch.Tensor]) -> None:
        for parameter, value in zip(parameters, values, strict=True):
            parameter.data.copy_(value)

    def current() -> list[torch.Tensor]:
        return [parameter.detach().clone() for parameter in parameters]

    def mix(mu: float, old: list[torch.Tensor], new: list[torch.Tensor]) -> list[torch.Tensor]:
        return [mu * a + (1 - mu) * b for a, b in zip(old, new, strict=True)]

    w = h = current()
    for t, mu in enumerate((0.0, 0.3, 0.6)):
        load(w if platform else h)
        with torch.no_grad():
            taught_z, taught = base(x), head(base(x))
        load(mix(mu, h, w) if platform else w)
        for _ in range(2):
            z = base(x)
            logits = head(z)
            ones = torch.ones(len(y)).double()
            lesson = mmd(z, taught_z, ones) if platform else F.cross_entropy(logits, (taught / 4).softmax(1))
            weight = 0.4 if platform or t else 0.0
            grads = torch.autograd.grad((1 - weight) * F.cross_entropy(logits, y) + weight * lesson, parameters)
            norm = float(sum((g**2).sum() for g in grads)) ** 0.5
            scale = 1.0 if platform else min(1.0, kind.clip / (norm + 1e-6))
            with torch.no_grad():
                for parameter, g in zip(parameters, grads, strict=True):
                    parameter -= 0.05 * scale * g
        w = current()
        h = w if platform else mix(mu, h, w)
    replica = ours.replicas[0]
    load(w)
    assert_close(replica.server.params, Tree(base=parameters_of(base), head=parameters_of(head)))
    load(h)
    assert_close(replica.clients.history[0], Tree(base=parameters_of(base), head=parameters_of(head)))
    load(mix(0.9, h, w) if platform else h)  # what is tested after the last round
    with torch.no_grad():
        expected = float(F.cross_entropy(head(base(x[:4])), y[:4], reduction="sum"))
    assert ours.history(0)["loss"][-1, 0] == pytest.approx(expected, abs=1e-10)


def test_the_platforms_teacher_takes_batch_norm_by_the_batch_as_its_student_does(simulate) -> None:
    """In round 0 both are w^0, so that at rate 0 their features are equal in every step."""
    seen = []

    class Watched(PlatformFedPHP):
        def regulariser(self, out: Tree, taught: Tree, batch: Tree) -> torch.Tensor:
            seen.append(float((out.z - taught.z).detach().abs().max()))
            return super().regulariser(out, taught, batch)

    simulate(Watched(), model="cnn-digits-bn", rounds=1, lr=0.0, drop_last=True)
    assert seen and max(seen) == 0


def test_a_weight_that_is_no_share_is_refused() -> None:
    with pytest.raises(UserError, match="weight of FedPHP must be"):
        FedPHP(weight=1.5)


def test_a_run_without_rounds_inherits_nothing(simulate) -> None:
    platform, paper = (simulate(kind(), rounds=0).history(0)["loss"] for kind in (PlatformFedPHP, FedPHP))
    np.testing.assert_array_equal(platform, paper)
