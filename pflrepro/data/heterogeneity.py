"""How far the clients' label distributions lie from the pooled one."""

from __future__ import annotations

from typing import Any

import numpy as np


def total_variation(counts: Any) -> np.ndarray:
    """Total-variation distance of each client's label distribution to the pooled one, in [0, 1]: float64 [N].

    1/2 sum_k |n_ik / n_i - n_k / n|; NaN for a client without samples.

    Args:
        counts: samples of each client and class, integers [N, C] (array or tensor on the host).
    """
    counts = np.asarray(counts, dtype=np.float64)
    pooled = counts.sum(0) / max(counts.sum(), 1.0)
    held = counts.sum(1)
    own = counts / np.maximum(held, 1.0)[:, None]
    return np.where(held > 0, 0.5 * np.abs(own - pooled).sum(1), np.nan)


def heterogeneity(counts: Any) -> float:
    """The mean of `total_variation` over the clients that hold samples; NaN if none does."""
    distances = total_variation(counts)
    known = distances[~np.isnan(distances)]
    return float(known.mean()) if len(known) else float("nan")


def selected_clients(counts: Any, number: int) -> list[int]:
    """Clients from the nearest to the pooled label distribution to the farthest, at about even steps of total variation.

    Example:
        >>> selected_clients([[5, 5], [10, 0], [9, 1], [6, 4], [0, 10]], 3)
        [3, 2, 4]
    """
    distances = total_variation(counts)
    left = np.flatnonzero(~np.isnan(distances)).tolist()
    chosen = []
    for target in np.linspace(np.nanmin(distances), np.nanmax(distances), min(number, len(left))):
        nearest = min(left, key=lambda client: abs(distances[client] - target))
        left.remove(nearest)
        chosen.append(nearest)
    return sorted(chosen, key=lambda client: distances[client])
