"""What training costs: numbers sent and time, in the counts and units of the papers' cost tables.

What a method sends and computes is counted by `pflrepro.simulation.cost.cost_of`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pflrepro.errors import UserError, check_range
from pflrepro.metrics.accuracy import column, pooled
from pflrepro.metrics.curves import iterations_to_convergence


# ---- numbers sent ------------------------------------------------------------------------------------------------------------
def gaussian_size(classes: int, features: int) -> int:
    """C D + D (D + 1) / 2: class means and the upper triangle of one covariance, what pFedFDA needs to send [FDA Table 8].

    (Our engine sends the whole matrix, C D + D^2 numbers: `cost_of`.)

    Example:
        >>> gaussian_size(classes=62, features=128)
        16192
    """
    d = _whole("features", features)
    return _whole("classes", classes) * d + d * (d + 1) // 2


def gaussian_overhead(backbone: int, linear: int, gaussian: int) -> float:
    """(gaussian - linear) / (backbone + linear), in percent: what pFedFDA sends more than FedAvg [FDA Table 8, 100 times].

    Example:
        >>> round(gaussian_overhead(115776, 7998, 16192), 3)
        6.62
    """
    return 100.0 * (gaussian - linear) / check_range("parameters of backbone and classifier", backbone + linear, 1)


# ---- time --------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Timing:
    """The time of a run, in seconds on the machine that ran it.

    Attributes:
        iteration: mean time of a round, from training to tests.
        evaluation: the part of it that tests take.
        iterations: rounds to convergence, see `curves.iterations_to_convergence`.
        total: iterations * iteration.
    """

    iteration: float
    evaluation: float
    iterations: int
    total: float


def rounds_of_time(history: Mapping[str, Any]) -> np.ndarray:
    """The rounds after which a run was tested, 0 before any training; `UserError` if nothing was trained: it has no time a round."""
    rounds = column(history, "round")
    if len(rounds) < 2:
        raise UserError("a run without a round of training has no time a round")
    return rounds


def timing(history: Mapping[str, Any], evaluation: bool = True) -> Timing:
    """Time a round, rounds to convergence and their product, from a run's history [DBE Table 6c, in minutes there; LIB].

    The rounds to the first evaluation after the untrained one are left out as warm-up [LIB: round 0], if others remain. Several seeds
    of one launch share its time, so that compared methods should be run alike. `UserError` if nothing was trained.

    Args:
        evaluation: whether the tests of a round belong to its time [LIB: they do]. FedBR's Table 7 (time a round without
            communication) is `iteration` with evaluation=False.

    Example, whose first round is warm-up:
        >>> run = {"round": [0, 1, 2], "seconds": [0, 9, 4], "seconds_evaluation": [2, 2, 2]}
        >>> run |= {"correct": [[1], [5], [7]], "test_samples": [10]}
        >>> timing(run)
        Timing(iteration=6.0, evaluation=2.0, iterations=2, total=12.0)
    """
    rounds = rounds_of_time(history)
    train, test = (column(history, name).astype(np.float64) for name in ("seconds", "seconds_evaluation"))
    first = min(2, len(rounds) - 1)
    count = float(rounds[-1] - rounds[first - 1])
    tests = float(test[first:].sum()) / count if evaluation else 0.0
    each = float(train[first:].sum()) / count + tests
    iterations = iterations_to_convergence(pooled(history), rounds)
    return Timing(each, tests, iterations, iterations * each)


def _whole(name: str, value: int) -> int:
    return check_range(f"number of {name}", value, 1, integer=True)
