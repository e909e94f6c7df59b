"""Experiments, the run store, runs and sweeps. Nothing heavy is imported before a name is used."""

from __future__ import annotations

from pflrepro.lazy import lazy_names

# `run`, `sweep` and `revive`, the functions, live in modules of the same name: they are asked for as `pflrepro.run` and so on.
_NAMES = {
    "Callback": ".callbacks",
    "DataConfig": ".config",
    "Experiment": ".config",
    "MLflow": ".trackers",
    "Run": ".result",
    "Store": ".store",
    "TensorBoard": ".trackers",
    "WandB": ".trackers",
}
__all__ = list(_NAMES)
__getattr__, __dir__ = lazy_names(__name__, _NAMES)
