"""Distances between groups of features: by hand, and where nothing can be said."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pflrepro.errors import UserError
from pflrepro.metrics.separation import client_distances, silhouette
from pflrepro.metrics.theory import proxy_a_distance


def test_the_silhouette_by_hand() -> None:
    """Means to the nearest other pair: 10.5 from the outer points, 9.5 from the inner ones; 1 within a pair."""
    z = torch.tensor([[0.0], [1.0], [10.0], [11.0]])
    expected = (9.5 / 10.5 + 8.5 / 9.5) / 2
    assert silhouette(z, [3, 3, 7, 7]) == pytest.approx(expected, rel=1e-6)
    # of one class: the clients make the islands; of one client: the classes
    assert silhouette(z, [0, 0, 0, 0], [1, 1, 2, 2]) == silhouette(z, [1, 1, 2, 2], [0, 0, 0, 0])
    assert silhouette(z, [0, 1, 0, 1], [0, 0, 0, 0]) < 0 < silhouette(z, [0, 0, 1, 1], [0, 0, 0, 0])
    assert math.isnan(silhouette(z, [1, 1, 1, 1])) and math.isnan(silhouette(z, [0, 0, 1, 1], [0, 1, 0, 1]))
    with pytest.raises(UserError, match="each of 4 samples needs one group"):
        silhouette(z, [0, 1])


def test_each_client_against_all_others() -> None:
    z = torch.as_tensor(np.random.default_rng(0).standard_normal((40, 3)))
    clients = np.repeat([0, 1, 3], [20, 17, 3])
    z[clients == 1] += 9.0
    found = client_distances(z, clients, count=4)
    mine = z.numpy()
    assert found[0] == proxy_a_distance(mine[clients == 0], mine[clients != 0]) and found[1] == 2.0
    assert np.isnan(found[2:]).all()  # no sample, and fewer than four
    assert np.isnan(client_distances(z, np.zeros(40, int), count=1)).all()
    with pytest.raises(UserError, match="each of 40 samples needs one client"):
        client_distances(z, [0], count=1)
    for wrong in (-1, 4, 0.5):
        with pytest.raises(UserError, match=r"clients must be whole numbers in 0\.\.3, not "):
            client_distances(z, np.full(40, wrong), count=4)
