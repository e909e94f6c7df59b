"""FedDecorr: its penalty, worked by hand and written again."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from helpers.trees import assert_close

from pflrepro.algorithms.feddecorr import FedDecorr, correlation
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.models import build_model
from pflrepro.models.split import parameters_of
from pflrepro.trees import Tree, WholeBatch


def whole(rows: int) -> WholeBatch:
    return WholeBatch(mask=torch.ones(rows, dtype=torch.float64))


def penalty(z: torch.Tensor, batch: Tree | None = None) -> torch.Tensor:
    return correlation(z, whole(len(z)) if batch is None else batch)


def literal(z: torch.Tensor) -> torch.Tensor:
    """By the K x K matrix."""
    standard = (z - z.mean(0)) / (z.std(0) + 1e-4)
    return ((standard.T @ standard / len(z)) ** 2).mean()


@pytest.mark.parametrize("shape", [(4, 9), (30, 5), (2, 2)])
def test_the_penalty(shape: tuple[int, int]) -> None:
    z = torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()
    ours, theirs = penalty(z), literal(z)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=0)
    gradients = [torch.autograd.grad(value, z)[0] for value in (ours, theirs)]
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-12)


def test_worked_by_hand() -> None:
    """Two equal columns of four rows: every entry of Z^T Z is B - 1 = 3; two orthogonal ones: only the diagonal is."""
    a, b = torch.tensor([[1e6, -1e6, 1e6, -1e6], [1e6, 1e6, -1e6, -1e6]], dtype=torch.float64)  # epsilons do not show
    equal, orthogonal = torch.stack([a, 5 * a], 1), torch.stack([a, b], 1)
    assert float(penalty(equal)) == pytest.approx((3 / 4) ** 2, rel=1e-9)
    assert float(penalty(orthogonal)) == pytest.approx((3 / 4) ** 2 / 2, rel=1e-9)


def test_padded_rows_do_not_count() -> None:
    z = torch.randn(7, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    mask = torch.tensor([1, 1, 1, 0, 1, 0, 0], dtype=torch.float64)
    torch.testing.assert_close(penalty(z, Tree(mask=mask)), literal(z[mask > 0]), rtol=1e-12, atol=0)


@pytest.mark.parametrize("case", ["one row", "no row", "equal rows", "a dead feature"])
def test_degenerate_batches_are_finite(case: str) -> None:
    z = torch.randn(4, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    mask = torch.ones(4, dtype=torch.float64)
    if case in ("one row", "no row"):
        mask = torch.tensor([0, 1, 0, 0], dtype=torch.float64) * (case == "one row")
    elif case == "equal rows":
        z = z[:1].expand(4, 3).clone()
    else:
        z[:, 1] = 0
    z.requires_grad_()
    value = penalty(z, Tree(mask=mask))
    (gradient,) = torch.autograd.grad(value, z)
    assert bool(gradient.isfinite().all())
    if case != "a dead feature":
        assert float(value.detach()) == pytest.approx(0, abs=1e-12)


def test_two_rounds_in_plain_pytorch(federation, simulate) -> None:
    rows = federation.rows["train"][0]
    alone = Federation(federation.x, federation.y, [rows], [rows[:3]], classes=federation.classes)
    settings = {"federation": alone, "rounds": 2, "batch_size": 100, "local_epochs": 2, "momentum": 0.9}
    ours = simulate(FedDecorr(decorrelation=0.3), **settings).replicas[0].server.params
    split = build_model("mlp", alone.shape, alone.classes, 0)
    model = torch.nn.Sequential(split.base, split.head).double()
    for _ in range(2):
        optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        for _ in range(2):
            z = split.base(alone.x[rows].double())
            used = z[:, z.detach().std(0) > 0]  # features that are 0 in all rows add 0, and their std has no gradient
            part = (used.shape[1] / z.shape[1]) ** 2
            optimiser.zero_grad()
            (F.cross_entropy(split.head(z), alone.y[rows]) + 0.3 * part * literal(used)).backward()
            optimiser.step()
    assert_close(ours, Tree(base=parameters_of(split.base), head=parameters_of(split.head)), 1e-11)


def test_a_feature_that_hardly_varies_does_not_spoil_the_gradient_in_single_precision() -> None:
    """Of ReLU features, one active in a single row with 1e-4: nearly all of the gradient is its own, and right to 1e-6."""
    z = torch.randn(10, 16, generator=torch.Generator().manual_seed(3)).relu()
    z[:, 0] = 0
    z[4, 0] = 1e-4
    gradients = []
    for dtype in (torch.float32, torch.float64):
        leaf = z.to(dtype).requires_grad_()
        batch = WholeBatch(mask=torch.ones(len(z), dtype=dtype))
        gradients.append(torch.autograd.grad(penalty(leaf, batch), leaf)[0].double())
    single, double = gradients
    assert float(double[:, 0].norm() / double.norm()) > 0.99
    assert float((single - double).norm() / double.norm()) < 1e-6


def test_the_backends_agree_on_convolutions_in_double_precision(digits, simulate) -> None:
    """What parts the backends in single precision is rounding, magnified; the formulas are the same."""
    settings = {"federation": digits, "model": "cnn-digits", "rounds": 1, "batch_size": 10, "lr": 0.1}
    one, all_ = (
        simulate(FedDecorr(), backend=backend, **settings).replicas[0].server for backend in ("loop", "batched")
    )
    assert_close(one, all_, 1e-9)


def test_without_weight_it_is_fedavg(simulate) -> None:
    settings = {"participation": 0.6, "momentum": 0.5}
    ours, fedavg = simulate(FedDecorr(decorrelation=0.0), **settings), simulate("fedavg", **settings)
    assert_close(ours.replicas[0].server, fedavg.replicas[0].server, 0)


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(UserError, match="decorrelation of FedDecorr must be"):
        FedDecorr(decorrelation=-0.1)
