"""An empty store of a test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from pflrepro.experiments.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store", behind=tmp_path / "nothing")
