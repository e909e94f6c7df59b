"""q-FFL: its normalised update."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.trees import assert_close

from pflrepro.algorithms.qffl import QFFL
from pflrepro.algorithms.task import Context
from pflrepro.errors import UserError
from pflrepro.trees import Tree


def numbers(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def aggregated(method: QFFL, received: list[float], models: list[list[float]], losses: list[float], rate: float):
    """w^{t+1} as a list; the parameters lie in two groups and two shapes."""
    split = [Tree(base=Tree(w=numbers(*w)[:-1]), head=Tree(b=numbers(*w)[-1])) for w in (received, *models)]
    uploads = Tree(params=split[1].map(lambda *leaves: torch.stack(leaves), *split[2:]), F=numbers(*losses))
    ctx = Context(task=None, kinds={}, scalars=Tree(rate=torch.tensor(rate, dtype=torch.float64)))
    new = method.aggregate(Tree(params=split[0]), uploads, Tree(), ctx).params
    return [*new.base.w.tolist(), float(new.head.b)]


def direct(q: float, received, models, losses, rate: float) -> np.ndarray:
    """The formulas as printed, in extended precision."""
    w, k, f = (np.array(values, dtype=np.longdouble) for values in (received, models, losses))
    L = 1 / np.longdouble(rate)
    d = L * (w - k)
    h = q * f ** (q - 1) * (d**2).sum(1) + L * f**q
    return (w - ((f**q)[:, None] * d).sum(0) / h.sum()).astype(float)


def test_a_round_by_hand() -> None:
    """q = 2, eta = 0.1, w = 1, models 0.9 and 0.7, losses 1 and 2: d = (1, 3), D = (1, 12), h = (12, 76)."""
    new = aggregated(QFFL(2.0), [0.0, 1.0], [[0.0, 0.9], [0.0, 0.7]], [1.0, 2.0], 0.1)
    np.testing.assert_allclose(new, [0.0, 1 - 13 / 88], atol=1e-9)


@pytest.mark.parametrize("q", [0.0, 0.5, 1.0, 10.0])
@pytest.mark.parametrize("scale", [1.0, 1e-4, 1e3])
def test_the_common_factor_changes_nothing(q: float, scale: float) -> None:
    draw = np.random.default_rng(0)
    received, models = draw.standard_normal(3), draw.standard_normal((4, 3))
    losses = [scale * loss for loss in (0.5, 1.0, 3.0, 2.0)]
    ours = aggregated(QFFL(q), received.tolist(), models.tolist(), losses, 0.05)
    np.testing.assert_allclose(ours, direct(q, received, models, losses, 0.05), rtol=1e-5)


def test_extreme_losses_stay_finite_in_single_precision() -> None:
    uploads = Tree(params=Tree(base=Tree(w=torch.tensor([[0.9], [0.8], [0.7]]))), F=torch.tensor([0.0, 1e-3, 1e6]))
    ctx = Context(task=None, kinds={}, scalars=Tree(rate=torch.tensor(0.1)))
    for q in (0.0, 0.5, 10.0):
        new = QFFL(q).aggregate(Tree(params=Tree(base=Tree(w=torch.ones(1)))), uploads, Tree(), ctx)
        assert 0.69 < float(new.params.base.w) < 1.0


def test_equal_losses_go_in_fedavgs_direction() -> None:
    received, models = [1.0, 2.0], [[0.5, 2.5], [0.7, 1.5], [0.0, 2.3]]
    moved = np.array(aggregated(QFFL(3.0), received, models, [0.8] * 3, 0.1)) - received
    mean = np.mean(models, axis=0) - received
    factor = moved[0] / mean[0]
    assert 0 < factor < 1
    np.testing.assert_allclose(moved, factor * mean, atol=1e-12)


def test_q_zero_is_the_uniform_average(simulate) -> None:
    """As is SCAFFOLD's first round."""
    scaffold = simulate("scaffold", rounds=1).replicas[0].server.params
    assert_close(simulate(QFFL(0.0), rounds=1).replicas[0].server.params, scaffold)


def test_without_a_rate_nothing_moves(simulate) -> None:
    still, start = (simulate(QFFL(), rounds=rounds, lr=0.0).replicas[0].server for rounds in (2, 0))
    assert_close(still, start, 0)


def test_a_negative_power_is_refused() -> None:
    with pytest.raises(UserError, match="q of QFFL must be"):
        QFFL(-1.0)
