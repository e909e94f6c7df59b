"""A round costs what its participants cost: absent clients take no time, and no memory but that of their state and scores."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pflrepro.algorithms.registry import build_method
from pflrepro.data.federation import Federation
from pflrepro.settings import Settings
from pflrepro.simulation import Simulation
from pflrepro.simulation.replica import Rows

COHORT, FEW, MANY = 10, 40, 4000
# What clients keep: nothing, a model, control variates, the model of before.
METHODS = ("fedavg", "ditto", "scaffold", "moon")


class Made(TorchDispatchMode):
    """Counts the bytes of the tensors that operations make, views and what is written in place apart."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        given = {leaf.untyped_storage().data_ptr() for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor)}
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.untyped_storage().data_ptr() not in given:
                self.bytes += leaf.numel() * leaf.element_size()
        return result


def many(method: str, clients: int, **changes) -> Simulation:
    """Clients with two training samples and a test sample each, ten of which take part in a round; past its first two rounds."""
    draw = np.random.default_rng(0)
    x = torch.as_tensor(draw.standard_normal((3 * clients, 8)), dtype=torch.float32)
    rows = np.arange(3 * clients).reshape(clients, 3)
    train, test = ([row[part] for row in rows] for part in (slice(0, 2), slice(2, 3)))
    federation = Federation(x, torch.as_tensor(np.arange(3 * clients) % 4), train, test, classes=4)
    how = {"batch_size": 2, "drop_last": False, "receivers": "selected", "every": 100} | changes
    settings = Settings(200, participation=COHORT / clients, **how)
    simulation = Simulation(build_method(method), federation, "mlp", settings, [0], backend="batched")
    for _ in range(2):
        simulation.step()
    return simulation


@pytest.mark.parametrize("method", METHODS)
def test_a_round_makes_as_many_tensors_with_a_hundred_times_the_clients(method: str) -> None:
    made, peaks = [], []
    for clients in (FEW, MANY):
        simulation = many(method, clients)
        with Made() as counted:
            simulation.step()
        tracemalloc.start()
        simulation.step()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        made.append(counted.bytes)
    assert made[0] == made[1] > 0
    assert peaks[1] - peaks[0] < 50 * (MANY - FEW), "numbers a client in Python: who takes part, drawn and marked"


def test_a_state_is_not_changed_by_the_next_round() -> None:
    simulation = many("ditto", FEW, every=1)
    state = simulation.state_of(0)
    before = {name: array.copy() for name, array in state.items()}
    history = simulation.history(0)
    simulation.step()
    for name, array in before.items():
        np.testing.assert_array_equal(state[name], array)
    assert len(history["round"]) == 3 and len(simulation.history(0)["round"]) == 4
    changed = [name for name, array in simulation.state_of(0).items() if not np.array_equal(array, before[name])]
    assert any(name.startswith("clients/") for name in changed)


def test_rows_are_looked_at_without_a_copy() -> None:
    rows = Rows()
    assert not rows
    for number in range(100):
        rows.append(np.full(3, number))
    first = rows.array
    assert first.shape == (100, 3) and first[:, 0].tolist() == list(range(100))
    assert np.shares_memory(first, rows.array) and not first.flags.writeable
    rows.append(np.full(3, -1))
    assert len(first) == 100 and rows.array[-1, 0] == -1
    again = Rows(first)
    again.append(np.zeros(3, first.dtype))
    assert first[-1, 0] == 99 and len(again) == 101
