"""The hand-made results of the papers' tests, for pictures and tables."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location("fakes", Path(__file__).parents[1] / "papers" / "conftest.py")
fakes = importlib.util.module_from_spec(_SPEC)
sys.modules["fakes"] = fakes
_SPEC.loader.exec_module(fakes)

artefact, store = fakes.artefact, fakes.store


@pytest.fixture
def result(artefact, store):
    """FedAvg 86 ± 2 (within tolerance), FedAvg+DBE 70.5 ± 0.5, the rest not run; with curves after local training."""
    from pflrepro.papers.comparing import result as compare

    store.add("fedavg", [10, 84, 60], seed=0, after=[85, 61])
    store.add("fedavg", [10, 20, 88], seed=1, after=[21, 89])
    store.add("fedavg+dbe", [10, 60, 70], seed=0)
    store.add("fedavg+dbe", [10, 60, 71], seed=1)
    return compare(artefact, "fast", store=store)


@pytest.fixture
def empty(artefact, store):
    from pflrepro.papers.comparing import result as compare

    return compare(artefact, "fast", store=store)


@pytest.fixture
def stand_in(artefact, store):
    from pflrepro.papers.comparing import result as compare

    store.add("fedavg", [10, 86], seed=0, rounds=1)
    return compare(artefact, "smoke", store=store)
