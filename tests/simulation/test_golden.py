"""Pinned numbers: four rounds on real digits; they change only together with a raised revision.

Stored runs are found again by the engine's and the method's `revision`. Whoever changes what a run computes raises one of the
two, and records the new numbers here.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pflrepro.algorithms.registry import build_method, revision
from pflrepro.data.datasets import load_arrays
from pflrepro.data.federation import Federation
from pflrepro.settings import Settings
from pflrepro.simulation import ENGINE_REVISION, Simulation

# (method, engine's revision, method's revision): correct predictions of each client after round 4, and the checksum
GOLDEN = {
    ("fedavg", 1, 1): ([15, 3, 0, 2, 7, 8], -2.6493044965),
    ("fedavg+dbe", 1, 2): ([10, 9, 0, 9, 8, 8], -2.1637955222),
    ("gpfl", 1, 1): ([15, 9, 7, 11, 13, 11], 4.7801329805),
}


def checksum(simulation: Simulation) -> float:
    """sum_k cos(k) w_k over all entries of the server's and the clients' parameters, in the order of their paths."""
    trees = simulation.replicas[0].trees
    leaves = [
        leaf.double().reshape(-1) for name in ("server", "clients") for _, leaf in sorted(trees[name].flat().items())
    ]
    values = torch.cat(leaves)
    return float((values * torch.cos(torch.arange(len(values), dtype=torch.float64))).sum())


@pytest.fixture(scope="module")
def digits() -> Federation:
    """Six clients of 60 digits each, sorted into shards by label; three quarters for training."""
    arrays = load_arrays("digits")
    order = np.argsort(arrays.y[:360], kind="stable")
    parts = np.array_split(order, 6)
    train, test = [part[np.arange(60) % 4 > 0] for part in parts], [part[::4] for part in parts]
    return Federation(torch.as_tensor(arrays.x), torch.as_tensor(arrays.y), train, test, classes=10, unit=(1 / 8, -1.0))


@pytest.mark.parametrize("name", ["fedavg", "fedavg+dbe", "gpfl"])
def test_numbers_change_only_with_a_revision(name: str, digits: Federation) -> None:
    settings = Settings(4, participation=0.7, local_epochs=2, batch_size=10, lr=0.1, drop_last=False)
    simulation = Simulation(
        build_method(name), digits, "mlp", settings, [0], backend="loop", workers=1, dtype="float64"
    )
    while not simulation.finished:
        simulation.step()
    found = (simulation.history(0)["correct"][-1].tolist(), checksum(simulation))
    key = (name, ENGINE_REVISION, revision(name))
    assert key in GOLDEN, f"a revision was raised: record the new numbers, {key}: {found}"
    correct, total = GOLDEN[key]
    advice = (
        "the numbers of a run changed: raise ENGINE_REVISION or the method's `revision`, then record the new ones here"
    )
    assert found[0] == correct and found[1] == pytest.approx(total, rel=0, abs=1e-6), f"{advice}; {key}: {found}"
