"""Predictions of a simulation's models: one model after the other gives the same; slices, ensembles, the global model."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers import equal

from pflrepro.algorithms import build_method
from pflrepro.conformance import federation
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.metrics import predictions as module
from pflrepro.metrics.predictions import global_model, predict, stacked_scores
from pflrepro.settings import Settings
from pflrepro.simulation import Simulation, client_models, samples

# One global model; adapted; own bases; shared base under own heads; the method's own way to predict.
NAMES = ["fedavg", "fedavgft", "local", "fedper", "fedrod", "gpfl", "fedproto", "pfedfda", "apple", "vhl", "fedavg+dbe"]
WITH_GLOBAL = {"fedavg", "fedavgft", "fedrod", "vhl", "fedavg+dbe"}


def run(name: str, **changes) -> Simulation:
    given = {"federation": federation(), "model": "mlp", "seeds": [0]}
    given |= {key: changes.pop(key) for key in list(changes) if key in given}
    settings = Settings(2, **({"batch_size": 5, "lr": 0.05, "drop_last": False} | changes))
    simulation = Simulation(build_method(name), settings=settings, backend="loop", workers=1, dtype="float64", **given)
    while not simulation.finished:
        simulation.step()
    return simulation


@pytest.mark.parametrize("name", NAMES)
def test_every_model_as_if_alone(name: str) -> None:
    simulation = run(name)
    found = predict(simulation)
    x, y = samples(simulation)
    models = client_models(simulation)
    alone = torch.stack([model.scores(x) for model in models])
    own = alone[found.owner, np.arange(len(found.owner))]
    np.testing.assert_allclose(found.own_scores, own, rtol=0, atol=1e-12)
    stacked, _ = stacked_scores(models)
    np.testing.assert_allclose(stacked(x).detach(), alone, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found.pooled, alone.argmax(-1))
    np.testing.assert_allclose(found.ensemble, alone.softmax(-1).mean(0), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found.labels, y)
    right = [int((found.own_predicted[part] == found.labels[part]).sum()) for part in found.parts]
    assert right == simulation.history(0)["correct"][-1].tolist()
    assert (found.global_scores is not None) == (name in WITH_GLOBAL)


def test_after_a_further_round_s_training() -> None:
    short, long = run("fedper"), run("fedper", participation=1.0)
    found = predict(short, after=True)
    assert found.after
    long.settings = Settings(3, batch_size=5, lr=0.05, drop_last=False)
    long.step()
    right = [int((found.own_predicted[part] == found.labels[part]).sum()) for part in found.parts]
    assert right == long.history(0)["correct_after"][-1].tolist()


def test_each_seed_has_its_own_models() -> None:
    both, second = run("fedper", seeds=[4, 7]), run("fedper", seeds=[7])
    np.testing.assert_allclose(predict(both, 1).own_scores, predict(second).own_scores, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["ditto", "fedrod", "grp-fed", "fedavg+dbe"])
def test_the_global_model_is_the_server_s_base_and_head(name: str) -> None:
    simulation = run(name)
    x, _ = samples(simulation)
    params = simulation.replicas[0].server.params
    hidden = F.relu(F.linear(x.flatten(1), params.base["1.weight"], params.base["1.bias"]))
    wanted = F.linear(hidden, params.head.weight, params.head.bias)
    np.testing.assert_allclose(predict(simulation).global_scores, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("statistics", ["averaged", "personal"])
def test_clients_that_keep_their_statistics_share_no_model(statistics: str) -> None:
    simulation = run("fedavg", model="cnn-digits-bn", drop_last=True, statistics=statistics)
    models = client_models(simulation)
    x, _ = samples(simulation)
    alone = torch.stack([model.scores(x) for model in models])
    np.testing.assert_allclose(predict(simulation).ensemble, alone.softmax(-1).mean(0), rtol=0, atol=1e-12)
    np.testing.assert_allclose(stacked_scores(models)[0](x).detach(), alone, rtol=0, atol=1e-12)
    server = global_model(models)
    if statistics == "personal":
        assert server is None
    else:
        torch.testing.assert_close(server.scores(x), alone[0])


def test_what_is_the_same_for_all_clients_goes_through_once(monkeypatch) -> None:
    for name, once in (("fedavg", True), ("fedper", True), ("local", False)):
        assert stacked_scores(client_models(run(name)))[1] is once
    # small chunks give the same numbers
    simulation = run("fedper")
    whole = predict(simulation)
    monkeypatch.setattr(module, "MEMORY", 1)
    np.testing.assert_allclose(predict(simulation).ensemble, whole.ensemble, rtol=0, atol=1e-12)


def test_models_that_are_taken_one_after_the_other_are_not_stacked(monkeypatch) -> None:
    """Of a hundred ResNets the stack would be some gigabytes."""
    simulation, stack, stacked = run("local"), torch.stack, []
    monkeypatch.setattr(torch, "stack", lambda leaves, *how: stacked.append(leaves[0].shape) or stack(leaves, *how))
    predict(simulation)
    assert {shape[-1] for shape in stacked} == {federation().classes}, "scores alone"


def test_a_client_without_test_samples_has_an_empty_part() -> None:
    found = predict(run("fedavg"))
    assert [part.stop - part.start for part in found.parts] == [4, 4, 4, 5, 0]
    assert found.pooled.shape == (5, 17)


def test_without_any_test_sample_there_is_nothing_to_predict() -> None:
    parts = federation()
    none = [np.zeros(0, np.int64)] * parts.clients
    empty = Federation(parts.x, parts.y, parts.rows["train"], none, classes=parts.classes)
    settings = Settings(1, batch_size=5, drop_last=False)
    simulation = Simulation(build_method("fedavg"), empty, "mlp", settings, [0], backend="loop", workers=1)
    with pytest.raises(UserError, match="no client has test samples"):
        predict(simulation)


def test_looking_changes_nothing() -> None:
    simulation = run("ditto")
    before = simulation.state()
    predict(simulation)
    predict(simulation, after=True)
    assert all(equal(value, before[name]) for name, value in simulation.state().items())
