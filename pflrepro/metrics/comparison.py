"""Two methods on the same seeds, clients or data sets: paired tests, one for two groups, and Holm's correction for many tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pflrepro.errors import UserError, as_floats, check_word
from pflrepro.randomness import generator

TESTS = ("t", "permutation")
EXACT_PAIRS = 40  # two halves of a million sums each
FLIPS = 99_999
TURNS = "turns of one test set"  # of one model: they rise and fall together, so that they are no sample of test sets
EQUAL = 1e-12  # numbers that differ by less than this share of themselves differ by rounding


@dataclass(frozen=True)
class Comparison:
    """A paired test of a against b.

    Attributes:
        difference: mean of a - b.
        p: two-sided; NaN where the test is not defined (one pair).
        pairs: complete pairs that were used.
        unequal: of them those that differ, which alone tell something.
        test: that was made.
    """

    difference: float
    p: float
    pairs: int
    unequal: int
    test: str


def paired(a: Any, b: Any, test: str) -> Comparison:
    """Compare two methods on the same cells, a[i] with b[i]; pairs with NaN (a cell that was not run) are left out.

    `t`: Student's paired t, for differences that are about normal. Differences that are all equal have no spread to go by: of them
    the signs are flipped.
    `permutation`: signs of the differences flipped at random (Fisher 1935, Pitman 1937): p is the share of all 2^n patterns of signs
    whose sum is at least as far from zero as the seen one; for more than 40 differences that are not zero, of 99,999 random patterns
    and the seen one. It tests the sum: with a[i], b[i] the correct predictions of client i, the pooled accuracy.
    Differences that are all zero give p = 1. What differs by rounding is equal: a[i] and b[i] by 1e-12 of themselves, two
    differences by 1e-12 of the values behind them.
    Raises `UserError` for vectors of different lengths, or without a single complete pair.

    Example:
        >>> result = paired([0.8, 0.7, 0.9, 0.6, 0.8, 0.7], [0.7, 0.65, 0.82, 0.59, 0.77, 0.5], "permutation")
        >>> result.p, round(result.difference, 4)
        (0.03125, 0.0783)
    """
    check_word("paired test", test, TESTS)
    a, b = as_floats(a), as_floats(b)
    if a.ndim != 1 or a.shape != b.shape:
        raise UserError(f"paired values need one length, not the shapes {list(a.shape)} and {list(b.shape)}")
    difference = a - b
    there = np.isfinite(difference)
    if not there.any():
        raise UserError("no cell was run with both methods: there is nothing to compare")
    kept, slack = difference[there], EQUAL * np.maximum(abs(a), abs(b))[there]
    kept = np.where(abs(kept) > slack, np.sign(kept) * merged(abs(kept), slack), 0.0)
    if len(kept) > 1 and np.ptp(kept) == 0:
        test = "permutation"
    p = _student(kept) if test == "t" else _sign_flips(kept)
    return Comparison(float(kept.mean()), p, len(kept), int(np.count_nonzero(kept)), test)


def of_two_groups(a: Any, b: Any) -> float:
    """Two-sided p of the difference of the means of two groups that have no pairs: labels dealt anew at random (Pitman 1937).

    The share of all ways to deal the values to groups of these sizes whose difference is at least as large as the seen one; where there
    are more than 99,999 ways, of so many random ones and the seen one. Groups without a value, and values that are not finite, raise
    `UserError`.

    Example, in which 2 of the 20 ways are as extreme:
        >>> of_two_groups([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
        0.1
    """
    from scipy import stats

    a, b = as_floats(a), as_floats(b)
    if a.ndim != 1 or b.ndim != 1:
        raise UserError(f"two groups are numbers in a row, not the shapes {list(a.shape)} and {list(b.shape)}")
    if not len(a) or not len(b):
        raise UserError("a group has no value: there is nothing to compare")
    both = np.concatenate([a, b])
    if not np.isfinite(both).all():
        raise UserError("a group has a value that is not finite")
    if np.ptp(both) == 0:
        return 1.0
    both = (both - both.mean()) / abs(both).max()
    a, b = np.split(both, [len(a)])

    def apart(one: np.ndarray, other: np.ndarray, axis: int = -1) -> np.ndarray:
        # Rounded, not the values: what moves these makes equal differences unequal.
        return np.round(abs(one.mean(axis) - other.mean(axis)), 10)

    if min(len(a), len(b)) == 1:  # n ways, of which scipy makes none
        ways = [float(apart(both[[place]], np.delete(both, place))) for place in range(len(both))]
        return float(np.mean(np.array(ways) >= float(apart(a, b))))

    how = {"alternative": "greater", "n_resamples": FLIPS, "rng": generator(0, "two groups"), "batch": 10_000}
    return float(stats.permutation_test((a, b), apart, vectorized=True, **how).pvalue)


def one_number(values: Any) -> bool:
    """Whether all clients have the same, as of one model tested on one test set: one number then, and no sample of clients.

    Of fewer than six nothing is decided anyway.

    Example:
        >>> one_number([0.5] * 6), one_number([0.5] * 5), one_number([0.5] * 5 + [0.6])
        (True, False, False)
    """
    values = np.asarray(values)
    return len(values) > 5 and bool((values == values[0]).all())


def holm(p_values: Any) -> np.ndarray:
    """Holm's step-down adjusted p values [...], NaN stays NaN and counts for nothing.

    The k-th smallest of m becomes max over j <= k of min(1, (m - j + 1) p_(j)): below alpha, the family of tests errs with
    probability alpha at most.

    Example:
        >>> holm([0.01, 0.04, 0.03]).tolist()
        [0.03, 0.06, 0.06]
    """
    p_values = np.asarray(p_values, np.float64)
    adjusted = np.full(p_values.shape, np.nan)
    places = np.flatnonzero(~np.isnan(p_values))
    values = p_values.ravel()[places]
    if ((values < 0) | (values > 1)).any():
        raise UserError("p values lie between 0 and 1")
    order = np.argsort(values, kind="stable")
    steps = np.arange(len(values), 0, -1) * values[order]
    adjusted.ravel()[places[order]] = np.minimum(1.0, np.maximum.accumulate(steps))
    return adjusted


def merged(values: np.ndarray, slack: np.ndarray) -> np.ndarray:
    """`values` [n], of which those that are no further apart than the larger `slack` [n] of two neighbours are made the same.

    Example:
        >>> merged(np.array([0.5, 0.1 + 0.2, 0.3]), np.full(3, 1e-12)).tolist()
        [0.5, 0.3, 0.3]
    """
    order = np.argsort(values, kind="stable")
    ordered, slack = values[order], np.where(np.isfinite(slack), slack, 0.0)[order]
    with np.errstate(invalid="ignore"):  # equal infinities
        first = np.append(True, np.diff(ordered) > np.maximum(slack[1:], slack[:-1]))[: len(values)]
    result = np.empty(len(values), np.float64)
    result[order] = ordered[first][np.cumsum(first) - 1]
    return result


def _student(difference: np.ndarray) -> float:
    from scipy import stats

    if not difference.any():
        return 1.0
    return float("nan") if len(difference) < 2 else float(stats.ttest_1samp(difference, 0.0).pvalue)


def _sign_flips(difference: np.ndarray) -> float:
    """All patterns, or random ones among which the seen one counts, so that p is never 0 (Phipson and Smyth 2010)."""
    kept = difference[difference != 0]
    total = float(kept.sum())
    if not len(kept):
        return 1.0
    least = abs(total) - 1e-9 * float(abs(kept).sum())  # sums that are equal but for rounding count as equal
    if len(kept) <= EXACT_PAIRS:
        return _share_of_patterns(kept, least)
    rng, rows = generator(0, "sign flips"), max(1, 2**22 // len(kept))
    extreme = 1
    for start in range(0, FLIPS, rows):
        patterns = rng.integers(0, 2, (min(rows, FLIPS - start), len(kept)), dtype=np.int8)
        extreme += int((abs(2 * (patterns @ kept) - total) >= least).sum())
    return extreme / (FLIPS + 1)


def _share_of_patterns(values: np.ndarray, least: float) -> float:
    """Of the 2^n sums of +-values those that are `least` or more from zero: sums of one half, looked up among those of the other.

    With a sum each of its pattern's opposite is counted, too, so that one side of zero is enough.
    """
    if least <= 0:
        return 1.0
    one, other = (_signed_sums(half) for half in np.array_split(values, 2))
    other.sort()
    above = len(other) - np.searchsorted(other, least - one)
    return float(2 * above.sum() / 2 ** len(values))


def _signed_sums(values: np.ndarray) -> np.ndarray:
    """The sums [2^n] of all patterns of signs of `values` [n]."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums - value, sums + value])
    return sums
