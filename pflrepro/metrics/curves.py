"""Curves of losses, and what is read from a curve besides one selected accuracy: rounds to a threshold, whether it still rises.

The mean of the five best rounds is the selection rule `mean_best_5` (`pflrepro.metrics.selection`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np

from pflrepro.errors import UserError, as_floats
from pflrepro.metrics.accuracy import column, ratio


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


def unfinished(curve: Any, rounds: Any = None) -> bool:
    """Whether a curve still rises: its best lies in the last fifth of the rounds, and that fifth is above the one before on average.

    The second is asked where both were evaluated: of a curve that swings, one high value at the end says nothing. The share is ours.

    Example:
        >>> unfinished([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]), unfinished([1, 8, 2, 8, 2, 8, 2, 8, 2, 1, 9])
        (True, False)
    """
    values, evaluated = _curve(curve, rounds)
    last, known = evaluated[-1], ~np.isnan(values)
    late, before = evaluated > 0.8 * last, (evaluated > 0.6 * last) & (evaluated <= 0.8 * last)
    if not known.any() or not late[np.nanargmax(values)]:
        return False
    late, before = late & known, before & known
    return not before.any() or bool(values[late].mean() > values[before].mean())


def mean_loss(history: Mapping[str, Any], name: str = "train_loss") -> np.ndarray:
    """The clients' losses, weighted with their training samples, over those that have trained, float64 [E]; NaN before anyone has.

    Example:
        >>> mean_loss({"train_loss": [[2.0, float("nan")], [1.0, 2.0]], "train_samples": [3, 1]}).tolist()
        [2.0, 1.25]
    """
    losses = column(history, name)
    weights = np.where(np.isnan(losses), 0.0, column(history, "train_samples"))
    return ratio((weights * np.where(np.isnan(losses), 0.0, losses)).sum(1), weights.sum(1))


def largest_loss(history: Mapping[str, Any]) -> np.ndarray:
    """The largest training loss of a client, float64 [E]; NaN before anyone has trained."""
    losses = column(history, "train_loss")
    return np.where(np.isnan(losses).all(1), np.nan, np.where(np.isnan(losses), -np.inf, losses).max(1))


def _curve(curve: Any, rounds: Any) -> tuple[np.ndarray, np.ndarray]:
    values = as_floats(curve, "the values of a curve")
    evaluated = np.arange(values.size) if rounds is None else np.asarray(rounds)
    if values.ndim != 1 or not len(values) or evaluated.shape != values.shape:
        raise UserError(
            f"a curve needs at least one value, and one round a value, not the shapes {list(values.shape)}, {list(evaluated.shape)}"
        )
    return values, evaluated
