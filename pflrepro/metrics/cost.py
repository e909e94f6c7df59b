"""What training costs: numbers sent, time, floating-point operations, memory; the cost tables of the papers.

What a method sends and computes is counted by `pflrepro.simulation.cost.cost_of`; here are the papers' own counts and units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from loky import ProcessPoolExecutor

from pflrepro.errors import UserError, check_range
from pflrepro.markup import BriefArrays
from pflrepro.metrics.accuracy import column, pooled
from pflrepro.metrics.curves import iterations_to_convergence

if TYPE_CHECKING:
    from pflrepro.simulation.simulation import Simulation


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


@dataclass(frozen=True, eq=False, repr=False)
class TimeShares(BriefArrays):
    """Where a local iteration of pFedFDA spends its time, in percent, one number a client [N] (its Algorithm 1, lines 7, 8, 9).

    Attributes:
        network: passes through the network.
        estimation: means and covariance.
        interpolation: the search for beta, mixing included.
    """

    network: np.ndarray
    estimation: np.ndarray
    interpolation: np.ndarray


def time_shares(
    simulation: Simulation, index: int = 0, clients: Sequence[int] | None = None, repeat: int = 3
) -> TimeShares:
    """Time the next local training of pFedFDA's clients, on copies [FDA Table 9]; `UserError` for another method.

    Each client is measured `repeat` times, its median shares count, after one training that warms up.

    Example:
        >>> import pflrepro
        >>> experiment = pflrepro.Experiment.for_dataset("pfedfda", "digits", clients=3, rounds=2)
        >>> simulation = pflrepro.simulate(experiment, rounds=1, workers=1)
        >>> shares = time_shares(simulation, clients=[0], repeat=1)
        >>> round(float(shares.network[0] + shares.estimation[0] + shares.interpolation[0]), 6)
        100.0
    """
    from pflrepro.metrics.effort import shares_of_time

    check_range("repeat", repeat, 1, integer=True)
    shares_of_time(simulation, index, None if clients is None else list(clients)[:1])
    measured = np.array([shares_of_time(simulation, index, clients) for _ in range(repeat)])
    middle = np.median(measured, axis=0)
    return TimeShares(*(100.0 * middle / middle.sum(0)))


# ---- operations and memory ---------------------------------------------------------------------------------------------------
def count_flops(function: Callable[..., Any], *arguments: Any) -> int:
    """Floating-point operations of `function(*arguments)`: matrix products, convolutions and attention (`pflrepro.operations`).

    A multiplication and an addition are two. Other operations (ReLU, sums, updates) are not counted.

    Example:
        >>> import torch
        >>> count_flops(torch.matmul, torch.ones(2, 3), torch.ones(3, 5))
        60
    """
    from pflrepro.operations import Operations

    with Operations() as counted:
        function(*arguments)
    return counted.operations


def training_flops(simulation: Simulation, index: int = 0, clients: Sequence[int] | None = None) -> np.ndarray:
    """Floating-point operations of each client's local training in the next round, int64 [N] or of `clients`; run on copies.

    Counted as `count_flops` does, for the unpadded batches of the loop backend; without tests and without the server's work.

    Example, 64 inputs to 32 to 10 outputs, forward and two derivatives but that of the inputs:
        >>> import pflrepro
        >>> experiment = pflrepro.Experiment.for_dataset("fedavg", "digits", clients=3, rounds=2, model="mlp", drop_last=False)
        >>> simulation = pflrepro.simulate(experiment, rounds=1, workers=1)
        >>> samples = simulation.federation.sizes("train")[1]
        >>> int(training_flops(simulation, clients=[1])[0] / samples) == 2 * (2 * 64 * 32 + 3 * 32 * 10)
        True
    """
    from pflrepro.metrics.effort import each_training

    return np.array(
        [count_flops(train) for train in each_training(simulation, index, clients)],
        np.int64,
    )


@dataclass(frozen=True)
class PeakMemory:
    """What a function gave, and the memory that it needed, in bytes.

    Attributes:
        result: what the function gave.
        peak: the largest memory while it ran, of its process or on the GPU.
        before: what was taken when it started.
    """

    result: Any
    peak: int
    before: int

    @property
    def increase(self) -> int:
        """peak - before, in bytes: what the function needed besides the memory that the process had."""
        return self.peak - self.before


def peak_memory(function: Callable[..., Any], *arguments: Any) -> PeakMemory:
    """Run `function(*arguments)` in a fresh process and tell its peak memory; on the host, Linux only (`UserError` elsewhere).

    `before` is taken when the arguments have arrived, and the kernel's high-water mark (VmHWM) starts anew there. What the function
    imports counts; processes that it starts do not. Arguments and result travel between the processes.

    Example:
        >>> import numpy as np
        >>> peak_memory(np.ones, 5_000_000).increase > 39e6
        True
    """
    if not _STATUS.exists():
        raise UserError("the peak memory of a process is read from /proc, which only Linux has")
    with ProcessPoolExecutor(max_workers=1) as pool:
        return pool.submit(_measured, function, arguments).result()


def peak_device_memory(function: Callable[..., Any], *arguments: Any) -> PeakMemory:
    """Run `function(*arguments)` here and tell the most memory that its tensors took on the current GPU, in bytes.

    From PyTorch's own account: tensors and its libraries' work space, without the driver's context and without what its cache holds
    in reserve. `UserError` without a GPU.
    """
    import torch

    if not torch.cuda.is_available():
        raise UserError("there is no CUDA device; the memory of a process on the host is `peak_memory`")
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = function(*arguments)
    torch.cuda.synchronize()
    return PeakMemory(result, torch.cuda.max_memory_allocated(), before)


_STATUS = Path("/proc/self/status")


def _measured(function: Callable[..., Any], arguments: tuple[Any, ...]) -> PeakMemory:
    _STATUS.with_name("clear_refs").write_text("5")  # the high-water mark falls to what is resident now (proc(5))
    before = _resident("VmRSS:")
    return PeakMemory(function(*arguments), _resident("VmHWM:"), before)


def _resident(entry: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(entry))
    return 1024 * int(line.split()[1])


def _whole(name: str, value: int) -> int:
    return check_range(f"number of {name}", value, 1, integer=True)
