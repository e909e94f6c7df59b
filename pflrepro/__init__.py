"""pflrepro: the tables and figures of five papers on personalised federated learning, regenerated.

Importing the package does no input or output, touches no device and imports no framework; names load on first use.
"""

from __future__ import annotations

from pflrepro.lazy import lazy_names

__version__ = "0.1.0"

_NAMES = {
    "UserError": ".errors",
    "Experiment": ".experiments.config",
    "DataConfig": ".experiments.config",
    "Store": ".experiments.store",
    "run": ".experiments.run",
    "sweep": ".experiments.sweep",
    "compare": ".experiments.compare",
    "describe": ".catalogue",
    "simulate": ".experiments.simulate",
    "revive": ".experiments.revive",
    "Federation": ".data.federation",
    "explore": ".explorer.experiment",
    "browse": ".explorer.browser",
    "load_federation": ".experiments.loading",
    "Simulation": ".simulation.simulation",
    "Settings": ".settings",
    "build_method": ".algorithms.registry",
    "Method": ".algorithms.contract",
}
__all__ = ["__version__", *_NAMES]
__getattr__, __dir__ = lazy_names(__name__, _NAMES)
