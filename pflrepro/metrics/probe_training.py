"""The probe of a codelength and its training: many narrow ones as one stacked network, a wide one alone, by written-out derivatives.

Stacked, `torch.func.vmap` maps the probe over all of them and one Adam, which works number by number, steps them all. A probe that is
wide enough to keep a core busy gains nothing from company there; on a CPU it is trained alone, by `pflrepro.products`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import vmap

from pflrepro.algorithms.contract import one_hot
from pflrepro.errors import UserError, check_range, check_word
from pflrepro.models.initialise import seeded
from pflrepro.models.split import parameters_of
from pflrepro.products import product
from pflrepro.randomness import generator
from pflrepro.trees import Tree, stack

BLOCK = 64  # steps whose batches are drawn at once


@dataclass(frozen=True)
class Probe:
    """The probe and how it is trained; the defaults are those of the library that DBE used (reprieve) [DBE].

    Attributes:
        hidden: widths of the hidden layers, ReLU between; the last layer gives C logits. Weights start as PyTorch's [?].
        lr, steps, batch: Adam (0.9, 0.999, 1e-8); n samples if there are fewer than `batch`. No early stopping.
        sizes, smallest: points of the curve, from `smallest` to the pool's size M, evenly spaced in the logarithm, rounded up.
        seeds: probes a point.
        validation: share of the set kept to measure the loss on, its last samples, rounded up.
        draws: `without` (the library's sequential mode): a random subset of n, then reshuffled passes, the incomplete batch of a pass
            kept [inferred]. `with` (its vectorised mode, the library's default): n draws with replacement, in one fixed order
            again and again, always `batch` of them.
    """

    hidden: tuple[int, ...] = (512, 512)
    lr: float = 1e-4
    steps: int = 4000
    batch: int = 256
    sizes: int = 10
    smallest: int = 10
    seeds: int = 5
    validation: float = 0.1
    draws: str = "without"

    def __post_init__(self) -> None:
        for name, low in (("steps", 0), ("batch", 1), ("sizes", 1), ("smallest", 1), ("seeds", 1)):
            check_range(f"probe's {name}", getattr(self, name), low, integer=True)
        if not isinstance(self.hidden, (tuple, list)):
            raise UserError(f"probe's hidden widths must be a list of whole numbers, not {self.hidden!r}")
        object.__setattr__(self, "hidden", tuple(self.hidden))  # a key of the cache of weights
        for width in self.hidden:
            check_range("probe's hidden width", width, 1, integer=True)
        check_range("probe's learning rate", self.lr, 0, open_low=True)
        check_range("probe's validation share", self.validation, 0, 1, open_low=True, open_high=True)
        check_word("way to draw the probe's samples", self.draws, ("without", "with"))

    @property
    def least(self) -> int:
        """The fewest samples that a curve can be measured on: `smallest` in the pool, and at least one to validate."""
        n = self.smallest + 1
        while n - self.validating(n) < self.smallest:
            n += 1
        return n

    def validating(self, samples: int) -> int:
        """How many of a set's samples are its validation part: ceil(validation * samples)."""
        return math.ceil(self.validation * samples - 1e-9)


@dataclass(frozen=True)
class Pool:
    """One set in the flat table of all: its rows of the training pool and of the validation part, and its subset sizes."""

    place: int
    pool: np.ndarray
    validation: np.ndarray
    sizes: np.ndarray


@dataclass(frozen=True)
class Job:
    """One probe: seed number `seed`, on `rows` of the flat table (in the order of the draws), `width` samples a step."""

    pool: Pool
    size: int
    seed: int
    rows: np.ndarray
    width: int


@lru_cache(maxsize=16)
def initial(k: int, features: int, classes: int, probe: Probe, seed: int) -> Tree:
    """Fresh weights of probe seed `k`: the same for all sizes and sets, PyTorch's default initialisation, keys `0.weight`...

    float32 on the CPU, whatever PyTorch's default number type and device are: the draws depend on them.
    Kept for the next probe that starts there: not to be changed in place.
    """
    widths = [features, *probe.hidden, classes]

    def build() -> nn.ModuleList:
        layers = (nn.Linear(a, b, device="cpu", dtype=torch.float32) for a, b in itertools.pairwise(widths))
        return nn.ModuleList(layers)

    return parameters_of(seeded(seed, f"probe/{k}/weights", build))


def validation_losses(
    launch: list[Job], flat: Tensor, labels: Tensor, classes: int, probe: Probe, seed: int
) -> list[float]:
    """Trains the probes of a launch side by side; the validation loss of each, in nats."""
    if len(launch) == 1 and flat.device.type == "cpu":
        return [_alone(launch[0], flat, labels, classes, probe, seed)]
    return _stacked(launch, flat, labels, classes, probe, seed)


# ---- one probe by itself -------------------------------------------------------------------------------------------------------
def _alone(job: Job, flat: Tensor, labels: Tensor, classes: int, probe: Probe, seed: int) -> float:
    """The validation loss of one probe."""
    start = initial(job.seed, flat.shape[1], classes, probe, seed).to(flat.dtype)
    layers = range(len(start) // 2)
    # [in, out], as their gradient comes out
    weights = [start[f"{i}.weight"].T.clone(memory_format=torch.contiguous_format) for i in layers]
    biases = [start[f"{i}.bias"].clone() for i in layers]
    optimiser = torch.optim.Adam([*weights, *biases], lr=probe.lr, fused=True)
    last, x, hot = None, flat[:0], flat[:0]
    for rows, share in _feed([job], probe, seed, flat.device):
        if rows is not last:  # full batches are the same in every step
            last, x, hot = rows, flat[rows[0]], one_hot(labels[rows[0]], classes, flat.dtype)
        outputs = _outputs(weights, biases, x)
        error = outputs[-1].softmax(1) - hot
        error *= 1 / len(x) if share is None else share[0, :, None].to(flat.dtype)
        _put_gradients(weights, biases, [x, *outputs], error)
        optimiser.step()
    rows = torch.as_tensor(job.pool.validation)
    return float(F.cross_entropy(_outputs(weights, biases, flat[rows])[-1], labels[rows]))


def _outputs(weights: list[Tensor], biases: list[Tensor], x: Tensor) -> list[Tensor]:
    """The output of each layer for x [B, K]; the last is the logits [B, C]."""
    outputs = []
    for i, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        x = product(x, weight, bias, relu=i < len(weights) - 1)
        outputs.append(x)
    return outputs


def _put_gradients(weights: list[Tensor], biases: list[Tensor], values: list[Tensor], error: Tensor) -> None:
    """Into `grad` of all weights: the derivatives of the loss, whose derivative by the logits is `error` [B, C].

    Behind a layer of values h = ReLU(.) the error of its output is 0 where h is.

    Args:
        values: what each layer read, and the logits.
    """
    for i in reversed(range(len(weights))):
        weights[i].grad, biases[i].grad = product(values[i].T, error), error.sum(0)
        if i:
            # a ReLU's derivative in one pass: `torch.where` takes ten times longer here
            error = torch.ops.aten.threshold_backward(product(error, weights[i].T), values[i], 0)


# ---- many as one stacked network -----------------------------------------------------------------------------------------------
def _logits(params: Tree, x: Tensor) -> Tensor:
    """One probe: x [B, K] -> logits [B, C]; its weights lie [in, out], the order in which their gradient comes out."""
    layers = len(params) // 2
    for i in range(layers):
        x = torch.addmm(params[f"{i}.bias"], x, params[f"{i}.weight"])
        x = F.relu(x) if i < layers - 1 else x
    return x


def _stacked(launch: list[Job], flat: Tensor, labels: Tensor, classes: int, probe: Probe, seed: int) -> list[float]:
    """The validation loss of each probe of a launch."""
    starts = {k: initial(k, flat.shape[1], classes, probe, seed) for k in {job.seed for job in launch}}
    params = stack([starts[job.seed] for job in launch]).to(flat.device, flat.dtype)
    params = params.map(lambda leaf: leaf.mT.contiguous() if leaf.ndim == 3 else leaf)
    leaves = [leaf.requires_grad_() for leaf in params.leaves()]
    # Adam works number by number: on stacked weights it is as many Adams
    optimiser = torch.optim.Adam(leaves, lr=probe.lr, fused=True)
    for rows, weight in _feed(launch, probe, seed, flat.device):
        nll = _nll(params, flat[rows], labels[rows])
        loss = nll.mean(1).sum() if weight is None else (nll * weight).sum()
        # not `autograd.grad`: `backward` gives a gradient the memory order of its weight, which the fused step relies on
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        rows, weight = _padded([job.pool.validation for job in launch], flat.device)
        return (_nll(params, flat[rows], labels[rows]) * weight).sum(1).tolist()


def _nll(params: Tree, x: Tensor, y: Tensor) -> Tensor:
    """Negative log-likelihoods [P, B] of stacked probes."""
    if len(x) == 1:  # a plain matrix product is a third faster than a batch of one
        logits = _logits(params.map(lambda leaf: leaf.squeeze(0)), x[0])
    else:
        logits = vmap(_logits)(params, x).flatten(0, 1)
    return F.cross_entropy(logits, y.flatten(), reduction="none").view(y.shape)


# ---- their batches -------------------------------------------------------------------------------------------------------------
def _padded(rows: Sequence[np.ndarray], device: torch.device) -> tuple[Tensor, Tensor]:
    """(row numbers [P, B], weights [P, B] float64: 1 / length on true rows, 0 on padding)."""
    width = max(len(each) for each in rows)
    index = np.zeros((len(rows), width), np.int64)
    weight = np.zeros((len(rows), width))
    for i, each in enumerate(rows):
        index[i, : len(each)], weight[i, : len(each)] = each, 1.0 / len(each)
    return torch.as_tensor(index, device=device), torch.as_tensor(weight, device=device)


def _feed(launch: list[Job], probe: Probe, seed: int, device: torch.device) -> Iterator[tuple[Tensor, Tensor | None]]:
    """(row numbers [P, B], weights [P, B] or None for plain means) of each step."""
    if probe.draws == "without" and all(job.size <= probe.batch for job in launch):
        rows, weight = _padded([job.rows for job in launch], device)  # full batches: their order does not matter
        weight = weight if len({job.size for job in launch}) > 1 else None
        for _ in range(probe.steps):
            yield rows, weight
        return
    streams = [orders(job.rows, job.size, job.seed, job.pool.place, probe, seed) for job in launch]
    for start in range(0, probe.steps, BLOCK):
        count = min(BLOCK, probe.steps - start)
        rows, weight = _padded([next(stream) for _ in range(count) for stream in streams], device)
        for step in range(count):
            part = slice(step * len(launch), (step + 1) * len(launch))
            yield rows[part], weight[part]


def orders(rows: np.ndarray, size: int, k: int, place: int, probe: Probe, seed: int) -> Iterator[np.ndarray]:
    """The batches of one probe, without end: arrays of at most `probe.batch` of `rows`."""
    if probe.draws == "with":
        start = 0
        while True:
            yield rows[(start + np.arange(probe.batch)) % size]
            start = (start + probe.batch) % size
    draw = generator(seed, f"probe/{k}/order", size, place)
    while True:
        order = draw.permutation(rows)
        for start in range(0, size, probe.batch):
            yield order[start : start + probe.batch]
