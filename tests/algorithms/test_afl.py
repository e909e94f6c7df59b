"""AFL: mixture weights by projected ascent on the losses of the received model."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from helpers.trees import assert_close

from pflrepro.algorithms.afl import AFL, shares
from pflrepro.algorithms.phases import Phase
from pflrepro.algorithms.received_loss import FirstLoss, ReportedLoss
from pflrepro.algorithms.task import Context
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.models import build_model
from pflrepro.simulation.schedule import batches
from pflrepro.trees import Tree


def numbers(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def aggregated(method: AFL, weights: torch.Tensor, ids: list[int], losses: torch.Tensor) -> Tree:
    """The server after a round in which client k uploads the model (k + 1) and its loss."""
    server = Tree(params=Tree(base=Tree(w=numbers(0.0))), weights=weights)
    uploads = Tree(params=Tree(base=Tree(w=numbers(*ids)[:, None] + 1)), F=losses)
    ctx = Context(task=None, kinds={}, scalars=Tree())
    return method.aggregate(server, uploads, Tree(id=torch.tensor(ids)), ctx)


def test_a_round_by_hand() -> None:
    """1/3 + 0.1 * (1, 2, 3) sums to 1.6: 0.2 less each. The models 1, 2, 3 are averaged with the weights before."""
    new = aggregated(AFL(), numbers(1, 1, 1) / 3, [0, 1, 2], numbers(1, 2, 3))
    torch.testing.assert_close(new.weights, numbers(7, 10, 13) / 30)
    torch.testing.assert_close(new.params.base.w, numbers(2))
    new = aggregated(AFL(weight_step=1.0), numbers(0.25, 0.5, 0.25), [0, 1, 2], numbers(1, 2, 3))
    torch.testing.assert_close(new.weights, numbers(0, 0.125, 0.875))  # (1.25, 2.5, 3.25), theta = 4.75 / 2
    torch.testing.assert_close(new.params.base.w, numbers(2.0))


def test_absent_clients_keep_their_weight_and_the_cohort_its_sum() -> None:
    new = aggregated(AFL(), numbers(0.2, 0.5, 0.3), [0, 2], numbers(1, 2))
    torch.testing.assert_close(new.weights, numbers(0.15, 0.5, 0.35))  # (0.3, 0.5) to the sum 0.5: 0.15 less each
    torch.testing.assert_close(new.params.base.w, numbers((0.2 * 1 + 0.3 * 3) / 0.5))
    nobody = aggregated(AFL(), numbers(0.0, 1.0, 0.0), [0, 2], numbers(1, 2))
    torch.testing.assert_close(nobody.weights, numbers(0.0, 1.0, 0.0))
    torch.testing.assert_close(nobody.params.base.w, numbers(2.0))
    torch.testing.assert_close(shares(numbers(0, 0)), numbers(0.5, 0.5))


class Noting:
    """Notes the reported losses."""

    seen: list = []  # noqa: RUF012

    def aggregate(self, server, uploads, cohort, ctx):
        self.seen.append((server.params, cohort.id.tolist(), uploads.F))
        return super().aggregate(server, uploads, cohort, ctx)


class OfAll(Noting, ReportedLoss):
    pass


class OfFirst(Noting, FirstLoss):
    pass


@pytest.mark.parametrize("kind", [OfAll, OfFirst])
def test_the_reported_loss_is_that_of_the_received_model(federation, simulate, kind: type[ReportedLoss]) -> None:
    Noting.seen.clear()
    ours = simulate(kind(), rounds=2, participation=0.6, local_epochs=2)
    assert len(Noting.seen) == 2
    model = build_model("mlp", federation.shape, federation.classes, 0)
    model.base.double(), model.head.double()
    for t, (params, ids, losses) in enumerate(Noting.seen):
        model.base.load_state_dict(dict(params.base))
        model.head.load_state_dict(dict(params.head))
        for i, reported in zip(ids, losses, strict=True):
            rows = federation.rows["train"][i]
            if kind is OfFirst:
                rows = batches(federation, Phase(), ours.settings, 0, t, i, "clients/train")[0]
            with torch.no_grad():
                expected = F.cross_entropy(model.head(model.base(federation.x[rows].double())), federation.y[rows])
            torch.testing.assert_close(reported, expected, rtol=0, atol=1e-12)


def test_reporting_a_loss_changes_no_model(simulate) -> None:
    settings = {"rounds": 3, "participation": 0.6, "momentum": 0.5}
    fedavg = simulate("fedavg", **settings).replicas[0].server
    for kind in (ReportedLoss, FirstLoss):
        assert_close(simulate(kind(), **settings).replicas[0].server, fedavg, 0)


def test_without_a_step_the_first_loss_is_zero(simulate) -> None:
    Noting.seen.clear()
    simulate(OfFirst(), rounds=1, batch_size=12, drop_last=True)
    assert [bool(value) for value in Noting.seen[0][2]] == [True, False, True, False, True]


def test_equal_losses_leave_equal_weights(federation, simulate) -> None:
    """Three clients with the same samples, full batches: FedAvg, whatever the step."""
    rows = federation.rows["train"][0]
    same = Federation(federation.x, federation.y, [rows] * 3, [rows[:3]] * 3, classes=federation.classes)
    settings = {"federation": same, "batch_size": 100, "rounds": 3}
    ours, fedavg = (simulate(method, **settings).replicas[0].server for method in (AFL(weight_step=5.0), "fedavg"))
    assert_close(ours.params, fedavg.params)
    torch.testing.assert_close(ours.weights, numbers(1, 1, 1) / 3)


def test_a_negative_step_is_refused() -> None:
    with pytest.raises(UserError, match="weight_step of AFL must be"):
        AFL(weight_step=-1.0)
