"""Convex quadratic programmes over the probability simplex, solved exactly on the host."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

RIDGE = 1e-10  # relative to the mean diagonal: makes the solution unique where the matrix is singular


def minimise(matrix: np.ndarray) -> np.ndarray:
    """argmin a' A a over a >= 0, sum(a) = 1, for a symmetric positive semi-definite A [m, m]; float64 [m].

    With A = L L', the solution is x / sum(x), x = argmin ||L' x - L^-1 1||^2 over x >= 0: both problems ask that A x be
    constant where x > 0 and no smaller elsewhere. An active-set method finds it in finitely many steps. Where several
    solutions exist, the shortest is taken (all equal for A = 0), by a ridge of 1e-10 times the mean diagonal.
    """
    matrix = np.asarray(matrix, dtype=np.float64)
    scale = float(np.trace(matrix)) / len(matrix)
    scaled = matrix / scale if scale > 0 else np.zeros_like(matrix)
    lower = np.linalg.cholesky(scaled + RIDGE * np.eye(len(matrix)))
    x, _ = nnls(lower.T, solve_triangular(lower, np.ones(len(matrix)), lower=True))
    return x / x.sum()
