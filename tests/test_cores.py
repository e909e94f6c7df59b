"""The cores that count are those that the process may run on."""

from __future__ import annotations

import os

import pytest

from pflrepro.cores import usable_cores


def test_a_limited_process_counts_its_own_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 3, 5}, raising=False)
    assert usable_cores() == 3


@pytest.mark.parametrize(("found", "cores"), [(7, 7), (None, 1)])
def test_elsewhere_all_cores_count(monkeypatch: pytest.MonkeyPatch, found: int | None, cores: int) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: found)
    assert usable_cores() == cores
