"""Means of random samples, which say little of any one of them: FedBR's pseudo-data."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from pflrepro.algorithms.task import Source
from pflrepro.errors import UserError


def of_one_client(source: Source, draw: np.random.Generator, count: int, width: int) -> Tensor:
    """[count, ...]: each the mean of `width` training samples of one client, drawn uniformly among those that have any."""
    holders = [rows for rows in source.rows if len(rows)]
    return source.means(np.stack([draw.choice(holders[draw.integers(len(holders))], width) for _ in range(count)])).x


def balanced(source: Source, draw: np.random.Generator, count: int, width: int) -> Tensor:
    """[count, ...]: each the mean of `width` training samples of all clients, every present class equally often (up to one)."""
    rows = np.concatenate(source.rows)
    labels = source.labels[rows]
    of_class = [rows[labels == label] for label in np.unique(labels)]

    def line() -> list[int]:
        orders = [draw.permutation(len(of_class)) for _ in range(-(-width // len(of_class)))]
        return [draw.choice(of_class[k]) for k in np.concatenate(orders)[:width]]

    return source.means(np.stack([line() for _ in range(count)])).x


def of_proxy(source: Source, draw: np.random.Generator, count: int, width: int) -> Tensor:
    """[count, ...]: each the mean of `width` samples of the run's proxy data."""
    if not source.proxy_rows:
        raise UserError("this pseudo-data needs samples of another data set: give the run proxy=DATASET, or pseudo=rsm")
    means = source.proxy_means(draw.integers(source.proxy_rows, size=(count, width)))
    if tuple(means.shape[1:]) != tuple(source.shape):
        raise UserError(
            f"proxy samples must have the shape of the clients', {list(source.shape)}, not {list(means.shape[1:])}"
        )
    return means
