"""FedAvg: its identities with plain gradient descent."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from pflrepro.algorithms import Phase
from pflrepro.data.federation import Federation
from pflrepro.models import build_model
from pflrepro.models.split import parameters_of
from pflrepro.simulation.schedule import batches
from pflrepro.trees import Tree


def distance(a: Tree, b: Tree) -> float:
    return max(float(leaf.abs().max()) for leaf in (a - b).leaves())


def only(federation: Federation, *clients: int) -> Federation:
    """The federation of some clients."""
    train, test = ([federation.rows[split][i] for i in clients] for split in ("train", "test"))
    return Federation(federation.x, federation.y, train, test, classes=federation.classes)


def test_one_client_is_sgd(federation, simulate) -> None:
    alone = only(federation, 0)
    ours = simulate("fedavg", federation=alone, rounds=3, local_epochs=2, momentum=0.5, weight_decay=0.01)
    split = build_model("mlp", alone.shape, alone.classes, 0)
    model = torch.nn.Sequential(split.base, split.head).double()
    for t in range(3):
        optimiser = torch.optim.SGD(
            model.parameters(), lr=0.05, momentum=0.5, weight_decay=0.01
        )  # fresh momentum a round
        for rows in batches(alone, Phase(), ours.settings, 0, t, 0, "clients/train"):
            optimiser.zero_grad()
            F.cross_entropy(model(alone.x[rows].double()), alone.y[rows]).backward()
            optimiser.step()
    params = ours.replicas[0].server.params
    assert distance(params.base, parameters_of(split.base)) < 1e-12
    assert distance(params.head, parameters_of(split.head)) < 1e-12


def test_one_full_batch_each_is_gradient_descent_on_the_pooled_data(federation, simulate) -> None:
    pooled = Federation(
        federation.x,
        federation.y,
        [np.concatenate(federation.rows["train"])],
        [np.arange(3)],
        classes=federation.classes,
    )
    settings = {"rounds": 3, "batch_size": 100}
    ours = simulate("fedavg", **settings).replicas[0].server
    centralised = simulate("fedavg", federation=pooled, **settings).replicas[0].server
    assert distance(ours.params, centralised.params) < 1e-12


def test_equal_clients_are_any_one_of_them(federation, simulate) -> None:
    settings = {"rounds": 2, "batch_size": 100, "local_epochs": 3}
    twins = simulate("fedavg", federation=only(federation, 3, 3, 3), **settings)
    alone = simulate("fedavg", federation=only(federation, 3), **settings)
    assert distance(twins.replicas[0].server.params, alone.replicas[0].server.params) < 1e-12


def test_a_client_without_a_step_counts_with_the_model_it_received(federation, simulate) -> None:
    """Client 1 has 3 samples, less than a batch of 5: w^{1} = (n_0 w_0 + n_1 w^0) / (n_0 + n_1)."""
    settings = {"rounds": 1, "drop_last": True}
    start = simulate("fedavg", rounds=0).replicas[0].server.params
    alone = simulate("fedavg", federation=only(federation, 0), **settings).replicas[0].server.params
    both = simulate("fedavg", federation=only(federation, 0, 1), **settings).replicas[0].server.params
    n = federation.sizes("train")
    assert distance(both, (int(n[0]) * alone + int(n[1]) * start) / int(n[0] + n[1])) < 1e-12
