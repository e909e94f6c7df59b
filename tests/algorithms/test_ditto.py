"""Ditto: FedAvg and, beside it, personal models."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers.trees import assert_close

from pflrepro.data.federation import Federation
from pflrepro.models import build_model
from pflrepro.models.split import parameters_of
from pflrepro.trees import Tree

FULL = {"batch_size": 100, "rounds": 3, "participation": 0.6}


@pytest.mark.parametrize(("plugins", "options"), [("", {}), ("+mr", {"kappa": 5.0, "mr_momentum": 0.3})])
def test_the_global_sequence_is_fedavgs(simulate, plugins: str, options: dict) -> None:
    settings = {"rounds": 3, "participation": 0.6, "momentum": 0.5}
    fedavg = simulate(f"fedavg{plugins}", options=options, **settings)
    for epochs in (0, 2):
        ours = simulate(f"ditto{plugins}", options=options | {"personal_epochs": epochs}, **settings)
        assert_close(ours.replicas[0].server, fedavg.replicas[0].server, 0)


def test_lambda_zero_is_local(simulate) -> None:
    """With full batches, whose order does not matter; mean regularisation is for the global model and changes nothing here."""
    local = simulate("local", **FULL)
    for name, options in (("ditto", {}), ("ditto+mr", {"kappa": 50.0})):
        ours = simulate(name, options=options | {"proximal": 0.0}, **FULL)
        assert_close(ours.replicas[0].clients.personal, local.replicas[0].clients.params)
        assert ours.history(0)["correct"].tolist() == local.history(0)["correct"].tolist()


def test_a_large_lambda_ties_the_personal_model_to_the_received_one(simulate) -> None:
    """lambda eta = 1/2, gradients of size g: |v - w^t| <= 2 eta g once the pull has had 30 steps."""
    settings = {"rounds": 1, "batch_size": 100, "lr": 1e-6}
    start = simulate("fedavg", rounds=0).replicas[0].server.params
    ours = simulate("ditto", options={"proximal": 5e5, "personal_epochs": 30}, **settings).replicas[0]
    for leaf, received in zip(ours.clients.personal.leaves(), start.leaves(), strict=True):
        assert float((leaf - received).abs().max()) < 1e-5


def test_the_personal_step(federation, simulate) -> None:
    """Two rounds of two full-batch steps with momentum on l(v) + lambda/2 |v - w^t|^2 from the last v."""
    rows = federation.rows["train"][0]
    alone = Federation(federation.x, federation.y, [rows], [rows[:3]], classes=federation.classes)
    settings = {"federation": alone, "batch_size": 100, "momentum": 0.9}
    options = {"proximal": 0.8, "personal_epochs": 2}
    ours = simulate("ditto", options=options, rounds=2, **settings).replicas[0]
    received = [simulate("fedavg", rounds=rounds, **settings).replicas[0].server.params for rounds in (0, 1)]
    split = build_model("mlp", alone.shape, alone.classes, 0)
    v = torch.nn.ModuleDict({"base": split.base, "head": split.head}).double()
    for w in received:
        optimiser = torch.optim.SGD(v.parameters(), lr=0.05, momentum=0.9)
        for _ in range(2):
            value = F.cross_entropy(v["head"](v["base"](alone.x[rows].double())), alone.y[rows])
            for name in ("base", "head"):
                value = value + 0.4 * sum(((p - w[name][path]) ** 2).sum() for path, p in v[name].named_parameters())
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
    assert_close(ours.clients.personal[0], Tree(base=parameters_of(split.base), head=parameters_of(split.head)))


def test_the_personal_model_is_tested_before_and_after_training(simulate) -> None:
    """v_i moves only in training: with everyone in every round, row t + 1 before is row t after."""
    history = simulate("ditto", rounds=3).history(0)
    np.testing.assert_array_equal(history["correct"][1:], history["correct_after"][1:])


def test_each_model_has_running_statistics_of_its_own(digits, simulate) -> None:
    settings = {"federation": digits, "model": "cnn-digits-bn", "rounds": 1, "batch_size": 20, "drop_last": True}
    ours, fedavg = simulate("ditto", **settings).replicas[0], simulate("fedavg", **settings).replicas[0]
    assert sorted(ours.kept) == ["personal", "shared"]
    assert_close(Tree(shared=ours.kept.shared), fedavg.kept, 0)
    assert any(
        bool((a != b).any()) for a, b in zip(ours.kept.shared.leaves(), ours.kept.personal.leaves(), strict=True)
    )
