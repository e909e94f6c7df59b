"""LG-FedAvg: own bases under a common head."""

from __future__ import annotations

import numpy as np
import torch
from helpers.trees import assert_close

from pflrepro.algorithms.lgfedavg import LGFedAvg
from pflrepro.data.federation import Federation
from pflrepro.trees import Tree


def test_the_first_round_is_local_training_with_averaged_heads(simulate) -> None:
    settings = {"rounds": 1, "momentum": 0.5}
    ours, local = simulate(LGFedAvg(), **settings), simulate("local", **settings)
    models = local.replicas[0].clients.params
    assert_close(ours.replicas[0].clients.params.base, models.base, 0)
    assert_close(ours.replicas[0].server.params, Tree(head=models.head.mix(torch.full((5,), 0.2, dtype=torch.float64))))
    np.testing.assert_array_equal(ours.history(0)["correct_after"][1], local.history(0)["correct_after"][1])


def test_one_client_alone_is_fedavg(federation, simulate) -> None:
    rows = federation.rows["train"][0]
    alone = Federation(federation.x, federation.y, [rows], [rows[:3]], classes=federation.classes)
    ours, fedavg = (simulate(m, federation=alone, rounds=3).replicas[0] for m in (LGFedAvg(), "fedavg"))
    assert_close(ours.server.params.head, fedavg.server.params.head, 0)
    assert_close(ours.clients.params.base[0], fedavg.server.params.base, 0)


def test_only_the_head_travels(simulate) -> None:
    ours = simulate(LGFedAvg())
    head = float(ours.replicas[0].server.params.size())
    assert list(ours.replicas[0].server.params) == ["head"] and list(ours.replicas[0].clients.params) == ["base"]
    assert ours.traffic == {"numbers_down": head, "numbers_up": head}
