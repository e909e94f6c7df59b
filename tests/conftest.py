"""What every test gets: one thread, no display, data root and run store in an empty temporary folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Set before any framework is imported, and inherited by the processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
os.environ.setdefault("JUPYTER_PLATFORM_DIRS", "1")

import torch
from hypothesis import HealthCheck, settings

from pflrepro.experiments import compact, fingerprints
from pflrepro.papers import counted, kept_lines
from pflrepro.simulation import backends

torch.set_num_threads(1)

# A shared machine may be slow: examples are judged by what they show, not by how long they take; CI repeats the same ones.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("faults", deadline=None, max_examples=1000, suppress_health_check=list(HealthCheck))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "default"))


@pytest.fixture(scope="session")
def _counts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the code alone decides is counted once for all tests."""
    return tmp_path_factory.mktemp("counts") / "counted.json"


@pytest.fixture(autouse=True)
def _own_places(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, _counts: Path) -> None:
    """No test reads or writes the user's data root or run store."""
    places = tmp_path_factory.mktemp("places")
    monkeypatch.setenv("PFLREPRO_DATA", str(places / "data"))
    monkeypatch.setenv("PFLREPRO_STORE", str(places / "store"))
    monkeypatch.setattr(fingerprints, "file", lambda: places / "fingerprints.json")
    monkeypatch.setattr(backends, "file", lambda: places / "backends.json")
    monkeypatch.setattr(counted, "file", lambda: _counts)
    monkeypatch.setattr(kept_lines, "file", lambda kind, *_: places / f"{kind}.json")
    monkeypatch.setattr(
        compact, "shipped", lambda: places / "runs"
    )  # nothing is answered by what came with the package


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    lacking = pytest.mark.skip(reason="needs a CUDA device")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(lacking)
