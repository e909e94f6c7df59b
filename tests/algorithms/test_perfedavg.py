"""Per-FedAvg: its three gradients, its pairs of batches, its adaptation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers.trees import assert_close

from pflrepro.algorithms import Clock, Phase, build_method
from pflrepro.algorithms.perfedavg import PerFedAvg
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.models import build_model
from pflrepro.models.split import parameters_of
from pflrepro.simulation.schedule import batches
from pflrepro.trees import Tree


def network(federation: Federation) -> torch.nn.Sequential:
    split = build_model("mlp", federation.shape, federation.classes, 0)
    return torch.nn.Sequential(split.base, split.head).double()


def first(federation: Federation, count: int) -> Federation:
    """The federation of the first clients."""
    train, test = (federation.rows[split][:count] for split in ("train", "test"))
    return Federation(federation.x, federation.y, train, test, classes=federation.classes)


def meta_gradient(
    model: torch.nn.Module, inner_batch, outer_batch, alpha: float, variant: str
) -> tuple[torch.Tensor, ...]:
    """d of one pair of batches, by automatic differentiation alone."""
    weights = dict(model.named_parameters())

    def loss(at: dict[str, torch.Tensor], batch) -> torch.Tensor:
        return F.cross_entropy(torch.func.functional_call(model, at, (batch[0],)), batch[1])

    inner = torch.autograd.grad(loss(weights, inner_batch), tuple(weights.values()), create_graph=variant == "exact")
    theta = {name: w - alpha * g for (name, w), g in zip(weights.items(), inner, strict=True)}
    if variant == "fo":
        theta = {name: w.detach().requires_grad_() for name, w in theta.items()}
        return torch.autograd.grad(loss(theta, outer_batch), tuple(theta.values()))
    return torch.autograd.grad(loss(theta, outer_batch), tuple(weights.values()))


@pytest.mark.parametrize(("variant", "inner_rate"), [("fo", 1.0), ("fo", 0.0), ("exact", 1.0), ("exact", 4.0)])
def test_the_update(federation, simulate, variant: str, inner_rate: float) -> None:
    """w <- w - eta d over pairs of batches of 4, two passes each of the two epochs; inner_rate 0: FedAvg on the second halves."""
    alone, options = first(federation, 1), {"variant": variant, "inner_rate": inner_rate}
    ours = simulate("per-fedavg", options=options, federation=alone, batch_size=4, local_epochs=2)
    phase = Phase(batch=8, passes=4, drop_last=True)
    model = network(alone)
    for t in range(2):
        chosen = batches(alone, phase, ours.settings, 0, t, 0, "clients/train")
        assert [len(rows) for rows in chosen] == [8] * (4 * (len(alone.rows["train"][0]) // 8))
        for rows in chosen:
            halves = [(alone.x[half].double(), alone.y[half]) for half in (rows[:4], rows[4:])]
            d = meta_gradient(model, *halves, 0.05 * inner_rate, variant)
            with torch.no_grad():
                for w, g in zip(model.parameters(), d, strict=True):
                    w -= 0.05 * g
    assert_close(ours.replicas[0].server.params, Tree(base=parameters_of(model[0]), head=parameters_of(model[1])))


@dataclass(frozen=True)
class Quadratic(PerFedAvg):
    """l(w; B) = x_B (|base|^2 + |head|^2 / 2) with x_B the batch's mean input: the Hessian is 2 x_B and x_B."""

    def loss(self, params, local, batch, ctx):
        scale = batch.x.mean()
        return scale * (params.base.squared_norm() + 0.5 * params.head.squared_norm()), Tree(keep=Tree())


def test_hf_is_exact_for_a_quadratic_loss_whatever_delta_is(federation, simulate) -> None:
    exact = simulate(Quadratic("exact"), federation=federation).replicas[0].server
    for delta in (1e-3, 0.7):
        assert_close(simulate(Quadratic("hf", delta=delta), federation=federation).replicas[0].server, exact, 1e-10)
    first_order = simulate(Quadratic("fo"), federation=federation).replicas[0].server
    assert float((first_order.params - exact.params).squared_norm()) > 1e-8


def test_exact_on_a_quadratic_loss_by_hand(federation, simulate) -> None:
    """theta = (1 - alpha h_1) w, v = h_2 theta, d = (1 - alpha h_1) v, with h = 2 x_B for the base."""
    alone = first(federation, 1)
    start = network(alone)[0].state_dict()
    ours = simulate(Quadratic("exact"), federation=alone, rounds=1, batch_size=10)
    factor = 1.0
    for rows in batches(alone, Phase(batch=20, passes=2, drop_last=True), ours.settings, 0, 0, 0, "clients/train"):
        h_1, h_2 = (2 * float(alone.x[half].double().mean()) for half in (rows[:10], rows[10:]))
        factor *= 1 - 0.05 * (1 - 0.05 * h_1) ** 2 * h_2
    assert_close(ours.replicas[0].server.params.base, Tree(start) * factor, 1e-12)


def test_one_step_on_one_batch_before_the_test(federation, simulate) -> None:
    ours = simulate("per-fedavg", options={"inner_rate": 8.0}, rounds=1)
    history = ours.history(0)
    rows = federation.rows
    for t, params in enumerate(
        (simulate("fedavg", rounds=0).replicas[0].server.params, ours.replicas[0].server.params)
    ):
        for i in range(federation.clients):
            model = network(federation)
            model[0].load_state_dict(dict(params.base))
            model[1].load_state_dict(dict(params.head))
            batch = batches(federation, Phase(passes=1, steps=1), ours.settings, 0, t, i, "adapt/train")
            assert len(batch) == 1 and len(batch[0]) == min(5, len(rows["train"][i]))
            F.cross_entropy(model(federation.x[batch[0]].double()), federation.y[batch[0]]).backward()
            with torch.no_grad():
                for w in model.parameters():
                    w -= 0.4 * w.grad
                answers = model(federation.x[rows["test"][i]].double()).argmax(1)
            assert int((answers == federation.y[rows["test"][i]]).sum()) == history["correct"][t, i]


@pytest.mark.parametrize("backend", ["loop", "batched"])
def test_where_batches_fit_small_clients_their_own_samples_are_halved(federation, simulate, backend: str) -> None:
    """Whoever trains along: n // 2 of a batch's n samples are the first half, of 3 samples as of 20."""
    n = federation.sizes("train")
    assert {*(n % 2)} == {0, 1} and n.min() < 10 < 20 < n.max()
    ours = simulate("per-fedavg", rounds=1, batch_size=10, fit_batch=True, backend=backend)
    phase, trained = Phase(batch=20, passes=2, drop_last=True), []
    for i in range(federation.clients):
        model = network(federation)
        for rows in batches(federation, phase, ours.settings, 0, 0, i, "clients/train"):
            both = (rows[: len(rows) // 2], rows[len(rows) // 2 :])
            d = meta_gradient(model, *((federation.x[half].double(), federation.y[half]) for half in both), 0.05, "fo")
            with torch.no_grad():
                for w, g in zip(model.parameters(), d, strict=True):
                    w -= 0.05 * g
        trained.append(Tree(base=parameters_of(model[0]), head=parameters_of(model[1])))
    mean = sum((int(n[i]) / int(n.sum()) * trained[i] for i in range(1, len(n))), int(n[0]) / int(n.sum()) * trained[0])
    assert_close(ours.replicas[0].server.params, mean, 1e-12)


def test_a_client_needs_two_batches(federation, simulate) -> None:
    """Batches of 2B = 24: of the first four clients only client 0 (24 samples) steps; the others count with what they received."""
    n = federation.sizes("train")[:4]
    assert np.flatnonzero(n >= 24).tolist() == [0]
    four, alone = (
        simulate("per-fedavg", federation=first(federation, count), rounds=1, batch_size=12).replicas[0].server.params
        for count in (4, 1)
    )
    start = network(federation)
    received = Tree(base=parameters_of(start[0]), head=parameters_of(start[1]))
    assert_close(four, (int(n[0]) * alone + int(n[1:].sum()) * received) / int(n.sum()))


def test_the_phases_follow_the_runs_batch_size_and_epochs() -> None:
    training, adaptation = PerFedAvg().phases(Clock(0, 10, local_epochs=3, batch_size=7))
    assert (training.batch, training.passes, training.drop_last) == (14, 6, True)
    assert (adaptation.where, adaptation.batch, adaptation.passes, adaptation.steps) == ("adapt", 0, 1, 1)


def test_an_unknown_variant_is_refused() -> None:
    with pytest.raises(UserError, match="unknown option variant of per-fedavg 'maml'; valid: "):
        build_method("per-fedavg", {"variant": "maml"})
