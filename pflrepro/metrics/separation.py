"""How far apart groups of features lie, in numbers: classes, clients, and classes of clients."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pflrepro.errors import UserError, check_range
from pflrepro.metrics.sets import ROUNDING, check_features, check_labels, check_set
from pflrepro.metrics.theory import proxy_a_distance


def class_separation(z: Tensor, labels: Tensor) -> float:
    """tr S_b / tr S_w: S_b = sum_c n_c |m_c - m|^2, S_w = sum_c sum_{y=c} |z - m_c|^2, over the classes that occur.

    NaN with fewer than two classes; 0 for equal features; infinite where only classes differ; deviations within rounding of the
    numbers are 0. Times (n - c) / (c - 1) it is the index of Calinski and Harabasz (1974).

    Example, class means 1 and 5: S_b = 16, S_w = 4:
        >>> class_separation(torch.tensor([[0.0], [2.0], [4.0], [6.0]]), torch.tensor([0, 0, 1, 1]))
        4.0
    """
    labels = check_labels(labels)
    z, labels = check_set((z, labels), int(labels.max()) + 1 if len(labels) else 1)
    z, classes = z.double(), labels.unique()
    if len(classes) < 2:
        return float("nan")
    means = torch.stack([z[labels == c].mean(0) for c in classes])
    own = means[torch.searchsorted(classes, labels)]
    least = ROUNDING * torch.finfo(z.dtype).eps * z.abs().amax(0)
    parts = (own - z.mean(0), z - own)
    between, within = (float(part.where(part.abs() > least, 0.0).square().sum()) for part in parts)
    return between / within if within > 0 else (0.0 if between == 0 else float("inf"))


def client_distances(z: Tensor, clients: Any, count: int) -> np.ndarray:
    """`proxy_a_distance` of each client's features to those of all others, float64 [N] in [0, 2]: 0 alike, 2 apart.

    z [n, K], clients [n] in 0..N-1; NaN for a client with fewer than 4 samples, or that has no others beside it.

    Example:
        >>> client_distances(torch.eye(2).repeat_interleave(8, 0), [0] * 8 + [1] * 8, count=2).tolist()
        [2.0, 2.0]
    """
    features, clients = check_features(z).double().cpu().numpy(), np.asarray(clients)
    if clients.shape != features.shape[:1]:
        raise UserError(f"each of {len(features)} samples needs one client, not clients of shape {list(clients.shape)}")
    count = check_range("count", count, 1, integer=True)
    if len(clients) and not (clients.dtype.kind in "iu" and 0 <= clients.min() <= clients.max() < count):
        raise UserError(f"clients must be whole numbers in 0..{count - 1}, not {clients.min()}..{clients.max()}")
    found = np.full(count, np.nan)
    for client in np.unique(clients):
        own = clients == client
        if not own.all():
            found[client] = proxy_a_distance(features[own], features[~own])
    return found


def silhouette(z: Tensor, *groups: Any) -> float:
    """The mean over samples of (b - a) / max(a, b), in [-1, 1]: a the mean distance to the own group, b to the nearest other one.

    Rousseeuw (1987), scikit-learn's. A group is a combination of `groups`, each [n]: of class and client, say (GPFL's Figure 2: one
    island a class of a client). A sample that is alone in its group counts 0; NaN unless there are two groups and fewer than samples.

    Example:
        >>> silhouette(torch.tensor([[0.0, 0.0], [0.0, 1.0], [9.0, 0.0], [9.0, 1.0]]), [0, 0, 1, 1], [0, 0, 0, 0]) > 0.8
        True
    """
    from sklearn.metrics import silhouette_score

    features = check_features(z).cpu().numpy()
    if any(np.shape(group) != features.shape[:1] for group in groups) or not groups:
        raise UserError(
            f"each of {len(features)} samples needs one group, not groups of shape {[list(np.shape(group)) for group in groups]}"
        )
    names, own = np.unique(np.stack([np.asarray(group) for group in groups]), axis=1, return_inverse=True)
    if not 1 < names.shape[1] < len(features):
        return float("nan")
    return float(silhouette_score(features, own.ravel()))
