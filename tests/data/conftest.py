"""Makes the helper modules of the data tests importable: `data_sources`, `data_server`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pytest
from data_sources import tiny_sources


@pytest.fixture
def sources() -> dict[str, bytes]:
    """The four compressed idx files of the data set `tiny`."""
    return tiny_sources()
