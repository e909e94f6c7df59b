"""Minimum description length of features: the online codelength of a probe, many probes trained together.

The procedure is that of the library that DBE used, reprieve [DBE]; whose samples are described is not said [?].

All probes of a curve (subset sizes x seeds x clients) are trained together, cut into launches of similar batch widths that fit `memory`
(`pflrepro.metrics.probe_training`); on a CPU launches are shared out to the cores.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pflrepro.cores import usable_cores
from pflrepro.errors import UserError, as_floats, check_range, check_word
from pflrepro.markup import BriefArrays
from pflrepro.metrics.probe_training import Job, Pool, Probe, validation_losses
from pflrepro.metrics.sets import ROUNDING, LabelledSet, check_set
from pflrepro.randomness import generator

PROBE = Probe()  # the papers'
NATS_A_BIT = math.log(2.0)
CPU_MEMORY = 2**23  # bytes a launch on a CPU: wide probes one by one, narrow ones by the dozen (measured)
NARROWEST = 0.6  # of the widest batch of a launch: narrower ones would mostly be padding


@dataclass(frozen=True, repr=False)
class Curve(BriefArrays):
    """A learning curve of probes.

    Attributes:
        sizes: int64 [n], ascending, the last is M.
        losses: float64 [seeds, n], mean negative log-likelihood of the validation part in nats.
        samples: of the whole set.
    """

    sizes: np.ndarray
    losses: np.ndarray
    samples: int

    def codelength(self, unit: str = "nats") -> float:
        """The description length: `online_codelength` of the losses' mean over seeds; `unit` nats or bits (nats / log 2).

        The papers' tables print "bits" without a visible conversion: their values are taken for nats [inferred].

        Example:
            >>> Curve(np.array([10, 20]), np.array([[2.0, 0.5], [2.0, 1.5]]), samples=23).codelength()
            30.0
        """
        check_word("unit of a codelength", unit, ("nats", "bits"))
        nats = online_codelength(self.sizes, self.losses.mean(0))
        return nats / NATS_A_BIT if unit == "bits" else nats


def online_codelength(sizes: Sequence[int] | np.ndarray, losses: Sequence[float] | np.ndarray) -> float:
    """MDL = sum_i (n_i - n_{i-1}) L(n_i), n_0 = 0: the right end-point rule of reprieve, in the unit of the losses [DBE].

    `UserError` unless there is one loss a size, one at least, and sizes are positive and ascend.

    Example:
        >>> online_codelength([10, 20, 40], [2.0, 1.0, 0.5])
        40.0
    """
    sizes, losses = as_floats(sizes, "sizes"), as_floats(losses, "losses")
    if sizes.ndim != 1 or sizes.shape != losses.shape or not len(sizes):
        raise UserError(
            f"a codelength needs one loss a size, one at least, not the shapes {list(losses.shape)}, {list(sizes.shape)}"
        )
    steps = np.diff(sizes, prepend=0.0)
    if not (np.isfinite(sizes).all() and (steps > 0).all()):
        raise UserError(f"a codelength's sizes must be positive and ascend, not {sizes.tolist()}")
    return float((steps * losses).sum())


def curve_sizes(pool: int, probe: Probe = PROBE) -> np.ndarray:
    """The curve's subset sizes: int64, from `smallest` to `pool`, log-spaced, rounded up; each once (doubles add no length).

    `UserError` for a pool of fewer than `smallest` samples.

    Example:
        >>> curve_sizes(787).tolist()
        [10, 17, 27, 43, 70, 114, 184, 299, 485, 787]
    """
    number = pool.item() if getattr(pool, "ndim", None) == 0 else pool  # numpy's and PyTorch's numbers are numbers too
    pool = check_range("samples in the pool", number, probe.smallest, integer=True)
    spaced = np.geomspace(probe.smallest, pool, probe.sizes) if probe.sizes > 1 else np.array([float(pool)])
    return np.unique(np.ceil(spaced - 1e-9).astype(np.int64))


def summarise(curves: Sequence[Curve | None], how: str = "mean", unit: str = "nats") -> float:
    """One number of the clients' curves, NaN if there is none; a client without a curve is left out.

    Args:
        how: `mean` over clients (the recommended reading), `sum`, or `weighted` by the clients' samples [?].

    Example:
        >>> short, long = (Curve(np.array([10]), np.array([[loss]]), n) for loss, n in ((1.0, 12), (2.0, 36)))
        >>> [summarise([short, None, long], how) for how in ("mean", "sum", "weighted")]
        [15.0, 30.0, 17.5]
    """
    check_word("summary of codelengths", how, ("mean", "sum", "weighted"))
    there = [curve for curve in curves if curve is not None]
    if not there:
        return float("nan")
    lengths = np.array([curve.codelength(unit) for curve in there])
    if how == "sum":
        return float(lengths.sum())
    weights = np.array([curve.samples for curve in there]) if how == "weighted" else None
    return float(np.average(lengths, weights=weights))


# ---- what is trained -----------------------------------------------------------------------------------------------------------
def curves(sets: Sequence[LabelledSet], classes: int, probe: Probe = PROBE, *, seed: int = 0) -> list[Curve | None]:
    """The learning curve of each (features [n, ...], labels [n]) of `sets`, on the features' device; None where n < `probe.least`.

    Features are flattened, and whitened with one mean and one standard deviation over all numbers of the pool (1 where it is 0
    or rounding of the mean: constant features give the codelength of the labels alone). The number type is the features', float32
    at least. A launch takes a cache's worth on a CPU, where threads share the launches, and a quarter of what is free on a GPU; that
    changes no number beyond rounding.

    Args:
        classes: C, all classes; a set may lack some, or have one only.
        seed: keys subsets, orders and initial weights.

    Raises `UserError` for NaN or infinite features, for features of unequal length or of none, and for labels outside 0..C-1.

    Example, untrained probes on a set that is large enough and on one that is not:
        >>> sets = [(torch.ones(n, 3), torch.zeros(n, dtype=torch.int64)) for n in (40, 5)]
        >>> found, none = curves(sets, classes=2, probe=Probe(hidden=(4,), steps=0, sizes=3, seeds=2))
        >>> found.sizes.tolist(), found.losses.shape, none
        ([10, 19, 36], (2, 3), None)
    """
    check_range("classes", classes, 1, integer=True)
    flat, labels, pools = _flatten(sets, classes, probe)
    if not pools:
        return [None] * len(sets)
    jobs = [_job(pool, int(n), k, probe, seed) for pool in pools for n in pool.sizes for k in range(probe.seeds)]
    budget = CPU_MEMORY if flat.device.type == "cpu" else torch.cuda.mem_get_info(flat.device)[0] // 4
    launches = list(_launches(jobs, flat, probe, classes, budget))

    def work(launch: list[Job]) -> list[float]:
        return validation_losses(launch, flat, labels, classes, probe, seed)

    found = _each(work, launches, flat.device)
    measured = {
        (job.pool.place, job.size, job.seed): loss
        for launch, losses in zip(launches, found, strict=True)
        for job, loss in zip(launch, losses, strict=True)
    }
    result: list[Curve | None] = [None] * len(sets)
    for pool in pools:
        rows = [[measured[pool.place, int(n), k] for n in pool.sizes] for k in range(probe.seeds)]
        result[pool.place] = Curve(pool.sizes, np.array(rows), len(pool.pool) + len(pool.validation))
    return result


def _flatten(sets: Sequence[LabelledSet], classes: int, probe: Probe) -> tuple[Tensor, Tensor, list[Pool]]:
    """(whitened features [total, K], labels [total], where each set that is large enough lies in them)."""
    checked = {place: check_set(each, classes, f"set {place}") for place, each in enumerate(sets)}
    kept = {place: pair for place, pair in checked.items() if len(pair[1]) >= probe.least}
    if not kept:
        return torch.empty(0), torch.empty(0, dtype=torch.int64), []
    features, labels = zip(*kept.values(), strict=True)
    if len({x.shape[1] for x in features}) > 1:
        raise UserError("the sets' features must have one length, not " + ", ".join(str(x.shape[1]) for x in features))
    if not features[0].shape[1]:
        raise UserError("the sets' features must have one number at least, not 0")
    # One table, whitened in place: wide features (conv layers) are what takes the memory here.
    flat = torch.cat(features)
    pools, start = [], 0
    for place, (x, y) in kept.items():
        m = len(y) - probe.validating(len(y))
        mean, std = x[:m].mean(), x[:m].std(correction=0)
        rounding = ROUNDING * torch.finfo(x.dtype).eps * mean.abs()
        constant = std <= rounding
        white = flat[start : start + len(y)].sub_(mean).div_(torch.where(constant, 1.0, std))
        if constant:
            white.masked_fill_(white.abs() <= rounding, 0.0)
        rows = np.arange(start, start + len(y))
        pools.append(Pool(place, rows[:m], rows[m:], curve_sizes(m, probe)))
        start += len(y)
    return flat, torch.cat(labels), pools


def _job(pool: Pool, size: int, k: int, probe: Probe, seed: int) -> Job:
    draw = generator(seed, f"probe/{k}/subset/{probe.draws}", size, pool.place)
    rows = draw.choice(pool.pool, size, replace=probe.draws == "with")
    width = min(size, probe.batch) if probe.draws == "without" else probe.batch
    return Job(pool, size, k, rows, width)


def _launches(jobs: list[Job], flat: Tensor, probe: Probe, classes: int, memory: int) -> Iterator[list[Job]]:
    """The jobs in launches, widest batches first; a launch holds similar widths and fits `memory`, one job at least."""
    widths = [flat.shape[1], *probe.hidden, classes]
    weights = sum((a + 1) * b for a, b in itertools.pairwise(widths))
    launch: list[Job] = []
    for job in sorted(jobs, key=lambda job: -job.width):
        widest = launch[0].width if launch else job.width
        bytes_each = (4 * weights + 3 * widest * sum(widths)) * flat.element_size()
        if launch and (bytes_each * (len(launch) + 1) > memory or job.width < NARROWEST * widest):
            yield launch
            launch = []
        launch.append(job)
    yield launch


def _each(
    work: Callable[[list[Job]], list[float]], launches: list[list[Job]], device: torch.device
) -> list[list[float]]:
    """`work` for every launch; on a CPU by several threads, each with one arithmetic thread of its own."""
    if device.type != "cpu":
        return [work(launch) for launch in launches]
    count = min(usable_cores(), len(launches))
    before = torch.get_num_threads()

    def alone(launch: list[Job]) -> list[float]:
        torch.set_num_threads(1)  # belongs to the thread that calls it
        return work(launch)

    try:
        if count == 1:
            return [alone(launch) for launch in launches]
        with ThreadPoolExecutor(count) as threads:
            return list(threads.map(alone, launches))
    finally:
        torch.set_num_threads(before)
