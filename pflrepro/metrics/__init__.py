"""What is measured: from a run's history, from the predictions of a simulation's models, and between methods.

Names load their module on first use; nothing is imported here.

* of a history: `accuracy` (pooled and plain curves), `selection` (rules that take one number from a curve), `curves` (rounds to a
  threshold, convergence), `fairness` (spread over clients), `cost` (time, numbers sent, operations, memory).
* of models: `predictions` (labels and scores of a simulation's models), `classification` (accuracy, macro-F1, AUC of arrays),
  `personalisation` (per client; GRP-FED's scores).
* between methods: `intervals` (bootstrap), `comparison` (paired tests), `ranks` (Friedman, Nemenyi).
"""

from __future__ import annotations

from pflrepro.lazy import lazy_names

_NAMES = {
    "predict": ".predictions",
    "Predictions": ".predictions",
    "grp_fed_scores": ".personalisation",
    "macro_f1": ".classification",
    "auc": ".classification",
    "client_spread": ".fairness",
    "rounds_to": ".curves",
    "speed_up": ".curves",
    "iterations_to_convergence": ".curves",
    "select": ".selection",
    "bootstrap": ".intervals",
    "over_clients": ".intervals",
    "over_seeds": ".intervals",
    "t_interval": ".intervals",
    "paired": ".comparison",
    "holm": ".comparison",
    "average_ranks": ".ranks",
    "timing": ".cost",
}
__all__ = list(_NAMES)
__getattr__, __dir__ = lazy_names(__name__, _NAMES)
