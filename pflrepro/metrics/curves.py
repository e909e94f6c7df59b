"""What the papers read from a curve besides one selected accuracy: rounds to a threshold, iterations to convergence.

The mean of the five best rounds is the selection rule `mean_best_5` (`pflrepro.metrics.selection`).
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from pflrepro.errors import UserError


def rounds_to(threshold: float, curve: Any, rounds: Any = None) -> int | None:
    """The first evaluated round whose accuracy is at least `threshold`; None if there is none [FedBR, "rounds for X %"].

    NaN never counts as reached.

    Args:
        curve: [E] accuracies in the unit of the threshold (the paper's is the plain mean over the test environments of the
            aggregated model: `accuracy.mean_over_clients`).
        rounds: the round of each evaluation; default 0, 1, 2, ...

    Example:
        >>> rounds_to(0.8, [0.1, 0.79, 0.8, 0.7], rounds=[0, 2, 4, 6]), rounds_to(0.9, [0.1, 0.8])
        (4, None)
    """
    values, evaluated = _curve(curve, rounds)
    if not isinstance(threshold, Real) or not math.isfinite(threshold):
        raise UserError(f"a threshold must be a number, not {threshold!r}")
    reached = np.flatnonzero(values >= threshold)
    return int(evaluated[reached[0]]) if len(reached) else None


def iterations_to_convergence(curve: Any, rounds: Any = None) -> int:
    """The round of the first evaluation with the best accuracy [DBE Table 8a, LIB: without the 100 rounds of patience].

    DBE's total time is this times the time of an iteration (`pflrepro.metrics.cost.timing`).

    Example:
        >>> iterations_to_convergence([0.1, 0.6, 0.7, 0.7, 0.5], rounds=[0, 5, 10, 15, 20])
        10
    """
    values, evaluated = _curve(curve, rounds)
    if np.isnan(values).all():
        raise UserError("a curve without any number has no best evaluation")
    return int(evaluated[np.nanargmax(values)])


def _curve(curve: Any, rounds: Any) -> tuple[np.ndarray, np.ndarray]:
    values = np.asarray(curve, np.float64)
    evaluated = np.arange(values.size) if rounds is None else np.asarray(rounds)
    if values.ndim != 1 or not len(values) or evaluated.shape != values.shape:
        raise UserError(
            f"a curve needs at least one value, and one round a value, not the shapes {list(values.shape)}, {list(evaluated.shape)}"
        )
    return values, evaluated
