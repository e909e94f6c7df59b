"""FedRep: two phases, each with the other part frozen."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from helpers.trees import assert_close, assert_same

from pflrepro.data.federation import Federation
from pflrepro.models import build_model
from pflrepro.models.split import parameters_of
from pflrepro.trees import Tree


def test_without_head_epochs_it_is_fedbabu(simulate) -> None:
    """Equal heads that never move: phi^t is FedBABU's."""
    settings = {"rounds": 3, "participation": 0.6}
    ours = simulate("fedrep", options={"head_epochs": 0}, **settings)
    fedbabu = simulate("fedbabu", options={"tune_epochs": 0}, **settings)
    assert_same(ours.replicas[0].server.params.base, fedbabu.replicas[0].server.params.base)
    assert ours.history(0)["correct"].tolist() == fedbabu.history(0)["correct"].tolist()


def test_head_then_base(federation, simulate) -> None:
    rows = federation.rows["train"][3]
    alone = Federation(federation.x, federation.y, [rows], [rows[:3]], classes=federation.classes)
    settings = {"federation": alone, "rounds": 2, "batch_size": 100, "local_epochs": 2, "momentum": 0.5}
    ours = simulate("fedrep", options={"head_epochs": 3}, **settings).replicas[0]
    split = build_model("mlp", alone.shape, alone.classes, 0)
    base, head = split.base.double(), split.head.double()
    for _ in range(2):
        for part, epochs in ((head, 3), (base, 2)):
            optimiser = torch.optim.SGD(part.parameters(), lr=0.05, momentum=0.5)
            for _ in range(epochs):
                for module in (base, head):
                    module.zero_grad()
                F.cross_entropy(head(base(alone.x[rows].double())), alone.y[rows]).backward()
                optimiser.step()
    assert_close(ours.server.params, Tree(base=parameters_of(base)), 1e-12)
    assert_close(ours.clients.params[0], Tree(head=parameters_of(head)), 1e-12)


def test_a_frozen_base_keeps_its_running_statistics(digits, simulate) -> None:
    """One base step a round: its batch statistics do not depend on the head, so head epochs must leave no trace in them."""
    settings = {"federation": digits, "model": "cnn-digits-bn", "rounds": 1, "batch_size": 60, "drop_last": True}
    few, many = (simulate("fedrep", options={"head_epochs": epochs}, **settings).replicas[0] for epochs in (0, 3))
    assert_same(few.kept, many.kept)
    assert few.kept.has_leaves()
    assert any(bool((a != b).any()) for a, b in zip(few.clients.leaves(), many.clients.leaves(), strict=True))
