"""The toy of FedBR's section 3: who has which classes, which models are compared, and what must come of it."""

import numpy as np
import pytest
import torch

import pflrepro
from pflrepro.metrics.representations import local_bias
from pflrepro.metrics.toy import before_and_after, half_of_the_classes


@pytest.fixture(scope="module")
def central():
    settings = {"partition": "iid", "clients": 1, "rounds": 6, "batch_size": 20, "lr": 0.1}
    return pflrepro.simulate(pflrepro.Experiment.for_dataset("fedavg", "digits", **settings), workers=1)


def test_the_client_has_half_of_the_classes_and_the_trained_model(central):
    toy = half_of_the_classes(central)
    whole, held = (each.federation.counts("train")[0] for each in (central, toy))
    assert held.tolist() == [*whole[:5].tolist(), 0, 0, 0, 0, 0]
    assert np.array_equal(toy.federation.rows["test"][0], central.federation.rows["test"][0])
    before, after = before_and_after(toy)
    trained = central.replicas[0].server.params.flat()
    assert all(torch.equal(before.params.flat()[path], leaf) for path, leaf in trained.items())
    assert any(not torch.equal(after.params.flat()[path], leaf) for path, leaf in trained.items())


def test_it_forgets_the_other_classes(central):
    """FedBR's observations: local features differ from global ones, those of different inputs grow alike, predictions are drawn
    to the classes that the client has."""
    found = local_bias(half_of_the_classes(central, local_epochs=5))
    assert found.distance_own[0] > 0.1
    assert found.seen_before[0] < 0.05 and found.seen_after[0] > 0.2
    assert found.similarity_after[0] > found.similarity_before[0]
    assert found.predicted_after[0, :5].sum() == pytest.approx(found.seen_after[0])


def test_more_than_one_client_is_put_together():
    experiment = pflrepro.Experiment.for_dataset("fedavg", "digits", partition="iid", clients=3, rounds=1)
    simulation = pflrepro.simulate(experiment, workers=1)
    toy = half_of_the_classes(simulation)
    assert toy.federation.clients == 1
    assert toy.federation.counts("train").sum() == simulation.federation.counts("train")[:, :5].sum()
