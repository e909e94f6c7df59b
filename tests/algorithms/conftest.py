"""Shared by the tests of the methods: small real federations and short simulations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pflrepro.algorithms import build_method
from pflrepro.algorithms.contract import Method
from pflrepro.conformance import federation as made_up
from pflrepro.data.federation import Federation
from pflrepro.settings import Settings
from pflrepro.simulation import Simulation


@pytest.fixture(scope="session")
def federation() -> Federation:
    """Five made-up clients of 3 to 30 samples, some without some classes; see `pflrepro.conformance`."""
    return made_up()


@pytest.fixture
def with_proxy(federation: Federation) -> Federation:
    """The made-up federation with 12 proxy samples."""
    x = torch.randn(12, 8, 8, generator=torch.Generator().manual_seed(5))
    proxy = Federation(x, torch.arange(12) % 3, [np.arange(12)], [[]])
    rows = federation.rows
    return Federation(federation.x, federation.y, rows["train"], rows["test"], classes=6, proxy=proxy)


@pytest.fixture(scope="session")
def digits() -> Federation:
    """Four clients with 60 training and 20 test digits each, sorted into shards of labels."""
    datasets = pytest.importorskip("sklearn.datasets")
    source = datasets.load_digits()
    order = np.argsort(source.target[:320], kind="stable")
    parts = np.array_split(order, 4)
    x, y = torch.tensor(source.images, dtype=torch.uint8), torch.tensor(source.target)
    train, test = [part[np.arange(80) % 4 > 0] for part in parts], [part[::4] for part in parts]
    return Federation(x, y, train, test, unit=(1 / 8, -1.0), name="digits")


@pytest.fixture
def simulate(federation: Federation) -> Callable[..., Simulation]:
    """`simulate(method or name, rounds=2, options={}, ...)`: a finished float64 simulation of the mlp, one seed, loop backend."""

    def run(method: str | Method, rounds: int = 2, options: dict[str, Any] | None = None, **changes: Any) -> Simulation:
        simulation_arguments = ("federation", "model", "seeds", "backend", "dtype", "chunk")
        given = {name: changes.pop(name) for name in simulation_arguments if name in changes}
        built = build_method(method, options) if isinstance(method, str) else method
        settings = Settings(rounds, **({"batch_size": 5, "lr": 0.05, "drop_last": False} | changes))
        base = {
            "federation": federation,
            "model": "mlp",
            "seeds": [0],
            "backend": "loop",
            "dtype": "float64",
            "workers": 1,
        }
        simulation = Simulation(method=built, settings=settings, **(base | given))
        while not simulation.finished:
            simulation.step()
        return simulation

    return run
