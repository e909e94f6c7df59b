"""FedProto: prototypes, their averaging, and the nearest one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.trees import assert_close

from pflrepro.algorithms import build_method
from pflrepro.algorithms.fedproto import FedProto
from pflrepro.errors import UserError
from pflrepro.models import build_model
from pflrepro.trees import Tree


def features(federation, rows) -> torch.Tensor:
    """z of the common initial model."""
    base = build_model("mlp", federation.shape, federation.classes, 0).base.double()
    with torch.no_grad():
        return base(federation.x[rows].double())


def expected_prototypes(federation, clients) -> dict[int, torch.Tensor]:
    """c_k = the unweighted mean over the clients that have class k of their class means, under the initial model."""
    means: dict[int, list[torch.Tensor]] = {}
    for i in clients:
        rows = federation.rows["train"][i]
        z, y = features(federation, rows), federation.y[rows]
        for k in y.unique().tolist():
            means.setdefault(k, []).append(z[y == k].mean(0))
    return {k: torch.stack(values).mean(0) for k, values in means.items()}


def test_lambda_zero_is_local(simulate) -> None:
    settings = {"rounds": 3, "participation": 0.6}
    ours, local = simulate("fedproto", options={"alignment": 0.0}, **settings), simulate("local", **settings)
    assert_close(ours.replicas[0].clients.params, local.replicas[0].clients.params, 0)


def test_prototypes_of_models_that_stand_still(federation, simulate) -> None:
    ours = simulate("fedproto", rounds=1, lr=0.0)
    prototypes = ours.replicas[0].server.params.prototypes
    expected = expected_prototypes(federation, range(federation.clients))
    assert prototypes.has.tolist() == [float(k in expected) for k in range(federation.classes)]
    assert prototypes.has.tolist() == [1, 1, 1, 1, 1, 0]  # nobody has class 5
    for k, c in expected.items():
        torch.testing.assert_close(prototypes.c[k], c, rtol=0, atol=1e-12)


def test_the_nearest_prototype_answers_and_an_absent_class_never_does(federation, simulate) -> None:
    history = simulate("fedproto", rounds=1, lr=0.0).history(0)
    expected = expected_prototypes(federation, range(federation.clients))
    table = torch.stack([expected[k] for k in sorted(expected)])
    for i, rows in enumerate(federation.rows["test"]):
        answers = ((features(federation, rows)[:, None] - table) ** 2).sum(2).argmin(1)
        assert history["correct"][1, i] == int((answers == federation.y[rows]).sum())
        assert history["correct"][0, i] == int((federation.y[rows] == 0).sum())  # no prototypes yet
    assert np.isfinite(history["loss"]).all()


def test_the_scores_by_hand() -> None:
    """z = (1, 1) with c = (3, 1), (0, 2), and (0, 0) of an absent class, which would be nearest if it counted by its zeros."""

    class Identity(FedProto):
        def forward(self, params: Tree, x: torch.Tensor, ctx: object) -> Tree:
            return Tree(z=x)

    params = Tree(prototypes=Tree(c=torch.tensor([[3.0, 1], [0, 2], [0, 0]]), has=torch.tensor([1.0, 1, 0])))
    scores = Identity().predict(params, torch.tensor([[1.0, 1], [0.1, 0]]), None)
    distances = torch.tensor([[2.0, 1], [(2.9**2 + 1) / 2, (0.01 + 4) / 2]])  # (1/K) |z - c|^2
    torch.testing.assert_close(scores[:, :1] - scores[:, 1:2], distances[:, 1:] - distances[:, :1])
    assert scores.argmax(1).tolist() == [1, 1]
    torch.testing.assert_close(
        scores[:, 2], scores[:, :2].min(1).values - 20
    )  # below the lowest, and no loss of a broken run
    none = params | Tree(prototypes=params.prototypes | Tree(has=torch.zeros(3)))
    assert Identity().predict(none, torch.ones(2, 2), None).tolist() == [[0.0] * 3] * 2


def test_a_class_that_no_participant_has_keeps_its_prototype() -> None:
    """A client that has class 2 alone takes part by itself: all other prototypes stay."""
    method = build_method("fedproto")
    c, has = torch.arange(12.0).view(6, 2), torch.tensor([1.0, 1, 0, 0, 1, 0])
    server = Tree(params=Tree(prototypes=Tree(c=c, has=has)))
    upload = Tree(c=torch.full((1, 6, 2), 9.0), has=torch.tensor([[0.0, 0, 1, 0, 0, 0]]))
    new = (server | method.aggregate(server, upload, Tree(), None)).params.prototypes
    assert new.has.tolist() == [1, 1, 1, 0, 1, 0]
    assert new.c[2].tolist() == [9, 9]
    assert torch.equal(new.c[[0, 1, 3, 4, 5]], c[[0, 1, 3, 4, 5]])


def test_the_mean_over_clients_ignores_their_sizes() -> None:
    """Class 0: clients 0 and 2 have it; class 1: only client 1."""
    server = Tree(params=Tree(prototypes=Tree(c=torch.zeros(2, 1), has=torch.zeros(2))))
    uploads = Tree(
        c=torch.tensor([[[1.0], [7.0]], [[50.0], [4.0]], [[3.0], [7.0]]]), has=torch.tensor([[1.0, 0], [0, 1], [1, 0]])
    )
    new = build_method("fedproto").aggregate(server, uploads, Tree(), None).params.prototypes
    assert new.c.flatten().tolist() == [2, 4]


def test_the_pull_towards_a_prototype(federation, simulate) -> None:
    """One full-batch step of round 1: loss CE + lambda mean_b (1/K) |z_b - c_y|^2 with the prototypes of round 0."""
    settings = {"rounds": 2, "batch_size": 100}
    one = simulate("fedproto", options={"alignment": 3.0}, **(settings | {"rounds": 1})).replicas[0]
    ours = simulate("fedproto", options={"alignment": 3.0}, **settings).replicas[0]
    i, prototypes = 3, one.server.params.prototypes
    rows = federation.rows["train"][i]
    split = build_model("mlp", federation.shape, federation.classes, 0)
    base, head = split.base.double(), split.head.double()
    base.load_state_dict(dict(one.clients.params.base[i]))
    head.load_state_dict(dict(one.clients.params.head[i]))
    z = base(federation.x[rows].double())
    pull = sum(((z[b] - prototypes.c[y]) ** 2).mean() for b, y in enumerate(federation.y[rows].tolist())) / len(rows)
    (torch.nn.functional.cross_entropy(head(z), federation.y[rows]) + 3.0 * pull).backward()
    for name, parameter in base.named_parameters():
        moved = parameter.detach() - 0.05 * parameter.grad
        torch.testing.assert_close(ours.clients.params.base[name][i], moved, rtol=0, atol=1e-12)


def test_a_negative_alignment_is_refused() -> None:
    with pytest.raises(UserError, match="option alignment of fedproto must be a number >= 0, not -1"):
        build_method("fedproto", {"alignment": -1})
