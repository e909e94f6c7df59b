"""Features: collected as the models give them, and measures against numbers by hand and scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import calinski_harabasz_score
from sklearn.metrics.pairwise import cosine_similarity

import pflrepro
from pflrepro.errors import UserError
from pflrepro.metrics import representations as rep
from pflrepro.metrics.leakage import observe
from pflrepro.metrics.predictions import predict
from pflrepro.metrics.representations import Features, collect, collect_layers
from pflrepro.metrics.separation import class_separation
from pflrepro.simulation.inspection import client_models, samples
from pflrepro.trees import Tree


def run(name: str, rounds: int = 1, **changes):
    asked = {
        "clients": 4,
        "rounds": 4,
        "model": "cnn-digits",
        "partition": "dirichlet:0.5",
        "dtype": "float64",
    } | changes
    return pflrepro.simulate(pflrepro.Experiment.for_dataset(name, "digits", **asked), rounds=rounds, workers=1)


@pytest.fixture(scope="module")
def dbe(tmp_path_factory):
    return run("fedavg+dbe")


def features(z, labels, clients, count: int) -> Features:
    return Features(
        torch.tensor(z, dtype=torch.float64), np.array(labels), np.array(clients), "features", 0, False, count
    )


# ---- collecting ----------------------------------------------------------------------------------------------------------------
def test_every_sample_goes_through_its_clients_model(dbe) -> None:
    found = collect_layers(dbe, ["conv1", "fc1", "features", "embedded", "logits"])
    sets = {layer: each.sets() for layer, each in found.items()}
    for model in client_models(dbe):
        x, y = samples(dbe, model.client)
        z, labels = sets["features"][model.client]
        assert labels.tolist() == y.tolist()
        torch.testing.assert_close(z, model.features(x))
        torch.testing.assert_close(sets["fc1"][model.client][0], z)  # the position of the bias: without it
        torch.testing.assert_close(sets["embedded"][model.client][0], z + model.params.bias.b)
        torch.testing.assert_close(sets["logits"][model.client][0], model.scores(x))
        assert sets["conv1"][model.client][0].shape == (len(y), 16 * 3 * 3)


def test_samples_are_handed_over_in_their_order_or_in_a_random_one() -> None:
    found = features([[0.0], [1.0], [2.0], [3.0], [4.0]], labels=[0, 0, 1, 1, 2], clients=[0, 0, 0, 0, 2], count=3)
    assert [labels.tolist() for _, labels in found.sets()] == [[0, 0, 1, 1], [], [2]]
    mixed = found.sets(seed=3)
    z, labels = mixed[0]
    assert sorted(z[:, 0].tolist()) == [0, 1, 2, 3] and z[:, 0].tolist() != [0, 1, 2, 3]
    assert labels.tolist() == [int(value) // 2 for value in z[:, 0]] and [len(y) for _, y in mixed] == [4, 0, 1]
    assert all(
        torch.equal(a, b)
        for one, other in zip(mixed, found.sets(seed=3), strict=True)
        for a, b in zip(one, other, strict=True)
    )
    z, labels = found.pooled(seed=2)
    assert labels.tolist() == [int(value) // 2 for value in z[:, 0]] and sorted(z[:, 0].tolist()) == [0, 1, 2, 3, 4]


def test_layers_behind_the_position_of_the_bias_contain_it() -> None:
    simulation = run("fedavg+dbe", model="cnn-digits@conv1", clients=2)
    found = collect_layers(simulation, ["conv1", "fc1", "logits", "embedded"])
    model = client_models(simulation)[1]
    assert float(model.params.bias.b.abs().sum()) > 0
    (z, _), (fc1, _), (logits, _), (embedded, _) = (found[name].sets()[1] for name in found)
    torch.testing.assert_close(embedded, z + model.params.bias.b)
    head = model.params.head
    last = sorted(name for name in head if name.endswith("weight"))[-1].removesuffix("weight")
    torch.testing.assert_close(fc1 @ head[last + "weight"].T + head[last + "bias"], logits)


def test_before_after_and_without_adaptation() -> None:
    simulation = run("fedbabu", clients=3)
    before, after, generic = (
        collect_layers(simulation, ["features", "logits"], **options)
        for options in ({}, {"after": True}, {"adapted": False})
    )
    base = simulation.replicas[0].server.params.base
    x, _ = simulation.federation.batch(torch.as_tensor(simulation.federation.rows["test"][0]), torch.float64)
    plain = simulation.task.base(base, Tree(), x, False)[0]
    torch.testing.assert_close(generic["features"].sets()[0][0], plain)
    assert not torch.allclose(before["logits"].z, generic["logits"].z)
    assert not torch.allclose(after["features"].z, generic["features"].z)
    assert (before["features"].after, after["features"].after, after["features"].round) == (False, True, 1)


def test_a_limit_takes_the_same_samples_every_time(dbe) -> None:
    whole, some, again, other = (
        collect(dbe, limit=limit, seed=seed, after=after)
        for limit, seed, after in ((None, 0, False), (50, 0, False), (50, 0, True), (50, 1, False))
    )
    assert len(some.z) == 50 and (np.diff(some.clients) >= 0).all()
    np.testing.assert_array_equal(some.labels, again.labels)
    assert some.labels.tolist() != other.labels.tolist()
    matches = [
        ((whole.z[whole.clients == c] - z).abs() < 1e-12).all(1).any()
        for z, c in zip(some.z, some.clients, strict=True)
    ]
    assert all(matches)
    with pytest.raises(UserError, match="limit must be a whole number >= 1"):
        collect(dbe, limit=0)


def test_what_does_not_exist_is_one_clear_error(dbe) -> None:
    with pytest.raises(UserError, match="unknown layer 'fc2'; valid: fc1"):
        collect(dbe, "fc2")
    with pytest.raises(UserError, match="unknown split 'valid'"):
        collect(dbe, split="valid")


# ---- a plane -------------------------------------------------------------------------------------------------------------------
def test_one_projection_for_all_snapshots() -> None:
    draw = torch.Generator().manual_seed(0)
    near, far = torch.randn(20, 5, generator=draw), torch.randn(25, 5, generator=draw) + 20
    one, two = rep.tsne([near, far], perplexity=5)
    again = rep.tsne([near, far], perplexity=5)
    np.testing.assert_array_equal(np.concatenate([one, two]), np.concatenate(again))
    assert one.shape == (20, 2) and two.shape == (25, 2)
    centres = one.mean(0), two.mean(0)
    assert np.linalg.norm(one - centres[0], axis=1).max() < np.linalg.norm(centres[0] - centres[1])


def test_what_cannot_be_embedded() -> None:
    z = torch.randn(20, 5)
    with pytest.raises(UserError, match="perplexity 30 needs more samples than that, not 20"):
        rep.tsne([z])
    with pytest.raises(UserError, match=r"features of one length, not \[3, 5\]"):
        rep.tsne([z, z[:, :3]])
    with pytest.raises(UserError, match="all features are equal"):
        rep.tsne([torch.ones(20, 5)], perplexity=5)
    for seed in (-1, 2**32, 0.5):
        with pytest.raises(UserError, match="seed of t-SNE must be a whole number >= 0"):
            rep.tsne([z], perplexity=5, seed=seed)
    with pytest.raises(UserError, match="1 of 20 samples have a NaN"):
        rep.tsne([z.index_fill(0, torch.tensor([2]), math.nan)], perplexity=5)


# ---- measures ------------------------------------------------------------------------------------------------------------------
def test_fisher_ratio_by_hand() -> None:
    # Client 0 holds 0 and 2 (mean 1, variance 1), client 2 holds 4 and 6; pooled mean 3, variance 5: 4 / 6 each.
    # The second dimension is constant, the third differs between the clients only: (0 - 5)^2 / (0 + 25).
    found = rep.fisher_ratio(features([[0, 7, 0], [2, 7, 0], [4, 7, 10], [6, 7, 10]], [0] * 4, [0, 0, 2, 2], 3))
    np.testing.assert_allclose(found[[0, 2]], [[4 / 6, 0, 1]] * 2)
    assert np.isnan(found[1]).all()
    assert rep.fisher_ratio(features([[1.0], [1.0]], [0, 0], [0, 1], 2)).tolist() == [[0.0], [0.0]]


def test_distance_and_similarity_by_hand() -> None:
    a, b = torch.tensor([[3.0, 4.0], [0.0, 2.0]]), torch.tensor([[3.0, 0.0], [0.0, 1.0]])
    assert rep.distance(a, b) == pytest.approx(2.5 / 2)  # means of 4 and 1, and of 3 and 1
    z, w = torch.randn(7, 3), torch.randn(4, 3)
    assert rep.similarity(z, w) == pytest.approx(float(cosine_similarity(z, w).mean()), abs=1e-6)
    assert math.isnan(rep.similarity(z, w[:0])) and math.isnan(rep.distance(a[:0], b[:0]))
    assert rep.distance(b * 0, b * 0) == 0.0 and rep.distance(b, b * 0) == math.inf
    with pytest.raises(UserError, match="have one length, not 3 and 2"):
        rep.similarity(z, w[:, :2])
    with pytest.raises(UserError, match="have one shape"):
        rep.distance(a, b[:1])


def test_class_separation_is_the_index_of_calinski_and_harabasz() -> None:
    z, labels = torch.randn(30, 4, dtype=torch.float64), torch.arange(30) % 3 * 2  # classes 0, 2, 4
    z[labels == 2] += 1
    expected = calinski_harabasz_score(z.numpy(), labels.numpy())
    assert class_separation(z, labels) * (30 - 3) / (3 - 1) == pytest.approx(expected)
    assert math.isnan(class_separation(z, torch.zeros(30)))
    assert class_separation(torch.ones(4, 2), torch.tensor([0, 0, 1, 1])) == 0.0
    assert class_separation(torch.tensor([[0.0], [0.0], [1.0]]), torch.tensor([0, 0, 1])) == math.inf


def test_prediction_shares_by_hand() -> None:
    scores = torch.tensor([[0.0, math.log(3.0), -1000], [5.0, 5.0, 6.0], [0.0, 1000.0, 0.0], [0.0, 2.0, 1.0]])
    counts, mean = rep.prediction_shares(scores, 3)
    assert counts.tolist() == [0, 0.75, 0.25]
    np.testing.assert_allclose(mean.sum(), 1)
    np.testing.assert_allclose(mean, scores.double().softmax(1).mean(0))
    assert np.isnan(rep.prediction_shares(scores[:0], 3)[0]).all()
    with pytest.raises(UserError, match=r"scores of 2 classes are \[n, 2\], not \[4, 3\]"):
        rep.prediction_shares(scores, 2)


def test_local_training_biases_the_model() -> None:
    """FedBR's observations, on clients with two classes each: predictions fall on these after local training."""
    simulation = run("fedavg", rounds=3, clients=5, partition="pathological:2", local_epochs=3)
    found = rep.local_bias(simulation)
    assert (found.seen_after > found.seen_before).all() and found.seen_after.min() > 0.5
    assert (found.distance_own > 0).all() and found.predicted_after.shape == (5, 10)
    np.testing.assert_allclose(found.predicted_before.sum(1), 1)
    x, y = samples(simulation)
    after = client_models(simulation, after=True)[2]
    other = ~torch.as_tensor(simulation.federation.counts("train")[2] > 0)[y]
    counts = np.bincount(after.scores(x[other]).argmax(1), minlength=10) / int(other.sum())
    np.testing.assert_allclose(found.predicted_after[2], counts)
    assert found.separation_after[2] == pytest.approx(class_separation(after.features(x), y))


def test_a_plane_needs_two_numbers() -> None:
    with pytest.raises(UserError, match="features of two numbers or more"):
        rep.tsne([torch.rand(20, 1)], perplexity=3)


@pytest.mark.parametrize("index", [1, -1])
def test_only_seeds_that_are_there_can_be_looked_at(dbe, index: int) -> None:
    simulation = dbe
    looks = (
        lambda: collect(simulation, index=index),
        lambda: collect(simulation, index=index, after=True),
        lambda: predict(simulation, index),
        lambda: observe(simulation, "extractor", index),
        lambda: rep.local_bias(simulation, index),
    )
    for look in looks:
        with pytest.raises(UserError, match=rf"index of a seed must lie in 0\.\.0 .*not {index}"):
            look()


def test_labels_are_whole_numbers() -> None:
    with pytest.raises(UserError, match="labels must be whole numbers: 1 of 4 are not"):
        class_separation(torch.rand(4, 2), torch.tensor([0.0, 0.5, 1.0, 1.0]))


def test_half_precision_is_measured_in_float32() -> None:
    z = torch.tensor([[300.0], [302.0], [-300.0], [-302.0]], dtype=torch.float16)  # squares overflow in float16
    assert class_separation(z, torch.tensor([0, 0, 1, 1])) == pytest.approx(4 * 301**2 / 4)


@pytest.mark.parametrize("value", [0.1, -3e7 / 7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_constants_that_do_not_round_exactly_are_constants(value: float, dtype: torch.dtype) -> None:
    z = torch.full((120, 3), value, dtype=dtype)
    labels = torch.arange(120) % 4
    assert class_separation(z, labels) == 0.0
    mixed = torch.cat([z[:, :1], torch.rand(120, 2, dtype=dtype)], 1)
    given = Features(mixed, labels.numpy(), np.arange(120) % 7, "features", 0, False, 7)
    found = rep.fisher_ratio(given)
    assert (found[:, 0] == 0).all() and (found[:, 1:] > 0).all()
    # a constant dimension adds nothing to the others
    expected = class_separation(mixed[:, 1:], labels)
    assert class_separation(mixed, labels) == pytest.approx(expected, rel=1e-9)
    # and where only the classes, or the clients, differ, the ratios keep their documented values
    z[labels == 0] += 1000.0
    assert class_separation(z, labels) == math.inf
    by_client = Features(z, labels.numpy(), labels.numpy(), "features", 0, False, 4)
    # a quarter at +1000: deviations of 750 and 250, pooled variance 187,500, none within a client
    np.testing.assert_allclose(rep.fisher_ratio(by_client), [[3.0] * 3] + [[1 / 3] * 3] * 3, rtol=1e-3)


def test_fisher_ratio_needs_a_client_a_sample() -> None:
    z = torch.rand(4, 2)
    for clients in ([0, 1], [0, 1, 2, 3], [0, 1, 1, -1]):
        with pytest.raises(UserError, match=r"each of 4 samples needs one client in 0\.\.2, not clients of shape"):
            rep.fisher_ratio(Features(z, np.zeros(4, int), np.array(clients), "features", 0, False, 3))
    nothing = Features(z[:0], np.zeros(0, int), np.zeros(0, int), "features", 0, False, 3)
    found = rep.fisher_ratio(nothing)
    assert found.shape == (3, 2) and np.isnan(found).all()
