"""The examples in the docstrings of the measures, and that importing the package loads nothing heavy."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import pflrepro.metrics

MODULES = (
    *("classification", "comparison", "cost", "curves", "fairness", "intervals", "leakage", "mdl", "personalisation"),
    "ranks",
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"pflrepro.metrics.{name}"))
    assert found.failed == 0
    assert found.attempted > 0


def test_every_public_name_is_there() -> None:
    for name in pflrepro.metrics.__all__:
        assert getattr(pflrepro.metrics, name).__name__ == name
    assert set(MODULES) <= {module.name for module in pkgutil.iter_modules(pflrepro.metrics.__path__)}


def test_importing_the_measures_of_arrays_loads_no_framework() -> None:
    modules = ", ".join(f"pflrepro.metrics.{name}" for name in (*MODULES[:6], "ranks", "accuracy", "selection"))
    code = f"import sys, {modules}; print(sorted({{'torch', 'pandas', 'scipy', 'sklearn', 'matplotlib'}} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
