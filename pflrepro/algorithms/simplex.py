"""The probability simplex: convex quadratic programmes over it and projections onto it, solved exactly on the host."""

from __future__ import annotations

import numpy as np

RIDGE = 1e-10  # relative to the mean diagonal: makes the solution unique where the matrix is singular


def minimise(matrix: np.ndarray) -> np.ndarray:
    """argmin a' A a over a >= 0, sum(a) = 1, for a symmetric positive semi-definite A [m, m]; float64 [m].

    With A = L L', the solution is x / sum(x), x = argmin ||L' x - L^-1 1||^2 over x >= 0: both problems ask that A x be
    constant where x > 0 and no smaller elsewhere. An active-set method finds it in finitely many steps. Where several
    solutions exist, the shortest is taken (all equal for A = 0, and for an A that is not finite), by a ridge of 1e-10 times the mean
    diagonal.
    """
    from scipy.linalg import solve_triangular  # half a second that every command would take, as it looks at all methods
    from scipy.optimize import nnls

    matrix = np.asarray(matrix, dtype=np.float64)
    scale = float(np.trace(matrix)) / len(matrix)
    known = scale > 0 and np.isfinite(matrix).all()
    scaled = matrix / scale if known else np.zeros_like(matrix)
    lower = np.linalg.cholesky(scaled + RIDGE * np.eye(len(matrix)))
    x, _ = nnls(lower.T, solve_triangular(lower, np.ones(len(matrix)), lower=True))
    return x / x.sum()


def project(point: np.ndarray, total: float = 1.0) -> np.ndarray:
    """argmin |a - v| over a >= 0, sum(a) = total, for v [m]; float64 [m].

    With v sorted descending into u: theta = (u_1 + ... + u_r - total) / r for the largest r whose u_r exceeds that theta,
    a = max(v - theta, 0). Zeros for a total of 0; not-a-number where v holds what is not finite.
    """
    point = np.asarray(point, dtype=np.float64)
    if not np.isfinite(point).all():
        return np.full_like(point, np.nan)
    if total <= 0:
        return np.zeros_like(point)
    point = point - point.max()  # the projection does not feel it, and nothing cancels
    ordered = np.sort(point)[::-1]
    thetas = (np.cumsum(ordered) - total) / np.arange(1, len(point) + 1)
    theta = thetas[np.flatnonzero(ordered > thetas)[-1]]
    return np.maximum(point - theta, 0)
