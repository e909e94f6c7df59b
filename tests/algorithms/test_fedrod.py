"""FedRoD: balanced softmax, the personal head, and what they leave alone."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers.trees import assert_close

from pflrepro.algorithms.contract import cross_entropy
from pflrepro.algorithms.fedrod import FedRoD, log_counts
from pflrepro.data.federation import Federation
from pflrepro.models import build_model
from pflrepro.models.split import parameters_of
from pflrepro.trees import Tree, WholeBatch

ROD = "pflrepro.algorithms.fedrod:FedRoD"


def test_balanced_softmax_by_hand() -> None:
    """Counts 3, 1, 0 and logits log 1, log 2, log 7: shares 3 : 2 : 0, whatever the third logit is."""
    prior = log_counts(torch.tensor([3, 1, 0]), torch.float64)
    torch.testing.assert_close(prior[:2], torch.tensor([math.log(3), 0.0], dtype=torch.float64))
    logits = torch.tensor([[1.0, 2.0, 7.0]], dtype=torch.float64).log().requires_grad_()
    for label, share in ((0, 3 / 5), (1, 2 / 5)):
        value = cross_entropy(logits + prior, WholeBatch(y=torch.tensor([label]), mask=torch.ones(1)))
        assert float(value.detach()) == pytest.approx(-math.log(share))
        (slope,) = torch.autograd.grad(value, logits)
        expected = torch.tensor([[3 / 5, 2 / 5, 0.0]], dtype=torch.float64)
        expected[0, label] -= 1
        torch.testing.assert_close(slope, expected)
    for dtype in (torch.float32, torch.float64):
        assert torch.isfinite(log_counts(torch.tensor([0, 0]), dtype)).all()


def balanced(federation: Federation, clients: int = 3) -> Federation:
    """Clients with equally many samples of each of five classes, no class missing."""
    rows = np.concatenate(federation.rows["train"])
    labels = federation.y[rows].numpy()
    parts = [np.concatenate([rows[labels == c][2 * i : 2 * i + 2] for c in range(5)]) for i in range(clients)]
    y = federation.y.clamp(max=4)  # the sixth class is in test parts alone
    return Federation(federation.x, y, parts, [part[:4] for part in parts], classes=5)


def test_uniform_counts_leave_fedavg(federation, simulate) -> None:
    """log n is then one number for all classes, and softmax does not feel it."""
    even = balanced(federation)
    assert (even.counts() == 2).all()
    settings = {"federation": even, "rounds": 3, "momentum": 0.5}
    ours, fedavg = (simulate(method, **settings).replicas[0].server for method in (FedRoD(), "fedavg"))
    assert_close(ours.params, fedavg.params)


@dataclass(frozen=True)
class FromZero(FedRoD):
    """FedRoD whose personal heads start at zero."""

    def layout(self, setup):
        parts = super().layout(setup)
        head = parts["personal_head"]
        return parts | {"personal_head": replace(head, params=head.params.map(torch.zeros_like))}


def test_the_personal_head_moves_nothing_else(simulate) -> None:
    settings = {"rounds": 3, "participation": 0.6, "momentum": 0.5}
    copied, zero = (simulate(method, **settings).replicas[0] for method in (FedRoD(), FromZero()))
    assert_close(copied.server, zero.server, 0)
    assert float((copied.clients.params.personal_head - zero.clients.params.personal_head).squared_norm()) > 1e-2


def test_two_rounds_of_one_client(federation, simulate) -> None:
    """Full batches; the two losses in two backward passes from the same z."""
    rows = federation.rows["train"][3]
    alone = Federation(federation.x, federation.y, [rows], [rows[:4]], classes=federation.classes)
    ours = simulate(FedRoD(), federation=alone, batch_size=100)
    split = build_model("mlp", alone.shape, alone.classes, 0)
    base, head = split.base.double(), split.head.double()
    personal = copy.deepcopy(head)
    optimiser = torch.optim.SGD([w for m in (base, head, personal) for w in m.parameters()], lr=0.05)
    x, y = alone.x[rows].double(), alone.y[rows]
    counts = torch.bincount(y, minlength=alone.classes)
    for _ in range(2):
        optimiser.zero_grad()
        z = base(x)
        logits = head(z)
        F.cross_entropy(logits + counts.double().log(), y).backward()  # log 0 = -inf is harmless here
        F.cross_entropy(logits.detach() + personal(z.detach()), y).backward()
        optimiser.step()
    assert_close(ours.replicas[0].server.params, Tree(base=parameters_of(base), head=parameters_of(head)))
    assert_close(ours.replicas[0].clients.params[0], Tree(personal_head=parameters_of(personal)))
    with torch.no_grad():
        scores = head(base(x[:4])) + personal(base(x[:4]))
    assert ours.history(0)["loss"][-1, 0] == pytest.approx(float(F.cross_entropy(scores, y[:4], reduction="sum")))


def test_mean_regularisation_changes_the_base_and_not_the_rule_of_the_personal_head(simulate) -> None:
    """Weight 0 changes nothing; a large one acts the same whether or not there is anything in the personal head."""
    settings = {"rounds": 2, "participation": 0.6}
    plain = simulate(ROD, **settings).replicas[0]
    zero = simulate(f"{ROD}+mr", options={"kappa": 0.0}, **settings).replicas[0]
    assert_close(zero.server.only(["params"]), plain.server)
    assert_close(zero.clients, plain.clients)
    strong = [simulate(f"{host}+mr", **settings).replicas[0].server for host in (ROD, f"{__name__}:FromZero")]
    assert_close(strong[0], strong[1], 0)
    assert float((strong[0].params.base - plain.server.params.base).squared_norm()) > 1e-6


def test_only_base_and_generic_head_travel(simulate) -> None:
    assert simulate(FedRoD()).traffic == simulate("fedavg").traffic
