"""Every example in a docstring does what it says."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

import pflrepro

PACKAGE = Path(pflrepro.__file__).parent
FILES = [  # those of the measures are in tests/metrics
    path
    for path in sorted(PACKAGE.rglob("*.py"))
    if "metrics" not in path.parts and re.search(r"^\s+>>> ", path.read_text("utf-8"), re.MULTILINE)
]
NAMES = [".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__") for path in FILES]
ENTRY_POINTS = {
    *("experiments.config", "experiments.run", "experiments.compare", "experiments.loading", "conformance"),
    *("data.datasets", "data.partition", "models.registry", "algorithms.registry", "papers.studies", "papers.registry"),
}


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_of_a_module(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted and not found.failed


def test_the_main_entry_points_have_examples() -> None:
    assert {f"pflrepro.{name}" for name in ENTRY_POINTS} <= set(NAMES)
