"""Looking at the clients' models: they score as the engine scored, and looking changes nothing."""

from __future__ import annotations

import pytest
import torch
from helpers import equal

from pflrepro.algorithms import build_method
from pflrepro.errors import UserError
from pflrepro.simulation.inspection import client_models, notes, samples
from pflrepro.trees import Tree

NAMES = ["fedavg", "ditto", "fedbabu", "gpfl", "fedavg+dbe", "apple", "pfedfda", "fedavg+fedbr"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seeds", [[0], [3, 5]])
def test_they_score_as_the_engine_did(simulate, name: str, seeds: list[int]) -> None:
    simulation = simulate(build_method(name), rounds=2, seeds=seeds)
    before = simulation.state()
    for index in range(len(seeds)):
        found = []
        for model in client_models(simulation, index):
            x, y = samples(simulation, model.client)
            found.append(int((model.scores(x).argmax(1) == y).sum()))
        assert found == simulation.history(index)["correct"][-1].tolist()
    client_models(simulation, after=True)
    assert all(equal(value, before[name]) for name, value in simulation.state().items())


@pytest.mark.parametrize("name", ["fedavg", "ditto", "fedper"])
def test_after_a_further_round_s_training(simulate, start, name: str) -> None:
    """As the next round of the run that goes on tests them; the cohort of a model looked at is everybody."""
    short, long = (simulate(build_method(name), rounds=rounds) for rounds in (2, 3))
    found = []
    for model in client_models(short, after=True):
        x, y = samples(short, model.client)
        found.append(int((model.scores(x).argmax(1) == y).sum()))
    assert found == long.history(0)["correct_after"][-1].tolist()


def test_unadapted_models_are_those_received(simulate) -> None:
    simulation = simulate(build_method("fedbabu"), rounds=1)
    plain, adapted = client_models(simulation, adapted=False), client_models(simulation)
    server = simulation.replicas[0].server.params
    for model, other in zip(plain, adapted, strict=True):
        assert torch.equal(model.params.base["1.weight"], server.base["1.weight"])
        assert not torch.equal(other.params.base["1.weight"], server.base["1.weight"])


@pytest.mark.parametrize("seeds", [[0], [3, 5]])
def test_what_a_method_notes(simulate, seeds: list[int]) -> None:
    """APFL's alpha is the state that the next test mixes with; FedAvg notes nothing; a plug-in hides nothing."""
    for name in ("apfl", "apfl+mr"):
        simulation = simulate(build_method(name, {"adaptive": True}), rounds=2, seeds=seeds)
        before = simulation.state()
        for index in range(len(seeds)):
            found = notes(simulation, index)
            assert found.keys() == {"alpha"} and len(set(found["alpha"].tolist())) > 1
            assert found["alpha"].tolist() == simulation.replicas[index].clients.alpha.tolist()
        assert all(equal(value, before[name]) for name, value in simulation.state().items())
    assert notes(simulate(build_method("fedavg"), rounds=1)) == {}
    with pytest.raises(UserError, match="index of a seed"):
        notes(simulation, 9)


def test_features_are_those_of_the_base_and_samples_can_be_pooled(simulate) -> None:
    simulation = simulate(build_method("fedper"), rounds=1)
    model = client_models(simulation)[1]
    x, y = samples(simulation)
    assert len(x) == len(y) == simulation.federation.sizes("test").sum()
    z = model.features(x)
    head = model.params.head
    torch.testing.assert_close(torch.nn.functional.linear(z, head.weight, head.bias), model.scores(x))
    assert isinstance(model.params, Tree) and z.shape[1] == simulation.task.features
