"""Experiments, the run store, runs and sweeps. Nothing heavy is imported before a name is used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# `run` and `sweep`, the functions, live in modules of the same name: they are asked for there or as `pflrepro.run`, `pflrepro.sweep`.
_EXPORTS = {
    "DataConfig": "pflrepro.experiments.config",
    "Experiment": "pflrepro.experiments.config",
    "Run": "pflrepro.experiments.result",
    "Store": "pflrepro.experiments.store",
}
__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module 'pflrepro.experiments' has no attribute {name!r}")
