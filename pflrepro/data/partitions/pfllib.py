"""The partitions of DBE and GPFL, draw by draw as their code made them (numpy's legacy generator, on the host).

Given the pooled labels in the official order (training file, then test file) and seed 1, the result is what those papers trained
on, sample by sample and in order. Everything here is fixed by that: neither the order of the draws nor the arithmetic may change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from pflrepro.data.partitions.dirichlet import Dirichlet
from pflrepro.data.partitions.kind import Data, OwnSplit, Sides, too_small, train_size
from pflrepro.data.partitions.pathological import Pathological
from pflrepro.errors import UserError

DRAWS = 1000
Parts = list[np.ndarray]


@dataclass(frozen=True, repr=False)
class PapersDirichlet(OwnSplit, Dirichlet):
    """Practical label skew as DBE and GPFL drew it, sample by sample (seed 1)."""

    kind: ClassVar[str] = "pfllib-dirichlet"

    def sides(self, data: Data) -> Sides:
        clients, random = self.possible(data), legacy_generator(data.seed)
        parts = practical(data.labels.cpu().numpy(), clients, self.alpha, data.min_size, random)
        return _moved(*split(parts, data.test_share, random), data)


@dataclass(frozen=True, repr=False)
class PapersPathological(OwnSplit, Pathological):
    """Pathological label skew as DBE and GPFL drew it, sample by sample (seed 1).

    Clients may hold fewer classes where quotas run out; the minimum enters the lower bound of the sizes only.
    """

    kind: ClassVar[str] = "pfllib-pathological"

    def check_minimum(self, samples: int, clients: int, min_size: int) -> None:
        pass

    def sides(self, data: Data) -> Sides:
        clients, host = self.possible(data), data.labels.cpu().numpy()
        if self.labels > host.max() + 1:
            raise UserError(f"K in {self.form()} must be <= {host.max() + 1}, the number of classes, not {self.labels}")
        random = legacy_generator(data.seed)
        parts = pathological(host, clients, self.labels, data.min_size, random)
        return _moved(*split(parts, data.test_share, random), data)


def _moved(train: Parts, test: Parts, data: Data) -> Sides:
    """The rows on the labels' device."""
    import torch

    return tuple([torch.from_numpy(rows).to(data.labels.device) for rows in side] for side in (train, test))


def legacy_generator(seed: int) -> np.random.RandomState:
    """The generator that `numpy.random.seed(seed)` sets up; the papers' data were made with seed 1 [LIB]."""
    if not 0 <= seed < 2**32:
        raise UserError(f"the papers' own partitions take a seed from 0 to {2**32 - 1}, not {seed}")
    return np.random.RandomState(seed)


def practical(labels: np.ndarray, clients: int, alpha: float, min_size: int, random: np.random.RandomState) -> Parts:
    """Practical label skew [LIB-era]: row numbers of each client, in the order received.

    Class by class: shuffle its rows; draw p ~ Dirichlet(alpha, ..., alpha); p_i = 0 for clients that hold n/N samples or more;
    renormalise; client i receives the slice between floor(cumsum(p) n_k). All of it again, with the running generator, until the
    smallest client has `min_size` samples (40 in the papers), at most 1,000 times; then `UserError`.
    """
    best = -1
    classes = int(labels.max()) + 1
    for _ in range(DRAWS):
        parts = _practical_attempt(labels, classes, clients, alpha, random)
        if parts is None:
            continue
        smallest = min(len(part) for part in parts)
        if smallest >= min_size:
            return parts
        best = max(best, smallest)
    raise too_small("pfllib-dirichlet", clients, min_size, best, DRAWS, alpha=True)


def _practical_attempt(
    labels: np.ndarray, classes: int, clients: int, alpha: float, random: np.random.RandomState
) -> Parts | None:
    """One attempt; None where the draw leaves a class without any client that may take it."""
    held = np.zeros(clients, dtype=np.int64)
    received: list[Parts] = [[] for _ in range(clients)]
    for label in range(classes):
        rows = np.flatnonzero(labels == label)
        random.shuffle(rows)
        share = random.dirichlet(np.repeat(alpha, clients)) * (held < len(labels) / clients)
        total = share.sum()
        if not (np.isfinite(total) and total > 0):
            return None
        cuts = (np.cumsum(share / total) * len(rows)).astype(np.int64)[:-1]
        for client, part in enumerate(np.split(rows, cuts)):
            received[client].append(part)
            held[client] += len(part)
    return [np.concatenate(parts) for parts in received]


def pathological(
    labels: np.ndarray, clients: int, labels_a_client: int, min_size: int, random: np.random.RandomState
) -> Parts:
    """Pathological label skew [LIB-era]: row numbers of each client, in the order received.

    Class by class: the first ceil(N K / C) clients (by number) that still lack classes take part, q of them; q - 1 sizes are drawn
    uniformly from floor(max(n_k/(10 q), min_size/C)) .. floor(n_k/q) - 1, the last takes the rest; slices in ascending row order.
    Raises `UserError` where a class is left over or has too few samples.
    """
    classes = int(labels.max()) + 1
    quota = np.full(clients, labels_a_client)
    received: list[Parts] = [[np.empty(0, dtype=np.int64)] for _ in range(clients)]
    for label in range(classes):
        rows = np.flatnonzero(labels == label)
        takers = np.flatnonzero(quota > 0)[: math.ceil(Fraction(clients * labels_a_client, classes))]
        if not len(takers):
            raise UserError(
                f"pfllib-pathological:{labels_a_client} among {clients} clients leaves class {label} of {classes} unassigned; "
                "clients x K must be a multiple of the classes"
            )
        each = len(rows) / len(takers)
        low, high = int(max(each / 10, min_size / classes)), int(each)
        if len(takers) > 1 and low >= high:
            raise UserError(
                f"pfllib-pathological:{labels_a_client} among {clients} clients: class {label} has {len(rows)} samples, too few for "
                f"{len(takers)} clients (min_size {min_size})"
            )
        sizes = random.randint(low, high, len(takers) - 1) if len(takers) > 1 else np.empty(0, dtype=np.int64)
        for client, part in zip(takers, np.split(rows, np.cumsum(sizes)), strict=True):
            received[client].append(part)
        quota[takers] -= 1
    return [np.concatenate(parts) for parts in received]


def split(parts: Parts, test_share: float, random: np.random.RandomState) -> tuple[Parts, Parts]:
    """Each client's rows into (training, test) [LIB]: permute, the first n - floor(0.75 n) entries are the test part."""
    train, test = [], []
    for rows in parts:
        order = random.permutation(len(rows))
        held_out = len(rows) - train_size(len(rows), test_share)
        test.append(rows[order[:held_out]])
        train.append(rows[order[held_out:]])
    return train, test
