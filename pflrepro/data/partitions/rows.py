"""Operations on rows that kinds of partitions are made of: host draws, then sorting and gathering on the labels' device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pflrepro.errors import UserError
from pflrepro.randomness import generator


def as_integers(name: str, values: Any, device: torch.device | None) -> Tensor:
    """`values` as an int64 vector on `device` (None: where they are); raises `UserError` for anything else."""
    try:
        tensor = torch.as_tensor(values, device=device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UserError(f"{name} must be a vector of whole numbers: {error}") from None
    if tensor.ndim != 1 or tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise UserError(f"{name} must be a vector of whole numbers, not {tensor.dtype} of shape {tuple(tensor.shape)}")
    return tensor.to(torch.int64)


def class_sizes(labels: Tensor) -> np.ndarray:
    """Samples of each class."""
    return torch.bincount(labels).cpu().numpy()


def shuffled(count: int, purpose: str, seed: int, device: torch.device, stream: int = 0) -> Tensor:
    """A random order of 0 .. count-1, drawn on the host."""
    return torch.from_numpy(generator(seed, purpose, client=stream).permutation(count)).to(device)


def by_class(labels: Tensor, sizes: np.ndarray, seed: int, stream: int = 0) -> Tensor:
    """The client of every row: client i gets `sizes[i, k]` random rows of class k; the rest stays unused (-1)."""
    clients, classes = sizes.shape
    available = torch.bincount(labels, minlength=classes).cpu().numpy()
    for label in np.flatnonzero(sizes.sum(0) > available[:classes]):
        wanted = int(sizes[:, label].sum())
        raise UserError(
            f"the counts ask for {wanted:,} samples of class {label}; the data set has {available[label]:,}"
        )
    cells = np.zeros((len(available), clients + 1), dtype=np.int64)
    cells[:classes, :clients] = sizes.T
    cells[:, clients] = available - cells.sum(1)
    owners = torch.cat([torch.arange(clients), torch.tensor([-1])]).repeat(len(available)).to(labels.device)
    order = shuffled(len(labels), "partition/order", seed, labels.device, stream)
    order = order[torch.argsort(labels[order], stable=True)]  # class by class, in random order within each
    client = torch.empty_like(labels)
    client[order] = owners.repeat_interleave(torch.from_numpy(cells.reshape(-1)).to(labels.device))
    return client


def numbered(partition: str, labels: Tensor, groups: Tensor | None) -> tuple[Tensor, int]:
    """Group of every row, counted from 0 in the order of the group numbers, and how many there are."""
    if groups is None:
        raise UserError(
            f"partition '{partition}' needs a data set with groups (writers, patients, users, domains); this one has none"
        )
    if groups.shape != labels.shape:
        raise UserError(f"there are {len(groups):,} groups for {len(labels):,} samples")
    known, group = torch.unique(groups, return_inverse=True)
    return group, len(known)
