"""Methods: one file each, written as pure functions over trees (see `pflrepro.algorithms.contract`)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_EXPORTS = {
    "Method": "contract",
    "cross_entropy": "contract",
    "mean": "contract",
    "one_hot": "contract",
    "Clock": "phases",
    "Draw": "phases",
    "Part": "phases",
    "Phase": "phases",
    "Prologue": "phases",
    "Context": "task",
    "Setup": "task",
    "Task": "task",
    "build_method": "registry",
    "ALGORITHMS": "registry",
    "PLUGINS": "registry",
}
__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(import_module(f"pflrepro.algorithms.{_EXPORTS[name]}"), name)
    raise AttributeError(f"module 'pflrepro.algorithms' has no attribute {name!r}")
