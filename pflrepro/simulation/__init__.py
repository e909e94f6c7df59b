"""The engine: schedules, backends, rounds, tests, checkpoints. It knows no method and no paper."""

from __future__ import annotations

from importlib import import_module
from typing import Any

ENGINE_REVISION = 1  # raised when the engine's numbers change; part of every run's identity

_EXPORTS = {
    "Simulation": "pflrepro.simulation.simulation",
    "Settings": "pflrepro.simulation.settings",
    "Loop": "pflrepro.simulation.loop",
    "Batched": "pflrepro.simulation.batched",
}
__all__ = ["ENGINE_REVISION", *_EXPORTS]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module 'pflrepro.simulation' has no attribute {name!r}")
