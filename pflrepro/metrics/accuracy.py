"""Accuracies from the history of a run, and their spread over trials.

A history holds, for E evaluations of N clients: `correct` [E, N] correct test predictions before the next local training,
`correct_after` [E, N] after local training (-1 where a client has not trained yet), `loss` [E, N] summed cross-entropy,
`test_samples` [N]. Accuracies are fractions in [0, 1]; NaN where there is nothing to divide by. `UserError` for a history that lacks
one of these, or whose numbers do not fit together (another number of clients, more correct predictions than samples).

Example, two clients with 4 and 6 test samples, of which the second has not trained yet:
    >>> history = {"correct": [[1, 6]], "correct_after": [[3, -1]], "loss": [[1.0, 5.0]], "test_samples": [4, 6]}
    >>> float(pooled(history)[0]), float(mean_over_clients(history)[0]), float(mean_test_loss(history)[0])
    (0.7, 0.625, 0.6)
    >>> float(pooled_after(history)[0]), per_client_after(history).tolist()
    (0.75, [[0.75, nan]])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pflrepro.errors import UserError, as_floats, in_short


def pooled(history: Mapping[str, Any]) -> np.ndarray:
    """The papers' test accuracy: sum_i correct_i / sum_i n_i over all clients, float64 [E] [LIB, DBE-code].

    Example:
        >>> pooled({"correct": [[1, 6], [3, 6]], "test_samples": [4, 6]}).tolist()
        [0.7, 0.9]
    """
    correct, samples = _counts(history, "correct")
    return ratio(correct.sum(1), samples.sum())


def pooled_after(history: Mapping[str, Any]) -> np.ndarray:
    """`pooled` right after local training, over the clients that have trained so far, float64 [E]; NaN before anyone has.

    Example:
        >>> pooled_after({"correct_after": [[-1, -1], [3, -1]], "test_samples": [4, 6]}).tolist()
        [nan, 0.75]
    """
    correct, samples = _counts(history, "correct_after")
    trained = correct >= 0
    return ratio(np.where(trained, correct, 0).sum(1), np.where(trained, samples, 0).sum(1))


def mean_over_clients(history: Mapping[str, Any]) -> np.ndarray:
    """The plain mean of the clients' accuracies, over clients with test samples, float64 [E] [FedBR's tables; FDA-code].

    Example:
        >>> mean_over_clients({"correct": [[1, 6, 0]], "test_samples": [4, 6, 0]}).tolist()
        [0.625]
    """
    return plain_mean(per_client(history))


def mean_over_clients_after(history: Mapping[str, Any]) -> np.ndarray:
    """`mean_over_clients` right after local training, over the clients that have trained so far, float64 [E].

    Example:
        >>> mean_over_clients_after({"correct_after": [[-1, -1], [3, -1], [3, 3]], "test_samples": [4, 6]}).tolist()
        [nan, 0.75, 0.625]
    """
    return plain_mean(per_client_after(history))


def per_client(history: Mapping[str, Any]) -> np.ndarray:
    """Each client's accuracy, float64 [E, N]; NaN for a client without test samples.

    Example:
        >>> per_client({"correct": [[1, 6, 0]], "test_samples": [4, 6, 0]}).tolist()
        [[0.25, 1.0, nan]]
    """
    return ratio(*_counts(history, "correct"))


def per_client_after(history: Mapping[str, Any]) -> np.ndarray:
    """`per_client` right after each client's last local training, float64 [E, N]; NaN too for one that has not trained yet.

    Example:
        >>> per_client_after({"correct_after": [[-1, -1], [3, -1]], "test_samples": [4, 6]}).tolist()
        [[nan, nan], [0.75, nan]]
    """
    correct, samples = _counts(history, "correct_after")
    return ratio(correct, np.where(correct >= 0, samples, 0))


def mean_test_loss(history: Mapping[str, Any]) -> np.ndarray:
    """Cross-entropy a test sample, sum_i loss_i / sum_i n_i over all clients, float64 [E]; NaN where losses are not kept (-1).

    Example:
        >>> mean_test_loss({"loss": [[1.0, 5.0], [-1.0, -1.0]], "test_samples": [4, 6]}).tolist()
        [0.6, nan]
    """
    loss, samples = _per_sample(history, "loss")
    return ratio(np.where(loss < 0, np.nan, loss).sum(1), samples.sum())


@dataclass(frozen=True)
class Spread:
    """Trials in numbers: `mean`, `std` (population, ddof 0, as the papers print), `n`."""

    mean: float
    std: float
    n: int


def spread(values: Sequence[float]) -> Spread:
    """Mean and spread over trials; `UserError` without a value.

    Example:
        >>> spread([1.0, 3.0])
        Spread(mean=2.0, std=1.0, n=2)
    """
    array = as_floats(values)
    if array.ndim != 1 or not len(array):
        raise UserError(f"a spread over trials needs one value or more in a row, not the shape {list(array.shape)}")
    return Spread(float(array.mean()), float(array.std()), len(array))


def column(history: Mapping[str, Any], key: str) -> np.ndarray:
    """What a history holds under `key`; `UserError` where it holds nothing.

    Example:
        >>> column({"test_samples": [4, 6]}, "test_samples").tolist()
        [4, 6]
    """
    if not isinstance(history, Mapping):
        raise UserError(f"a history is arrays by name, such as run.history, not {in_short(history)}")
    if key not in history:
        raise UserError(f"the history has no {key!r}; it has: {', '.join(map(str, history)) or '(nothing)'}")
    return np.asarray(history[key])


def ratio(part: Any, whole: Any) -> np.ndarray:
    """part / whole, broadcast, in float64; NaN where `whole` is not positive.

    Example:
        >>> ratio([1, 2], [4, 0]).tolist()
        [0.25, nan]
    """
    part, whole = np.broadcast_arrays(np.asarray(part, np.float64), np.asarray(whole, np.float64))
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)


def _per_sample(history: Mapping[str, Any], key: str) -> tuple[np.ndarray, np.ndarray]:
    """(the numbers [E, N] under `key`, the clients' test samples [N])."""
    values, samples = column(history, key), column(history, "test_samples")
    if values.ndim != 2 or samples.shape != values.shape[1:]:
        raise UserError(
            f"a history's {key} is [evaluations, clients] and its test_samples [clients], not {list(values.shape)} "
            f"and {list(samples.shape)}"
        )
    return values, samples


def _counts(history: Mapping[str, Any], key: str) -> tuple[np.ndarray, np.ndarray]:
    """`_per_sample` of correct predictions, of which a client has no more than test samples."""
    correct, samples = _per_sample(history, key)
    over = np.argwhere(correct > samples)
    if len(over):
        place, client = over[0]
        raise UserError(
            f"{key} of client {client} at evaluation {place} is {correct[place, client]}, of {samples[client]} test samples"
        )
    return correct, samples


def plain_mean(each: np.ndarray) -> np.ndarray:
    """Mean [E] over the clients [E, N] that have a number, not NaN."""
    there = ~np.isnan(each)
    return ratio(np.where(there, each, 0).sum(1), there.sum(1))
