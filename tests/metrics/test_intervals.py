"""Intervals against closed forms, plain Python, and their coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from pflrepro.errors import UserError
from pflrepro.metrics.intervals import (
    bootstrap,
    over_seeds,
    over_weighted_clients,
    t_interval,
)
from pflrepro.randomness import generator

RNG = np.random.default_rng(0)
VALUES = RNG.normal(0.7, 0.05, 30)
SAMPLES = RNG.integers(5, 200, 40)
CORRECT = RNG.binomial(SAMPLES, RNG.uniform(0.4, 0.9, 40), size=40)


def test_the_mean_s_interval_is_near_the_normal_one() -> None:
    found = bootstrap(VALUES)
    error = VALUES.std(ddof=1) / math.sqrt(len(VALUES))
    assert found.value == pytest.approx(VALUES.mean())
    assert found.low == pytest.approx(VALUES.mean() - 1.96 * error, abs=0.15 * error)
    assert found.high == pytest.approx(VALUES.mean() + 1.96 * error, abs=0.15 * error)
    assert (found.n, found.method) == (30, "percentile")


def test_percentile_in_plain_python() -> None:
    """The quantiles of means of resamples: with other draws, equal up to their noise."""
    draws = generator(1, "test")
    means = [draws.choice(VALUES, len(VALUES)).mean() for _ in range(9999)]
    found = bootstrap(VALUES)
    assert [found.low, found.high] == pytest.approx(np.quantile(means, [0.025, 0.975]), abs=6e-4)


def test_the_same_values_give_the_same_interval() -> None:
    assert bootstrap(VALUES) == bootstrap(VALUES)


def test_clients_are_resampled_with_their_samples() -> None:
    """Shares weighted by samples are the pooled accuracy; what is no share is resampled alike."""
    pooled = over_weighted_clients(CORRECT / SAMPLES, SAMPLES)
    assert pooled.value == pytest.approx(CORRECT.sum() / SAMPLES.sum())
    draws = generator(1, "test")
    chosen = draws.integers(0, 40, (9999, 40))
    ratios = CORRECT[chosen].sum(1) / SAMPLES[chosen].sum(1)
    assert [pooled.low, pooled.high] == pytest.approx(np.quantile(ratios, [0.025, 0.975]), abs=4e-3) and pooled.n == 40
    moved = over_weighted_clients(CORRECT / SAMPLES - 5.0, SAMPLES)
    assert [moved.low, moved.high] == pytest.approx([pooled.low - 5.0, pooled.high - 5.0])


def test_student_s_interval_is_scipy_s() -> None:
    found = t_interval(VALUES[:4])
    wanted = stats.ttest_1samp(VALUES[:4], 0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))


def test_over_seeds_takes_student_s_interval_below_ten() -> None:
    assert over_seeds(VALUES[:9]) == t_interval(VALUES[:9])
    assert over_seeds(VALUES[:10]) == bootstrap(VALUES[:10])
    assert math.isnan(over_seeds(VALUES[:1]).low)


def test_few_seeds_are_too_narrow_for_the_bootstrap_and_not_for_student() -> None:
    """Of 400 triples of normal numbers: the range itself covers the mean in 3 of 4, Student's interval in 19 of 20."""
    triples = np.random.default_rng(5).normal(size=(400, 3))
    boot = np.mean([(found := bootstrap(t)).low <= 0 <= found.high for t in triples[:100]])
    student = np.mean([(found := t_interval(t)).low <= 0 <= found.high for t in triples])
    assert boot < 0.85 and 0.92 < student < 0.98


def test_one_value_has_no_interval_and_equal_ones_have_a_point() -> None:
    one = [
        bootstrap([0.5]),
        t_interval([0.5]),
        over_weighted_clients([0.5], [10]),
    ]
    assert all(found.value == 0.5 and math.isnan(found.low) and math.isnan(found.high) for found in one)
    for same in (bootstrap([0.1, 0.1, 0.1]), over_weighted_clients([0.1, 0.1], [10, 30])):
        assert same.low == same.value == same.high == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bootstrap([]), "one number or more"),
        (lambda: bootstrap([0.1, math.nan]), "1 of 2 are none"),
        (lambda: over_weighted_clients([1.0, 2.0], [1.0, 0.0]), "2 values need as many positive weights, not"),
        (lambda: over_weighted_clients([1.0, 2.0], [1.0]), "2 values need as many positive weights, not"),
    ],
)
def test_what_is_no_sample_is_refused(call, message: str) -> None:
    with pytest.raises(UserError, match=message):
        call()
