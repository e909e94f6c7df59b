"""One round of every network: the batched backend, and the graph's without capture, give the loop's numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from pflrepro.algorithms.fedavg import FedAvg
from pflrepro.conformance.meta import run_on_meta
from pflrepro.data.federation import Federation
from pflrepro.models import MODELS, build_model, find
from pflrepro.models.split import buffers_of
from pflrepro.settings import Settings
from pflrepro.simulation import Simulation

ROWS = (4, 6)  # training samples of the two clients
# Batch norm over two samples whose maps are single positions turns rounding errors into other signs: larger samples for these.
SIDES = {"cnn-digits-bn": 12, "resnet18": 48, "resnet18-small": 16, "ecg-resnet": 32}


def federation(name: str, shape: tuple[int, ...]) -> Federation:
    """Made-up samples of the smallest shape; token ids are stored as whole numbers."""
    draw = np.random.default_rng(0)
    count = sum(ROWS) + 4
    x = draw.standard_normal((count, *shape))
    if find(name)[0].takes.kind == "tokens":
        x = draw.integers(0, 50, (count, *shape))
    parts = np.split(np.arange(count), np.cumsum([*ROWS, 2]))
    return Federation(torch.as_tensor(x), torch.arange(count) % 3, parts[:2], parts[2:], classes=3)


@pytest.fixture
def shape_of(smallest: Callable[[str], tuple]) -> Callable[[str], tuple[int, ...]]:
    """The shape of the samples that a network is tried on."""

    def shape(name: str) -> tuple[int, ...]:
        entry, least = find(name)[0], smallest(name)
        side = SIDES.get(entry.name, least[-1])
        return tuple(side if length == entry.takes.least else length for length in least)

    return shape


NAMES = [*MODELS, "cnn4@conv1", "ecg-resnet@b1"]
# What another one stands for, on larger images or with other norm layers, and takes ten seconds.
LARGE = ("resnet18", "resnet18-gn", "resnet18-small", "resnet18-gn-small", "pfedfda-resnet18")
EACH = [pytest.param(name, marks=pytest.mark.variant if name in LARGE else ()) for name in NAMES]


@pytest.mark.parametrize("name", NAMES)
def test_no_network_needs_the_host(name: str, shape_of: Callable[[str], tuple[int, ...]]) -> None:
    """A round of FedAvg without numbers, see `pflrepro.conformance`; images are augmented."""
    shape = shape_of(name)
    settings = Settings(1, batch_size=2, augment="crop-flip" if find(name)[0].takes.kind == "image" else "none")
    run_on_meta(Simulation(FedAvg(), federation(name, shape), name, settings, [0], backend="batched"))


@pytest.mark.parametrize("name", EACH)
def test_batched_is_the_loop(name: str, shape_of: Callable[[str], tuple[int, ...]]) -> None:
    """Parameters, running statistics and scores after a round of two steps and three."""
    shape = shape_of(name)
    data, settings = federation(name, shape), Settings(1, batch_size=2, lr=0.01)
    found = []
    for backend in ("loop", "batched", "graph"):
        simulation = Simulation(FedAvg(), data, name, settings, [0], backend=backend, workers=1, dtype="float64")
        before = simulation.replicas[0].server.params.flat()
        simulation.step()
        after = simulation.replicas[0].server.params.flat()
        assert all(key.startswith(("base/", "head/")) for key in after)
        assert any(not torch.equal(before[key], value) for key, value in after.items())
        found.append(simulation.state_of(0) | {"loss": simulation.history(0)["loss"]})
    paths = [path for path in found[0] if path.startswith(("server/", "kept/")) or path == "loss"]
    network = build_model(name, shape, 3, 0)
    statistics = any(buffers_of(part).has_leaves() for part in (network.base, network.head))
    assert len(paths) > 3 and statistics == any(path.startswith("kept/") for path in paths)
    for other in found[1:]:
        for path in paths:
            np.testing.assert_allclose(other[path], found[0][path], rtol=1e-9, atol=1e-9, err_msg=path)
