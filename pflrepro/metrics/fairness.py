"""How evenly accuracy is spread over clients: from the clients' accuracies, or from a run's history.

Accuracies are fractions [..., N], NaN for a client without test samples (it is left out everywhere); the results have the leading
axes. Where no client is left, or a ratio has no denominator, the result is NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from pflrepro.errors import UserError, check_range
from pflrepro.metrics.accuracy import column, mean_over_clients, per_client, pooled, ratio
from pflrepro.metrics.selection import select


@dataclass(frozen=True, eq=False)
class ClientSpread:
    """The spread over clients of one evaluation (scalars), or of all evaluations of a run (arrays [E]).

    Attributes:
        mean: plain mean over clients.
        pooled: sum_i correct_i / sum_i n_i.
        std: population standard deviation (ddof 0), unweighted [GPFL Table 3, LIB].
        std_unbiased: the same with ddof 1 [FDA-code: the brackets of pFedFDA's tables]; NaN for one client.
        variation: coefficient of variation, std / pooled [GPFL Table 3, printed times 100].
        worst, best: mean of the lowest and of the highest tenth of the clients' accuracies, see `worst_share`.
        entropy: of the clients' shares of accuracy, see `entropy`; log N where all are equal.
    """

    mean: Any
    pooled: Any
    std: Any
    std_unbiased: Any
    variation: Any
    worst: Any
    best: Any
    entropy: Any

    def at(self, place: int) -> ClientSpread:
        """The numbers of one evaluation."""
        return ClientSpread(**{field.name: float(getattr(self, field.name)[place]) for field in fields(self)})


def client_spread(history: Mapping[str, Any], share: float = 0.1) -> ClientSpread:
    """The spread over clients at every evaluation, arrays [E]; needs `correct` [E, N] and `test_samples` [N] of a history.

    Example:
        >>> found = client_spread({"correct": [[1, 6]], "test_samples": [4, 8]}).at(0)
        >>> found.mean, found.std, found.worst, found.best
        (0.5, 0.25, 0.25, 0.75)
    """
    each, whole = per_client(history), pooled(history)
    return ClientSpread(
        mean=mean_over_clients(history),
        pooled=whole,
        std=std(each),
        std_unbiased=std(each, ddof=1),
        variation=ratio(std(each), whole),
        worst=worst_share(each, share),
        best=-worst_share(-each, share),
        entropy=entropy(each),
    )


def at_best_round(history: Mapping[str, Any], share: float = 0.1) -> tuple[ClientSpread, int]:
    """(the spread at the evaluation with the best pooled accuracy [GPFL Table 3], the place of that evaluation).

    `UserError` if no client has test samples.

    Example:
        >>> spread, place = at_best_round({"correct": [[1, 0], [2, 6], [2, 2]], "test_samples": [4, 8]})
        >>> place, spread.mean, spread.std
        (1, 0.625, 0.125)
    """
    if not column(history, "test_samples").sum():
        raise UserError("no client has test samples: there is no accuracy, and no best round")
    (place,) = select("best_round", pooled(history)).places
    return client_spread(history, share).at(place), place


def std(accuracies: Any, ddof: int = 0) -> np.ndarray:
    """Standard deviation over clients, unweighted, float64 [...].

    ddof 0: population [GPFL Table 3, LIB]. ddof 1: unbiased [FDA-code]; NaN where `ddof` clients or fewer were tested.

    Example:
        >>> float(std([0.5, 0.9, np.nan])), round(float(std([0.5, 0.9], ddof=1)), 4)
        (0.2, 0.2828)
    """
    check_range("ddof", ddof, 0, integer=True)
    values, there = _checked(accuracies)
    count = there.sum(-1)
    mean = ratio(np.where(there, values, 0).sum(-1), count)
    squares = (np.where(there, values - mean[..., None], 0) ** 2).sum(-1)
    return np.sqrt(ratio(squares, count - ddof))


def variation(accuracies: Any, overall: Any = None) -> np.ndarray:
    """Coefficient of variation: std / `overall`, float64 [...].

    Args:
        overall: the pooled accuracy of the same evaluation [GPFL Table 3]; default: the plain mean over clients.

    Example:
        >>> float(variation([0.25, 0.75])), float(variation([0.25, 0.75], overall=0.625))
        (0.5, 0.4)
    """
    values, there = _checked(accuracies)
    mean = ratio(np.where(there, values, 0).sum(-1), there.sum(-1))
    return ratio(std(values), mean if overall is None else np.asarray(overall, np.float64))


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


def entropy(accuracies: Any) -> np.ndarray:
    """- sum_i s_i log s_i with s_i = a_i / sum_j a_j, in nats, float64 [...] [recalled: q-FFL, definition of uniformity].

    log N where all N clients are equally accurate, 0 where one has all; NaN where all are at 0. `UserError` for a negative accuracy.

    Example:
        >>> round(float(entropy([0.5, 0.5, 0.5, 0.5])), 4), float(entropy([0.7, 0.0]))
        (1.3863, 0.0)
    """
    from scipy.special import entr

    values, there = _checked(accuracies)
    kept = np.where(there, values, 0)
    if (kept < 0).any():
        raise UserError(f"an entropy needs accuracies >= 0, not {kept.min():g}")
    total = kept.sum(-1)
    shares = ratio(kept, total[..., None])
    return np.where(total > 0, entr(shares).sum(-1), np.nan)


def _checked(accuracies: Any) -> tuple[np.ndarray, np.ndarray]:
    values = np.asarray(accuracies, np.float64)
    if values.ndim == 0:
        raise UserError("a spread over clients needs one accuracy a client")
    return values, ~np.isnan(values)
