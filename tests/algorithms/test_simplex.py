"""Euclidean projection onto the simplex."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflrepro.algorithms.simplex import minimise, project

POINTS = st.lists(st.floats(-50, 50), min_size=1, max_size=8).map(np.array)
TOTALS = st.floats(1e-3, 10)


@pytest.mark.parametrize(
    ("point", "total", "expected"),
    [
        ([0.5, 0.6, 0.7], 1.0, [7 / 30, 10 / 30, 13 / 30]),  # theta = 0.8 / 3
        ([1.2, 0.1, -3.0], 1.0, [1.0, 0.0, 0.0]),  # theta = 0.2
        ([1.2, 0.9, -3.0], 1.0, [0.65, 0.35, 0.0]),  # theta = 1.1 / 2
        ([0.0, 0.0], 3.0, [1.5, 1.5]),
        ([-7.0], 1.0, [1.0]),
        ([1e15, 0.0], 1.0, [1.0, 0.0]),
        ([0.3, 0.2], 0.0, [0.0, 0.0]),
    ],
)
def test_by_hand(point: list[float], total: float, expected: list[float]) -> None:
    np.testing.assert_allclose(project(np.array(point), total), expected, atol=1e-15)


@given(POINTS, TOTALS)
def test_optimality(point: np.ndarray, total: float) -> None:
    """a >= 0, sum(a) = total; v - a is one number theta where a > 0, and v <= theta where a = 0."""
    a = project(point, total)
    assert (a >= 0).all() and a.sum() == pytest.approx(total, rel=1e-12)
    theta = (point - a)[a > 0]
    np.testing.assert_allclose(theta, theta[0], atol=1e-12)
    assert (point[a == 0] <= theta[0] + 1e-12).all()


@given(POINTS, TOTALS, st.floats(-1e3, 1e3), st.randoms(use_true_random=False))
def test_shifts_orders_and_points_of_the_simplex(point: np.ndarray, total: float, shift: float, random) -> None:
    a = project(point, total)
    np.testing.assert_allclose(project(a, total), a, atol=1e-12)
    np.testing.assert_allclose(project(point + shift, total), a, atol=1e-11)
    order = list(range(len(point)))
    random.shuffle(order)
    np.testing.assert_allclose(project(point[order], total), a[order], atol=1e-12)


def test_a_broken_run_stays_a_broken_run() -> None:
    assert np.isnan(project(np.array([0.5, np.nan]))).all()
    for broken in (np.inf, np.nan):
        assert minimise(np.array([[broken, 0.0], [0.0, 1.0]])).tolist() == pytest.approx([0.5, 0.5])
