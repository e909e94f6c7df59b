"""The engine: schedules, backends, rounds, tests, the state of a run. It knows no paper."""

from __future__ import annotations

from pflrepro.lazy import lazy_names

ENGINE_REVISION = 1  # raised when the engine's numbers change; part of every run's identity

_NAMES = {
    "Simulation": ".simulation",
    "client_models": ".inspection",
    "samples": ".inspection",
}
__all__ = ["ENGINE_REVISION", *_NAMES]
__getattr__, __dir__ = lazy_names(__name__, _NAMES)
