"""On a CUDA device `batched` and `loop` give the numbers of the loop on the processor; captured graphs: the conformance table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from pflrepro.algorithms.fedavg import FedAvg
from pflrepro.algorithms.registry import build_method
from pflrepro.data.federation import Federation
from pflrepro.simulation.computing import computing
from pflrepro.simulation.graph import _capture_stream


@pytest.mark.gpu
@pytest.mark.parametrize("backend", ["batched", "loop"])
@pytest.mark.parametrize(
    ("name", "options", "model"),
    [
        ("fedavg", {}, "mlp"),
        ("gpfl", {}, "mlp"),
        ("fedpac", {}, "mlp"),
        ("apple", {}, "mlp"),
        ("fedfomo", {"models": 3}, "mlp"),
        ("fedmix/fedbr", {"samples": 3}, "mlp"),
        ("groupdro/fedbr", {}, "mlp"),
        ("fedavg+dbe", {}, "cnn-digits-bn"),
    ],
)
def test_a_gpu_gives_the_processors_numbers(
    simulate, federation, name: str, options: dict, model: str, backend: str
) -> None:
    rows = federation.rows["train"], federation.rows["test"]
    moved = Federation(federation.x, federation.y, *rows, classes=federation.classes, device="cuda")
    changes = {"rounds": 3, "participation": 0.6, "seeds": [0, 1], "model": model, "drop_last": model != "mlp"}
    changes["momentum"] = 0.5 if name == "groupdro/fedbr" else 0.0
    expected = simulate(build_method(name, options), **changes)
    found = simulate(build_method(name, options), federation=moved, backend=backend, **changes)
    assert found.replicas[0].server.has_leaves() and all(leaf.is_cuda for leaf in found.replicas[0].server.leaves())
    for k in (0, 1):
        mine, other = found.state_of(k), expected.state_of(k)
        for path in (path for path in other if path.startswith(("server/", "clients/", "kept/"))):
            np.testing.assert_allclose(mine[path], other[path], rtol=1e-7, atol=1e-8, err_msg=path)
    assert torch.cuda.is_available()


@pytest.mark.gpu
def test_captured_prefixes_with_finished_rows_keep_these_as_they_are(simulate, differ, monkeypatch) -> None:
    seeds = [0, 1, 2, 3]  # 20 rows, of which 16 are active when the shortest have finished
    monkeypatch.setattr("pflrepro.simulation.graph.FEW", 0)
    expected, found = (
        simulate(build_method("pfedfda", {}), seeds=seeds, backend=backend, device=device).replicas
        for backend, device in (("loop", "cpu"), ("graph", "cuda"))
    )
    for one, other in zip(expected, found, strict=True):
        assert differ(one.server, other.server.map(lambda leaf: leaf.cpu())) < 1e-8


def test_another_gpu_than_the_first_is_made_the_current_one(monkeypatch) -> None:
    made = []

    @contextmanager
    def current(device: torch.device) -> Iterator[None]:
        made.append(str(device))
        yield

    monkeypatch.setattr(torch.cuda, "device", current)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: f"a stream of {device}")
    for name in ("cpu", "cuda:1"):
        with computing(torch.device(name)):
            pass
    assert made == ["cuda:1"]
    streams = [_capture_stream.__wrapped__(torch.device(name)) for name in ("cuda", "cuda:0", "cuda:1")]
    assert streams == [None, None, "a stream of cuda:1"]


@pytest.mark.gpu
@pytest.mark.parametrize("backend", ["graph", "loop"])
def test_convolutions_keep_single_precision(simulate, backend: str) -> None:
    changes = {"rounds": 2, "model": "cnn-digits", "dtype": "float32"}
    expected, found = simulate(FedAvg(), **changes), simulate(FedAvg(), device="cuda", backend=backend, **changes)
    for path, value in expected.state_of(0).items():
        if path.startswith("server/"):  # TF32 would be off by a thousandth
            np.testing.assert_allclose(
                found.state_of(0)[path], value, rtol=0, atol=2e-6 * np.abs(value).max(), err_msg=path
            )
    assert torch.backends.cudnn.allow_tf32  # as it was before
