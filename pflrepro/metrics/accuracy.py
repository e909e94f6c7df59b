"""Accuracies from the history of a run, and their spread over trials.

A history holds, for E evaluations of N clients: `correct` [E, N] correct test predictions before the next local training,
`correct_after` [E, N] after local training (-1 where a client has not trained yet), `loss` [E, N] summed cross-entropy,
`test_samples` [N]. Accuracies are fractions in [0, 1]; NaN where there is nothing to divide by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


def pooled(history: Mapping[str, Any]) -> np.ndarray:
    """The papers' test accuracy: sum_i correct_i / sum_i n_i over all clients, float64 [E] [LIB, DBE-code]."""
    return ratio(np.asarray(history["correct"]).sum(1), np.asarray(history["test_samples"]).sum())


def pooled_after(history: Mapping[str, Any]) -> np.ndarray:
    """The same right after local training, over the clients that have trained so far; NaN before anyone has."""
    correct = np.asarray(history["correct_after"])
    trained = correct >= 0
    samples = np.where(trained, np.asarray(history["test_samples"]), 0).sum(1)
    return ratio(np.where(trained, correct, 0).sum(1), samples)


def mean_over_clients(history: Mapping[str, Any]) -> np.ndarray:
    """The plain mean of the clients' accuracies, over clients with test samples, float64 [E]."""
    tested = np.asarray(history["test_samples"]) > 0
    if not tested.any():
        return np.full(len(history["correct"]), np.nan)
    return per_client(history)[:, tested].mean(1)


def per_client(history: Mapping[str, Any]) -> np.ndarray:
    """Each client's accuracy, float64 [E, N]; NaN for a client without test samples."""
    return ratio(np.asarray(history["correct"]), np.asarray(history["test_samples"])[None])


def mean_test_loss(history: Mapping[str, Any]) -> np.ndarray:
    """Cross-entropy a test sample, pooled over clients, float64 [E]."""
    return ratio(np.asarray(history["loss"]).sum(1), np.asarray(history["test_samples"]).sum())


@dataclass(frozen=True)
class Spread:
    """Trials in numbers: `mean`, `std` (population, ddof 0, as the papers print), `standard_error` of the mean, `n`."""

    mean: float
    std: float
    standard_error: float
    n: int


def spread(values: Sequence[float]) -> Spread:
    """Mean and spread over trials; standard error = sample standard deviation (ddof 1) / sqrt(n), NaN for one trial."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array):
        raise ValueError("the spread of no values is not defined")
    error = float(array.std(ddof=1) / np.sqrt(len(array))) if len(array) > 1 else float("nan")
    return Spread(float(array.mean()), float(array.std()), error, len(array))


def ratio(part: Any, whole: Any) -> np.ndarray:
    """part / whole, broadcast, in float64; NaN where `whole` is not positive."""
    part, whole = np.broadcast_arrays(np.asarray(part, np.float64), np.asarray(whole, np.float64))
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)
