"""Confidence intervals: by the bootstrap over seeds or over clients, or by Student's t over seeds.

With few seeds the bootstrap is too narrow: its intervals never leave the range of the values, and the range of 3 seeds contains the
true mean in 3 cases of 4. For fewer than about ten seeds take `t_interval`, which supposes that seeds are about normal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pflrepro.errors import UserError, as_floats
from pflrepro.randomness import generator

LEVEL = 0.95
RESAMPLES = 9999  # scipy's default
FEW = 10  # values; below, the bootstrap is too narrow


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % interval: `value`, `low`, `high`; `n` what was resampled, `method` (`percentile` or `t`).

    low and high are NaN where there is no interval: one seed or one client tells nothing of its spread.
    """

    value: float
    low: float
    high: float
    n: int
    method: str


def bootstrap(values: Any) -> Interval:
    """The percentile interval of the mean of `values` [n] (one a seed, or one a client), by scipy.stats.bootstrap.

    Example, whose resampled means are 0, 0.5 and 1 with probability 1/4, 1/2 and 1/4:
        >>> found = bootstrap([0.0, 1.0])
        >>> found.value, found.low, found.high
        (0.5, 0.0, 1.0)
    """
    return _resampled((_numbers(values),), _mean)


def over_weighted_clients(values: Any, weights: Any) -> Interval:
    """The percentile interval of a weighted mean over clients of any measure, when clients are resampled with their weights.

    Args:
        values, weights: [N], weights positive: sum_i w_i v_i / sum_i w_i. Accuracies with the numbers of test samples give the pooled
            accuracy [LIB].

    Example, with a mean of 250:
        >>> found = over_weighted_clients([100.0, 300.0], [1, 3])
        >>> found.value, found.low, found.high
        (250.0, 100.0, 300.0)
    """
    values, weights = _numbers(values), _numbers(weights)
    if values.shape != weights.shape or not (weights > 0).all():
        raise UserError(f"{len(values)} values need as many positive weights, not {weights.tolist()}")
    return _resampled((values * weights, weights), _share)


def t_interval(values: Any) -> Interval:
    """mean +- t_{n-1} s / sqrt(n), s the unbiased standard deviation of `values` [n]; NaN for one value.

    Example:
        >>> interval = t_interval([0.70, 0.72, 0.74])
        >>> round(interval.low, 4), round(interval.high, 4)
        (0.6703, 0.7697)
    """
    from scipy import stats

    values = _numbers(values)
    n, mean = len(values), float(values.mean())
    if n < 2:
        return Interval(mean, np.nan, np.nan, n, "t")
    half = float(stats.t.ppf((1 + LEVEL) / 2, n - 1) * values.std(ddof=1) / np.sqrt(n))
    return Interval(mean, mean - half, mean + half, n, "t")


def over_seeds(values: Any) -> Interval:
    """The interval of the mean over seeds, `values` [n]: `t_interval` below ten seeds, the percentile `bootstrap` from ten on.

    Example:
        >>> over_seeds([0.70, 0.72, 0.74]).method, over_seeds([0.70, 0.72] * 5).method
        ('t', 'percentile')
    """
    return t_interval(values) if np.size(values) < FEW else bootstrap(values)


def _resampled(data: tuple[np.ndarray, ...], statistic: Callable[..., np.ndarray]) -> Interval:
    from scipy import stats

    value, n = float(statistic(*data)), len(data[0])
    if n < 2:
        return Interval(value, np.nan, np.nan, n, "percentile")
    ratios = data[0] / data[1] if len(data) == 2 else data[0]
    if np.ptp(ratios) == 0:  # resampled, rounding would make them differ
        return Interval(value, value, value, n, "percentile")
    found = stats.bootstrap(
        data,
        statistic,
        paired=True,
        vectorized=True,
        method="percentile",
        confidence_level=LEVEL,
        n_resamples=RESAMPLES,
        batch=max(1, 2**24 // n),
        rng=generator(0, "bootstrap"),
    )
    low, high = found.confidence_interval
    return Interval(value, float(low), float(high), n, "percentile")


def _mean(values: np.ndarray, axis: int = -1) -> np.ndarray:
    return values.mean(axis)


def _share(sums: np.ndarray, weights: np.ndarray, axis: int = -1) -> np.ndarray:
    return sums.sum(axis) / weights.sum(axis)


def _numbers(values: Any) -> np.ndarray:
    array = as_floats(values)
    if array.ndim != 1 or not array.size:
        raise UserError(f"an interval needs one number or more in a row, not the shape {list(array.shape)}")
    if not np.isfinite(array).all():
        raise UserError(f"an interval needs numbers, and {int((~np.isfinite(array)).sum())} of {array.size} are none")
    return array
