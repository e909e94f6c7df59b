"""Shared by the engine's tests: the made-up federation and short float64 simulations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from pflrepro.algorithms.contract import Method
from pflrepro.conformance import federation as made_up
from pflrepro.data.federation import Federation
from pflrepro.settings import Settings
from pflrepro.simulation import Simulation


@pytest.fixture
def federation() -> Federation:
    """Five clients with 24, 3, 14, 9, 30 training samples; the last has no test samples."""
    return made_up()


@pytest.fixture
def single() -> Federation:
    """One client that holds all of the made-up training data, tested on all of the test data."""
    parts = made_up()
    rows = [np.concatenate(parts.rows[split]) for split in ("train", "test")]
    return Federation(parts.x, parts.y, [rows[0]], [rows[1]], classes=parts.classes)


@pytest.fixture
def start(federation: Federation) -> Callable[..., Simulation]:
    """`start(method, rounds=2, ...)`: a simulation before its first round; changes go to the settings or the simulation."""

    def build(method: Method, rounds: int = 2, **changes) -> Simulation:
        names = ("federation", "model", "seeds", "backend", "device", "dtype", "chunk", "workers", "memory")
        given = {name: changes.pop(name) for name in names if name in changes}
        settings = Settings(rounds, **({"batch_size": 5, "lr": 0.05, "drop_last": False} | changes))
        base = {
            "federation": federation,
            "model": "mlp",
            "seeds": [0],
            "backend": "loop",
            "dtype": "float64",
            "workers": 1,
        }
        return Simulation(method=method, settings=settings, **(base | given))

    return build


@pytest.fixture
def simulate(start: Callable[..., Simulation]) -> Callable[..., Simulation]:
    """As `start`, run to its end."""

    def run(method: Method, rounds: int = 2, **changes) -> Simulation:
        simulation = start(method, rounds, **changes)
        while not simulation.finished:
            simulation.step()
        return simulation

    return run


@pytest.fixture
def differ() -> Callable[..., float]:
    """`differ(a, b)`: the largest difference between two trees with equal keys."""

    def largest(a, b) -> float:
        return max((float((x - y).abs().max()) for x, y in zip(a.leaves(), b.leaves(), strict=True)), default=0.0)

    return largest


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    assert torch.get_num_threads() == 1
