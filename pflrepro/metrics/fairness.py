"""How evenly accuracy is spread over clients: from the clients' accuracies, or from a run's history.

Accuracies are fractions [..., N], NaN for a client without test samples (it is left out everywhere); the results have the leading
axes. Where no client is left, or a ratio has no denominator, the result is NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from pflrepro.errors import UserError, as_floats, check_range
from pflrepro.markup import BriefArrays
from pflrepro.metrics.accuracy import column, mean_over_clients, per_client, pooled, ratio
from pflrepro.metrics.selection import select


@dataclass(frozen=True, eq=False, repr=False)
class ClientSpread(BriefArrays):
    """The spread over clients of one evaluation (scalars), or of all evaluations of a run (arrays [E]).

    Attributes:
        mean: plain mean over clients.
        std: population standard deviation, unweighted [GPFL Table 3, LIB].
        variation: coefficient of variation, std over the pooled accuracy [GPFL Table 3, printed times 100].
        worst_tenth, best_tenth: mean of the lowest and of the highest tenth of the clients' accuracies, see `worst_share`.
    """

    mean: Any
    std: Any
    variation: Any
    worst_tenth: Any
    best_tenth: Any

    def at(self, place: int) -> ClientSpread:
        """The numbers of one evaluation."""
        return ClientSpread(**{field.name: float(getattr(self, field.name)[place]) for field in fields(self)})


def client_spread(history: Mapping[str, Any]) -> ClientSpread:
    """The spread over clients at every evaluation, arrays [E]; needs `correct` [E, N] and `test_samples` [N] of a history.

    Example:
        >>> found = client_spread({"correct": [[1, 6]], "test_samples": [4, 8]}).at(0)
        >>> found.mean, found.std, found.worst_tenth, found.best_tenth
        (0.5, 0.25, 0.25, 0.75)
    """
    each = per_client(history)
    return ClientSpread(
        mean=mean_over_clients(history),
        std=std(each),
        variation=ratio(std(each), pooled(history)),
        worst_tenth=worst_share(each),
        best_tenth=-worst_share(-each),
    )


def at_best_round(history: Mapping[str, Any]) -> ClientSpread:
    """The spread at the evaluation with the best pooled accuracy [GPFL Table 3].

    `UserError` if no client has test samples.

    Example:
        >>> spread = at_best_round({"correct": [[1, 0], [2, 6], [2, 2]], "test_samples": [4, 8]})
        >>> spread.mean, spread.std
        (0.625, 0.125)
    """
    if not column(history, "test_samples").sum():
        raise UserError("no client has test samples: there is no accuracy, and no best round")
    (place,) = select("best_round", pooled(history)).places
    return client_spread(history).at(place)


def std(accuracies: Any) -> np.ndarray:
    """Population standard deviation over clients, unweighted, float64 [...] [GPFL Table 3, LIB].

    Example:
        >>> float(std([0.5, 0.9, np.nan]))
        0.2
    """
    values, there = _checked(accuracies)
    count = there.sum(-1)
    mean = ratio(np.where(there, values, 0).sum(-1), count)
    squares = (np.where(there, values - mean[..., None], 0) ** 2).sum(-1)
    return np.sqrt(ratio(squares, count))


def worst_share(accuracies: Any, share: float = 0.1) -> np.ndarray:
    """The mean accuracy of the worst `share` of the clients that were tested, ceil(share * N) of them, float64 [...].

    0.1: the worst 10 % [recalled: q-FFL's tables].

    Example:
        >>> float(worst_share([0.9, 0.1, 0.5, 0.3], share=0.5))
        0.2
    """
    check_range("share of the clients", share, 0, 1, open_low=True)
    values, there = _checked(accuracies)
    count = np.ceil(share * there.sum(-1) - 1e-9)
    ordered = np.sort(np.where(there, values, np.inf), axis=-1)
    chosen = np.arange(values.shape[-1]) < count[..., None]
    return ratio(np.where(chosen, ordered, 0).sum(-1), count)


def _checked(accuracies: Any) -> tuple[np.ndarray, np.ndarray]:
    values = as_floats(accuracies, "accuracies")
    if values.ndim == 0:
        raise UserError("a spread over clients needs one accuracy a client")
    return values, ~np.isnan(values)
