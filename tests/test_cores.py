"""The cores that count are those that the process may run on."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

import pflrepro
from pflrepro.cores import may_start_processes, usable_cores, usual_workers


def test_a_limited_process_counts_its_own_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 3, 5}, raising=False)
    assert usable_cores() == 3


@pytest.mark.parametrize(("found", "cores"), [(7, 7), (None, 1)])
def test_elsewhere_all_cores_count(monkeypatch: pytest.MonkeyPatch, found: int | None, cores: int) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: found)
    assert usable_cores() == cores


def test_a_process_that_may_have_no_children_works_alone(monkeypatch) -> None:
    monkeypatch.setattr("pflrepro.cores.usable_cores", lambda: 3)
    assert may_start_processes() and usual_workers() == 3
    monkeypatch.setattr("multiprocessing.current_process", lambda: SimpleNamespace(daemon=True))
    assert not may_start_processes() and usual_workers() == 1
    made = pflrepro.simulate(
        pflrepro.Experiment.for_dataset("fedavg", "digits", clients=3, model="mlp"), rounds=1, backend="loop"
    )
    assert made.facts["workers"] == 1
