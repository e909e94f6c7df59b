"""Limits that hold exactly, of methods whose own tests do not have them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
import torch
from helpers.trees import assert_close

from pflrepro.algorithms.feddecorr import correlation
from pflrepro.algorithms.fedfomo import FedFomo
from pflrepro.algorithms.lgfedavg import LGFedAvg
from pflrepro.trees import Tree, WholeBatch


@dataclass(frozen=True)
class OfOneKind(LGFedAvg):
    """LG-FedAvg with all layers global (`shared`), or none (`personal`)."""

    kind: str = "shared"

    def layout(self, setup):
        return {name: replace(part, kind=self.kind) for name, part in super().layout(setup).items()}


@pytest.mark.parametrize(("kind", "limit"), [("shared", "fedavg"), ("personal", "local")])
def test_lg_fedavg_with_all_layers_shared_is_fedavg_and_with_none_local(simulate, kind: str, limit: str) -> None:
    settings = {"rounds": 3, "participation": 0.6, "momentum": 0.5, "weights": "uniform"}
    ours, reference = (simulate(m, **settings).replicas[0] for m in (OfOneKind(kind=kind), limit))
    assert set((ours.server.params | ours.clients.params).keys()) == {"base", "head"}
    assert_close(ours.server.params, reference.server.params)
    assert_close(ours.clients.params, reference.clients.params)


@pytest.mark.parametrize(("losses", "expected"), [((2.0, 3.0), 5.0), ((0.5, 3.0), 1.0), ((1.0, 1.0), 5.0)])
def test_fedfomo_without_a_positive_weight_goes_on_from_its_own_model(losses: tuple[float, ...], expected) -> None:
    """L(old) is 1: candidates of larger or equal loss have no positive weight; the first of the second case has."""

    def model(value: float) -> Tree:
        return Tree(base=Tree(w=torch.tensor([value], dtype=torch.float64)))

    stored = Tree(base=Tree(w=torch.tensor([[1.0], [2.0]], dtype=torch.float64)))
    ctx = SimpleNamespace(
        phase=SimpleNamespace(name="weigh"), common=Tree(models=stored), own=Tree(chosen=torch.tensor([0, 1]))
    )
    local = Tree(params=model(5.0), old=model(4.0))  # trained last, and what that training began with
    n = torch.tensor(10.0, dtype=torch.float64)
    sums = Tree(n=n, old=n * 1.0, received=n * torch.tensor(losses, dtype=torch.float64))
    left = FedFomo().leave(local, sums, ctx)
    assert_close(left.params, model(expected))
    assert_close(left.old, model(expected))
    torch.testing.assert_close(left.w, (1 - sums.received / n) / (torch.tensor([3.0, 2.0]).double() + 1e-5))


@pytest.mark.parametrize("rows", [100, 10_000])
def test_feddecorr_of_independent_columns_vanishes_and_of_two_equal_ones_does_not(rows: int) -> None:
    """Off the diagonal the squared correlations of independent columns are 1/B on average; of equal columns ((B-1)/B)^2."""
    z = torch.randn(rows, 32, generator=torch.Generator().manual_seed(rows), dtype=torch.float64)
    batch = WholeBatch(mask=torch.ones(rows, dtype=torch.float64))

    def off_diagonal(z: torch.Tensor) -> float:
        """The mean over all K^2 entries, without the K of the diagonal."""
        k = z.shape[1]
        diagonal = k * ((rows - 1) / rows) ** 2
        return (k**2 * float(correlation(z, batch)) - diagonal) / (k**2 - k)

    assert off_diagonal(1e3 * z) == pytest.approx(1 / rows, rel=0.15)
    assert off_diagonal(1e3 * z[:, :1].expand(-1, 2)) == pytest.approx(((rows - 1) / rows) ** 2, rel=1e-5)
