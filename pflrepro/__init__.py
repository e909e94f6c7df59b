"""pflrepro: the tables and figures of five papers on personalised federated learning, regenerated.

Importing the package does no input or output, touches no device and imports no framework; names load on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_EXPORTS = {
    "UserError": "pflrepro.errors",
    "Experiment": "pflrepro.experiments.config",
    "DataConfig": "pflrepro.experiments.config",
    "Store": "pflrepro.experiments.store",
    "run": "pflrepro.experiments.run",
    "sweep": "pflrepro.experiments.sweep",
    "Federation": "pflrepro.data.federation",
    "Simulation": "pflrepro.simulation.simulation",
    "Settings": "pflrepro.simulation.settings",
    "build_method": "pflrepro.algorithms.registry",
    "Method": "pflrepro.algorithms.contract",
}
__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module 'pflrepro' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
