"""Local training against torch.optim on plain modules, aggregation, and what is tested."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pflrepro.algorithms.fedavg import FedAvg
from pflrepro.algorithms.local import Local
from pflrepro.algorithms.phases import Phase
from pflrepro.data.federation import Federation
from pflrepro.models import build_model
from pflrepro.models.split import parameters_of
from pflrepro.settings import Settings
from pflrepro.simulation.schedule import batches


def module_of(federation: Federation, model: str = "mlp", seed: int = 0) -> nn.Module:
    network = build_model(model, federation.shape, federation.classes, seed)
    return nn.Sequential(network.base, network.head).double()


def train(
    module: nn.Module, federation: Federation, chosen: Iterable[np.ndarray], optimiser: torch.optim.Optimizer
) -> None:
    for rows in chosen:
        x, y = federation.batch(torch.as_tensor(rows), torch.float64)
        optimiser.zero_grad()
        F.cross_entropy(module(x), y).backward()
        optimiser.step()


def distance(module: nn.Module, params) -> float:
    found = {**{f"0.{n}": v for n, v in params.base.items()}, **{f"1.{n}": v for n, v in params.head.items()}}
    assert found.keys() == dict(module.named_parameters()).keys()
    return max(float((found[name] - value.detach()).abs().max()) for name, value in module.named_parameters())


@pytest.mark.parametrize("backend", ["loop", "batched", "graph"])
@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize(
    "optimiser", [{}, {"momentum": 0.9}, {"weight_decay": 0.1}, {"momentum": 0.5, "weight_decay": 0.1}], ids=str
)
def test_one_client_is_centralised_sgd(simulate, single, backend: str, drop_last: bool, optimiser: dict) -> None:
    settings = {"local_epochs": 2, "batch_size": 16, "lr": 0.1, "drop_last": drop_last}
    simulation = simulate(FedAvg(), federation=single, backend=backend, **settings, **optimiser)
    module = module_of(single)
    for t in range(2):
        fresh = torch.optim.SGD(module.parameters(), lr=0.1, **optimiser)  # momentum starts anew each round
        chosen = batches(single, Phase(), Settings(2, **settings), 0, t, 0, "clients/train")
        assert [len(batch) for batch in chosen] == [16] * 5 * 2, "80 samples"
        train(module, single, chosen, fresh)
    assert distance(module, simulation.replicas[0].server.params) < 1e-12


@pytest.mark.parametrize("backend", ["loop", "batched"])
def test_incomplete_batches_are_averaged_over_their_true_rows(simulate, federation, backend: str) -> None:
    simulation = simulate(Local(), rounds=1, backend=backend, batch_size=4)
    for client in range(5):
        module = module_of(federation)
        chosen = batches(federation, Phase(), simulation.settings, 0, 0, client, "clients/train")
        train(module, federation, chosen, torch.optim.SGD(module.parameters(), lr=0.05))
        assert distance(module, simulation.replicas[0].clients.params[client]) < 1e-12


def test_one_full_step_of_all_clients_is_one_step_on_the_pooled_data(simulate, federation) -> None:
    """sum_i (n_i / n) (w - lr grad L_i) = w - lr grad L, L the mean over all samples: the weights are the sample counts."""
    simulation = simulate(FedAvg(), rounds=1, batch_size=64, lr=0.3)
    module = module_of(federation)
    pooled = np.concatenate(federation.rows["train"])
    train(module, federation, [pooled], torch.optim.SGD(module.parameters(), lr=0.3))
    assert distance(module, simulation.replicas[0].server.params) < 1e-12


def test_only_the_cohort_trains_and_weighs(simulate, federation) -> None:
    simulation = simulate(FedAvg(), rounds=1, batch_size=64, participation=0.4)
    ids = np.flatnonzero(simulation.history(0)["participated"][1])
    assert len(ids) == 2
    module = module_of(federation)
    pooled = np.concatenate([federation.rows["train"][i] for i in ids])
    train(module, federation, [pooled], torch.optim.SGD(module.parameters(), lr=0.05))
    assert distance(module, simulation.replicas[0].server.params) < 1e-12


def test_clients_that_take_no_step_send_back_what_they_received(simulate, federation) -> None:
    simulation = simulate(FedAvg(), rounds=2, batch_size=64, drop_last=True)
    assert distance(module_of(federation), simulation.replicas[0].server.params) < 1e-14


@pytest.mark.parametrize("backend", ["loop", "batched"])
def test_scores_are_those_of_the_module_on_the_test_samples(simulate, federation, backend: str) -> None:
    simulation = simulate(FedAvg(), rounds=1, backend=backend)
    history, module = simulation.history(0), module_of(federation)
    for round_, params in ((0, None), (1, simulation.replicas[0].server.params)):
        if params is not None:
            flat = {**{f"0.{n}": v for n, v in params.base.items()}, **{f"1.{n}": v for n, v in params.head.items()}}
            module.load_state_dict(flat)
        for client, rows in enumerate(federation.rows["test"]):
            x, y = federation.batch(torch.as_tensor(rows), torch.float64)
            logits = module(x)
            assert history["correct"][round_, client] == int((logits.argmax(1) == y).sum())
            summed = F.cross_entropy(logits, y, reduction="sum").item()
            assert history["loss"][round_, client] == pytest.approx(summed, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("backend", ["loop", "batched"])
def test_more_test_samples_than_a_test_batch(simulate, federation, backend: str) -> None:
    rows = np.resize(np.concatenate(federation.rows["test"]), 611)
    large = Federation(federation.x, federation.y, federation.rows["train"][:2], [rows, rows[:4]], classes=6)
    history = simulate(FedAvg(), rounds=0, federation=large, backend=backend).history(0)
    x, y = large.batch(torch.as_tensor(rows), torch.float64)
    logits = module_of(large)(x)
    assert history["correct"][0, 0] == int((logits.argmax(1) == y).sum())
    assert history["loss"][0, 0] == pytest.approx(F.cross_entropy(logits, y, reduction="sum").item(), rel=1e-12)


def test_scores_after_local_training_are_of_the_clients_own_models(simulate, federation) -> None:
    simulation = simulate(FedAvg(), rounds=1)
    for client, rows in enumerate(federation.rows["test"]):
        module = module_of(federation)
        chosen = batches(federation, Phase(), simulation.settings, 0, 0, client, "clients/train")
        train(module, federation, chosen, torch.optim.SGD(module.parameters(), lr=0.05))
        x, y = federation.batch(torch.as_tensor(rows), torch.float64)
        assert simulation.history(0)["correct_after"][1, client] == int((module(x).argmax(1) == y).sum())


def test_training_learns(simulate) -> None:
    simulation = simulate(FedAvg(), rounds=20, lr=0.1, dtype="float32")
    history = simulation.history(0)
    losses = history["loss"].sum(1)
    assert losses[-1] < 0.5 * losses[0]
    seen = history["test_samples"].sum() - 1  # one test sample is of a class that nobody trains on
    assert history["correct"][-1].sum() >= 0.8 * seen


def test_every_seed_has_its_own_start_and_the_federation_is_the_same(start) -> None:
    simulation = start(FedAvg(), seeds=[3, 5])
    for replica, seed in zip(simulation.replicas, (3, 5), strict=True):
        expected = parameters_of(build_model("mlp", (8, 8), 6, seed).head)["weight"]
        assert torch.equal(replica.server.params.head.weight, expected.double())
