"""LG-FedAvg: own bases under a common head."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pflrepro.algorithms.lgfedavg import LGFedAvg
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.trees import Tree


def assert_close(a: Tree, b: Tree, tolerance: float = 1e-12) -> None:
    for mine, theirs in zip(a.leaves(), b.leaves(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=tolerance)


@pytest.mark.parametrize("weights", ["uniform", "sizes"])
def test_the_first_round_is_local_training_with_averaged_heads(federation, simulate, weights: str) -> None:
    settings = {"rounds": 1, "momentum": 0.5}
    ours, local = simulate(LGFedAvg(weights), **settings), simulate("local", **settings)
    models = local.replicas[0].clients.params
    assert_close(ours.replicas[0].clients.params.base, models.base, 0)
    n = torch.ones(federation.clients) if weights == "uniform" else torch.as_tensor(federation.sizes("train"))
    assert_close(ours.replicas[0].server.params, Tree(head=models.head.mix(n.double() / n.sum())))
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


def test_wrong_weights_are_refused() -> None:
    with pytest.raises(UserError, match="unknown weights of LG-FedAvg 'size'; valid: sizes, uniform"):
        LGFedAvg("size")


# ---- the start from a trained FedAvg model -----------------------------------------------------------------------------------------
def test_pretraining_is_fedavg_to_the_bit(simulate) -> None:
    settings = {"rounds": 3, "participation": 0.6, "momentum": 0.5}
    ours, fedavg = simulate(LGFedAvg(pretraining=3), **settings), simulate("fedavg", **settings)
    server = ours.replicas[0].server
    assert_close(Tree(base=server.start, head=server.params.head), fedavg.replicas[0].server.params, 0)
    np.testing.assert_array_equal(ours.history(0)["correct"], fedavg.history(0)["correct"])


def test_behind_it_clients_go_on_alone_from_the_averaged_base(federation, simulate) -> None:
    """Round 2 is LG-FedAvg from the model of two rounds of FedAvg: bases of those drawn are their own, all others' the averaged one."""
    settings = {"participation": 0.6, "momentum": 0.5}
    fedavg = simulate("fedavg", rounds=3, **settings)
    ours = simulate(LGFedAvg(pretraining=2), rounds=3, **settings).replicas[0]
    start = simulate(LGFedAvg(pretraining=2), rounds=2, **settings).replicas[0].server.start
    assert_close(ours.server.start, start, 0)
    drawn = set(fedavg.dispatcher.cohort(fedavg.replicas[0], 2).tolist())
    assert [float(value) for value in ours.clients.left] == [float(i in drawn) for i in range(federation.clients)]
    moved = [float((ours.clients.params.base[i] - start).squared_norm()) > 0 for i in sorted(drawn)]
    assert all(moved)


def test_pretraining_is_a_number_of_rounds() -> None:
    with pytest.raises(UserError, match="pretraining of LG-FedAvg must be a whole number >= 0, not -1"):
        LGFedAvg(pretraining=-1)
