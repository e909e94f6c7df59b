"""The scripts of `benchmarks/` as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`benchmarks/<name>.py`, run as a module as long as the test."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    monkeypatch.syspath_prepend(FOLDER)  # as where a script is run
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
