"""FedRoD: balanced softmax, the personal head, and what they leave alone."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from pflrepro.algorithms.contract import cross_entropy
from pflrepro.algorithms.fedrod import FedRoD, log_counts
from pflrepro.algorithms.task import Context
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.models import build_model
from pflrepro.models.split import parameters_of
from pflrepro.trees import Tree, WholeBatch

ROD = "pflrepro.algorithms.fedrod:FedRoD"


def assert_close(a: Tree, b: Tree, tolerance: float = 1e-12) -> None:
    for mine, theirs in zip(a.leaves(), b.leaves(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=tolerance)


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
    return Federation(federation.x, federation.y, parts, [part[:4] for part in parts], classes=5)


def test_uniform_counts_leave_fedavg(federation, simulate) -> None:
    """log n is then one number for all classes, and softmax does not feel it."""
    even = balanced(federation)
    assert (even.counts() == 2).all()
    settings = {"federation": even, "rounds": 3, "momentum": 0.5}
    ours, fedavg = (simulate(method, **settings).replicas[0].server for method in (FedRoD(), "fedavg"))
    assert_close(ours.params, fedavg.params)


def test_the_personal_head_moves_nothing_else(simulate) -> None:
    settings = {"rounds": 3, "participation": 0.6, "momentum": 0.5}
    copied, zero = (simulate(FedRoD(start), **settings).replicas[0] for start in ("copy", "zero"))
    assert_close(copied.server, zero.server, 0)
    assert float((copied.clients.params.personal_head - zero.clients.params.personal_head).squared_norm()) > 1e-2


@pytest.mark.parametrize("start", ["copy", "zero"])
def test_two_rounds_of_one_client(federation, simulate, start: str) -> None:
    """Full batches; the two losses in two backward passes from the same z."""
    rows = federation.rows["train"][3]
    alone = Federation(federation.x, federation.y, [rows], [rows[:4]], classes=federation.classes)
    ours = simulate(FedRoD(start), federation=alone, batch_size=100)
    split = build_model("mlp", alone.shape, alone.classes, 0)
    base, head = split.base.double(), split.head.double()
    personal = copy.deepcopy(head)
    if start == "zero":
        for w in personal.parameters():
            w.data.zero_()
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
    strong = [simulate(f"{ROD}+mr", options={"start": s}, **settings).replicas[0].server for s in ("copy", "zero")]
    assert_close(strong[0], strong[1], 0)
    assert float((strong[0].params.base - plain.server.params.base).squared_norm()) > 1e-6


def test_only_base_and_generic_head_travel(simulate) -> None:
    assert simulate(FedRoD()).traffic == simulate("fedavg").traffic


def test_an_unknown_start_is_refused() -> None:
    with pytest.raises(UserError, match="unknown start of FedRoD's personal head 'zeros'; valid: zero, copy"):
        FedRoD("zeros")


# ---- the hypernetwork ----------------------------------------------------------------------------------------------------------------
def test_the_hypernetworks_head_by_hand(simulate) -> None:
    """h_i = H(n_i / sum n_i), reshaped as the head; its sizes are 6 -> 4 -> 33 * 6."""
    ours = simulate(FedRoD(personal_head="hypernetwork", hyper_width=4))
    params, info = ours.replicas[0].server.params, ours.task.info[0]
    h = params.hypernetwork
    shares = info.counts.double() / info.counts.sum()
    flat = F.linear(F.relu(F.linear(shares, h.first.weight, h.first.bias)), h.second.weight, h.second.bias)
    assert h.size() == 6 * 4 + 4 + 4 * 33 * 6 + 33 * 6
    ctx = Context(ours.task, ours.dispatcher.kinds, Tree(rate=torch.zeros((), dtype=torch.float64)), info=info)
    made = ours.method.head_of(params, ctx)
    torch.testing.assert_close(torch.cat([made.bias, made.weight.flatten()]), flat, rtol=0, atol=1e-12)
    x = ours.federation.x[:4].double()
    z = F.relu(F.linear(x.flatten(1), *[params.base[name] for name in ("1.weight", "1.bias")]))
    expected = F.linear(z, params.head.weight + made.weight, params.head.bias + made.bias)
    torch.testing.assert_close(ours.method.predict(params, x, ctx), expected, rtol=0, atol=1e-12)


def test_base_and_generic_head_do_not_see_the_hypernetwork(simulate) -> None:
    settings = {"rounds": 3, "participation": 0.6, "momentum": 0.5}
    hyper = simulate(FedRoD(personal_head="hypernetwork"), **settings).replicas[0]
    own = simulate(FedRoD(), **settings).replicas[0]
    assert_close(hyper.server.params.without(["hypernetwork"]), own.server.params, 0)
    assert not hyper.clients.has_leaves(), "nothing stays at home"


def test_impossible_hypernetworks_are_refused() -> None:
    with pytest.raises(UserError, match="unknown personal_head of FedRoD 'hyper'; valid: hypernetwork, own"):
        FedRoD(personal_head="hyper")
    with pytest.raises(UserError, match="hyper_width of FedRoD must be a whole number >= 1"):
        FedRoD(hyper_width=0)


def test_counts_without_the_last_incomplete_batch(federation, simulate) -> None:
    """Of n_i samples n_i mod 5 are not counted; where batches divide the samples, nothing changes."""
    counted = simulate(FedRoD(counts="batches"), rounds=0)
    sizes = torch.as_tensor(federation.sizes("train"))
    expected = torch.where(sizes >= 5, sizes - sizes % 5, sizes).double()
    torch.testing.assert_close(counted.replicas[0].clients.n.sum(1), expected)
    assert bool((counted.replicas[0].clients.n <= counted.task.info.counts).all())
    rows = [part[: len(part) // 3 * 3] for part in federation.rows["train"]]
    even = Federation(federation.x, federation.y, rows, federation.rows["test"], classes=federation.classes)
    runs = [
        simulate(FedRoD(counts=kind), federation=even, batch_size=3).replicas[0].server.params
        for kind in ("all", "batches")
    ]
    assert_close(*runs, 0)
