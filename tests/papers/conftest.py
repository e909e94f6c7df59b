"""An empty store of a test's own, and studies on it."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.runs import make_artefact

from pflrepro.experiments.store import Store
from pflrepro.papers.studies import Study


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store", behind=tmp_path / "nothing")


@pytest.fixture
def make(store: Store):
    """make(scale, ...): a study of the fake artefact, or of `of`."""

    def build(scale: str = "fast", of=None, **how) -> Study:
        return Study(of or make_artefact(), scale, **{"store": store} | how)

    return build


@pytest.fixture
def at(tmp_path: Path):
    """at(id, scale): a study of a paper's artefact."""
    return lambda id, scale="paper": Study(id, scale, store=tmp_path)
