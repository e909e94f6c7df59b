"""Batch-norm statistics: personal or averaged, by hand with plain modules."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pflrepro.algorithms.fedavg import FedAvg
from pflrepro.algorithms.local import Local
from pflrepro.algorithms.phases import Phase
from pflrepro.models import build_model
from pflrepro.models.split import buffers_of, parameters_of
from pflrepro.simulation.schedule import batches
from pflrepro.trees import Tree, stack

MODEL = "cnn-digits-bn"
BACKENDS = ("loop", "batched", "graph")


@pytest.fixture
def by_hand(federation):
    """`by_hand(simulation, client, t, params, buffers)`: the client's module after its local training in round t."""

    def train(simulation, client: int, t: int, params: Tree, buffers: Tree) -> nn.Module:
        network = build_model(MODEL, federation.shape, federation.classes, 0)
        module = nn.Sequential(network.base, network.head).double().train()
        state = {f"0.{n}": v for n, v in (params.base | buffers).items()} | {
            f"1.{n}": v for n, v in params.head.items()
        }
        module.load_state_dict(state, strict=False)
        optimiser = torch.optim.SGD(module.parameters(), lr=simulation.settings.lr)
        for rows in batches(federation, Phase(), simulation.settings, 0, t, client, "clients/train"):
            x, y = federation.batch(torch.as_tensor(rows), torch.float64)
            optimiser.zero_grad()
            F.cross_entropy(module(x), y).backward()
            optimiser.step()
        return module

    return train


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("statistics", ["personal", "averaged"])
def test_two_rounds_by_hand(start, federation, by_hand, differ, backend: str, statistics: str) -> None:
    simulation = start(FedAvg(), backend=backend, model=MODEL, drop_last=True, participation=0.6, statistics=statistics)
    replica = simulation.replicas[0]
    params = replica.server.params
    buffers = buffers_of(build_model(MODEL, federation.shape, federation.classes, 0).base).to(torch.float64)
    kept = [buffers for _ in range(5)]
    for t in range(2):
        ids = simulation.dispatcher.cohort(replica, t)
        simulation.step()
        modules = [by_hand(simulation, int(i), t, params, kept[i]) for i in ids]
        weights = torch.as_tensor(federation.sizes("train")[ids]).double()
        weights /= weights.sum()
        params = stack([Tree(base=parameters_of(m[0]), head=parameters_of(m[1])) for m in modules]).mix(weights)
        after = [buffers_of(m[0]) for m in modules]
        if statistics == "averaged":
            kept = [stack(after).mix(weights)] * 5
        else:
            kept = [after[list(ids).index(i)] if i in ids else kept[i] for i in range(5)]
        assert differ(params, replica.server.params) < 1e-10
        if statistics == "averaged":
            assert differ(Tree(base=kept[0]), replica.averaged) < 1e-10 and not replica.kept.has_leaves()
        else:
            assert differ(stack(kept), replica.kept.shared.base) < 1e-10 and not replica.averaged.has_leaves()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("statistics", ["personal", "averaged"])
def test_tests_use_the_kept_statistics_and_change_none(start, federation, backend: str, statistics: str) -> None:
    simulation = start(FedAvg(), rounds=1, backend=backend, model=MODEL, drop_last=True, statistics=statistics)
    simulation.step()
    replica = simulation.replicas[0]
    network = build_model(MODEL, federation.shape, federation.classes, 0)
    module = nn.Sequential(network.base, network.head).double().eval()
    for client in range(5):
        buffers = replica.averaged.base if statistics == "averaged" else replica.kept.shared.base[client]
        params = replica.server.params
        state = {f"0.{n}": v for n, v in (params.base | buffers).items()} | {
            f"1.{n}": v for n, v in params.head.items()
        }
        module.load_state_dict(state, strict=False)
        x, y = federation.batch(torch.as_tensor(federation.rows["test"][client]), torch.float64)
        loss = F.cross_entropy(module(x), y, reduction="sum").item()
        assert simulation.history(0)["loss"][1, client] == pytest.approx(loss, rel=1e-10, abs=1e-10)


def test_a_method_without_a_shared_model_keeps_its_statistics_at_home(start) -> None:
    simulation = start(Local(), model=MODEL, drop_last=True, statistics="averaged")
    simulation.step()
    replica = simulation.replicas[0]
    assert not replica.averaged.has_leaves()
    means = replica.kept.shared.base["1.running_mean"]
    assert means.shape[0] == 5 and len(np.unique(means[:, 0].numpy())) == 5, "all differ: client 1 took no step ..."
    assert (means[1] == 0).all(), "... and has those it started with"
