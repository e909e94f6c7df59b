"""FedFomo: its weights, its mixing, what the server keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
import torch.nn.functional as F
from helpers.trees import assert_close

from pflrepro.algorithms import build_method
from pflrepro.algorithms.local import Local
from pflrepro.errors import UserError
from pflrepro.models import build_model
from pflrepro.trees import Tree


@dataclass(frozen=True)
class LocalOnFourFifths(Local):
    """Local training without the validation part."""

    holdout: ClassVar[float] = 0.2


def validation_loss(simulation, params: Tree, client: int) -> float:
    split = build_model("mlp", simulation.federation.shape, simulation.federation.classes, 0)
    model = torch.nn.ModuleDict({"base": split.base, "head": split.head}).double()
    model.load_state_dict({path.replace("/", ".", 1): value for path, value in params.flat().items()})
    x, y = simulation.federation.batch(torch.as_tensor(simulation.federation.rows["valid"][client]), torch.float64)
    with torch.no_grad():
        return float(F.cross_entropy(model["head"](model["base"](x)), y))


@pytest.mark.parametrize("settings", [{}, {"participation": 0.6, "momentum": 0.5}])
def test_with_its_own_model_as_only_candidate_a_client_trains_alone(simulate, settings: dict) -> None:
    ours = simulate("fedfomo", rounds=3, options={"models": 1}, **settings).replicas[0]
    assert_close(ours.clients.params, simulate(LocalOnFourFifths(), rounds=3, **settings).replicas[0].clients.params)


def test_the_second_round_by_hand(simulate) -> None:
    """w_n = (L(old) - L(theta_n)) / (|theta_n - old| + 1e-5), theta <- sum_n w~_n theta_n, P grows."""
    before, after = (simulate("fedfomo", rounds=rounds, options={"models": 3}) for rounds in (1, 2))
    server, clients = before.replicas[0].server, before.replicas[0].clients
    assert torch.equal(server.P, torch.eye(5, dtype=torch.float64))  # equal models in the first round: nobody gains
    mixed_somewhere = False
    for i in range(5):
        chosen = sorted(
            {i, *[n for n in range(5) if n != i][:2]}, key=lambda n, i=i: (n != i, n)
        )  # its own, then the lowest ids
        old, weights = clients.old[i], {}
        for n in chosen if len(before.federation.rows["valid"][i]) else ():
            away = (server.models[n] - old).flat().values()
            distance = sum(float((leaf**2).sum()) for leaf in away) ** 0.5
            if distance > 0:
                gain = validation_loss(before, old, i) - validation_loss(before, server.models[n], i)
                weights[n] = gain / (distance + 1e-5)
        positive = {n: w for n, w in weights.items() if w > 0}
        share = {n: w / sum(positive.values()) for n, w in positive.items()}
        expected = clients.params[i]
        if share:
            expected, mixed_somewhere = clients.params[i] * 0.0, True
            for n, w in share.items():
                expected = expected + server.models[n] * w
        assert_close(after.replicas[0].clients.old[i], expected, 1e-10)
        growth = after.replicas[0].server.P[i] - server.P[i]
        for n in range(5):
            assert float(growth[n]) == pytest.approx(weights.get(n, 0.0), abs=1e-10)
    assert mixed_somewhere


def test_the_server_keeps_every_clients_last_model(simulate) -> None:
    replica = simulate("fedfomo", rounds=3, participation=0.6).replicas[0]
    assert_close(replica.server.models, replica.clients.params, 0)


def test_validation_data_is_a_fifth_and_not_trained_on(simulate) -> None:
    simulation = simulate("fedfomo", rounds=0)
    sizes = simulation.federation.sizes("train") + simulation.federation.sizes("valid")
    assert simulation.federation.sizes("valid").tolist() == [int(n * 0.2) for n in sizes]
    for train, valid in zip(simulation.federation.rows["train"], simulation.federation.rows["valid"], strict=True):
        assert not set(train.tolist()) & set(valid.tolist())


@pytest.mark.parametrize("name", ["fedfomo", "fedfomo+mr"])
def test_more_models_than_clients_are_all_of_them(simulate, name: str) -> None:
    some, all_of_them = (simulate(name, options={"models": count}).replicas[0] for count in (5, 50))
    assert_close(some.clients, all_of_them.clients, 0)


def test_no_models_are_refused() -> None:
    with pytest.raises(UserError, match="option models of fedfomo must be a whole number >= 1 and <= 1,000,000, not 0"):
        build_method("fedfomo", {"models": 0})
