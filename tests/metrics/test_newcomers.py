"""New clients, and plain fine-tuning: against hand-made simulations, and where two ways must agree to the last bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import equal

import pflrepro
from pflrepro.algorithms.registry import names
from pflrepro.data.federation import Federation
from pflrepro.data.partitions.parse import new_clients
from pflrepro.errors import UserError
from pflrepro.metrics.newcomers import arrived, newcomers, tuned
from pflrepro.papers.model_measures import NOT_TO_JOIN
from pflrepro.simulation import Simulation
from pflrepro.simulation.inspection import client_models

OLD, NEW = new_clients("dirichlet:0.5", 4, 4)
ASKED = {"clients": 4, "model": "cnn-digits", "lr": 0.05, "dtype": "float64", "fit_batch": True}


def experiment(name: str, partition: str = OLD, **changes) -> pflrepro.Experiment:
    return pflrepro.Experiment.for_dataset(name, "digits", partition=partition, **({"rounds": 2} | ASKED | changes))


def trained(name: str, **changes) -> Simulation:
    return pflrepro.simulate(experiment(name, **changes), backend="loop", workers=1)


@pytest.fixture(scope="module")
def fedavg() -> Simulation:
    return trained("fedavg")


@pytest.fixture(scope="module")
def later(tmp_path_factory) -> Federation:
    return pflrepro.load_federation(experiment("fedavg", NEW).data)


def share(simulation: Simulation, name: str = "correct") -> np.ndarray:
    history = simulation.history(0)
    return history[name][-1] / history["test_samples"]


def test_as_they_arrive_they_are_tested_with_the_trained_server(later) -> None:
    """The recipe by hand; a change of the other half of a partition's clients alone."""
    old = trained("pfedfda")
    settings = replace(old.settings, rounds=0)
    by_hand = Simulation(old.method, later, "cnn-digits", settings, [0], backend="loop", workers=1, dtype="float64")
    by_hand.replicas[0].server = old.replicas[0].server
    by_hand.step()
    before = old.state()
    found = newcomers(old, later)
    assert found.values.tolist() == share(by_hand).tolist()
    assert all(equal(value, before[name]) for name, value in old.state().items())
    assert found.weighted == pytest.approx(by_hand.history(0)["correct"][-1].sum() / found.samples.sum())
    own = arrived(old, later).federation.rows["train"]
    assert not set(np.concatenate(own)) & set(np.concatenate(old.federation.rows["train"]))


@pytest.mark.parametrize("parts", ["all", "head"])
def test_tuning_fedavg_is_fedavgft_to_the_bit(fedavg, parts: str) -> None:
    expected = trained("fedavgft", options={"tune_epochs": 3, "tune_parts": parts})
    assert tuned(fedavg, 3, parts).values.tolist() == share(expected).tolist()
    assert tuned(fedavg, 0).values.tolist() == share(fedavg).tolist()


def test_tuning_leaves_out_what_a_method_adapts() -> None:
    """FedBABU's copies start from the global model, not from those that it has fine-tuned for its own test."""
    babu = trained("fedbabu", options={"tune_epochs": 2})
    assert tuned(babu, 2).values.tolist() == share(babu).tolist()


def test_rounds_alone_of_fedavg_are_full_batch_epochs(fedavg, later) -> None:
    """With one batch an epoch, rounds of one client are plain fine-tuning: nothing is left of the order of samples."""
    whole = trained("fedavg", batch_size=1000)
    own, plain = newcomers(whole, later, "own", 3), newcomers(whole, later, "plain", 3)
    assert own.values.tolist() == plain.values.tolist()
    assert not np.array_equal(own.values, newcomers(whole, later).values)
    assert own.samples.tolist() == later.sizes("test").tolist()


@pytest.mark.parametrize("work", [{"local_epochs": 3}, {"local_steps": 2}])
def test_own_rounds_are_those_of_a_federation_of_one(later, work) -> None:
    """FedPer: the received base, the head as first drawn, two rounds of one local epoch, whatever the old clients did in one."""
    old = trained("fedper", **work)
    settings = replace(old.settings, rounds=2, local_epochs=1, local_steps=0)
    expected = []
    for client in range(4):
        alone = Federation(
            later.x,
            later.y,
            *([later.rows[split][client]] for split in ("train", "test")),
            classes=10,
            unit=later.unit,
        )
        one = Simulation(old.method, alone, "cnn-digits", settings, [0], backend="loop", workers=1, dtype="float64")
        one.replicas[0].server = old.replicas[0].server
        while not one.finished:
            one.step()
        expected.append(share(one, "correct_after")[0])
    assert newcomers(old, later, epochs=2).values.tolist() == expected


def test_copies_of_shared_parts_start_with_the_trained_ones(later) -> None:
    for name, group in (("ditto", "base"), ("fedrod", "personal_head")):
        old = trained(name)
        new, server = arrived(old, later).replicas[0], old.replicas[0].server.params
        leaf = next(path for path in new.clients.flat() if group in path and "weight" in path)
        source = server.head.weight if name == "fedrod" else server.base[leaf.split("/")[-1]]
        assert torch.equal(new.clients.flat()[leaf][3], source)


def test_what_the_server_keeps_a_client_is_the_old_clients_mean(later) -> None:
    """FedPAC's heads; told from a leaf of equal length by the number of clients that it grows with."""
    old = trained("fedpac")
    new, source = arrived(old, later).replicas[0].server, old.replicas[0].server
    torch.testing.assert_close(new.heads.weight, source.heads.weight.mean(0).expand(4, -1, -1))
    assert torch.equal(new.centroids, source.centroids) and torch.equal(
        new.params.base["0.weight"], source.params.base["0.weight"]
    )
    model = client_models(arrived(old, later))[2]
    torch.testing.assert_close(model.params.head.weight, source.heads.weight.mean(0))


def test_no_prologue_is_run_again_and_dbe_s_bias_is_trained(later) -> None:
    old = trained("fedavg+dbe", options={"mr_momentum": 0.5})
    alone = arrived(old, later.part([1]), rounds=1, workers=1)
    assert torch.equal(alone.replicas[0].server.zbar, old.replicas[0].server.zbar)
    while not alone.finished:
        alone.step()
    assert torch.equal(alone.replicas[0].server.zbar, old.replicas[0].server.zbar)
    assert alone.replicas[0].clients.params.bias.b.abs().max() > 0
    assert newcomers(old, later, epochs=1).values[1] == share(alone, "correct_after")[0]


def test_a_new_client_of_fedfomo_starts_from_the_models_of_old_ones(later) -> None:
    """Those stay as they are, it takes the first place among them, and its first mixture is of the ones it was sent."""
    old = trained("fedfomo", options={"models": 4})
    source, alone = old.replicas[0].server, arrived(old, later.part([2]), rounds=1, workers=1)
    before = alone.replicas[0].server
    assert torch.equal(before.P[0], torch.eye(5, dtype=torch.float64)[0]) and torch.equal(before.P[1:, 1:], source.P)
    while not alone.finished:
        alone.step()
    after, client = alone.replicas[0].server, alone.replicas[0].clients
    assert all(
        torch.equal(now[1:], theirs) for now, theirs in zip(after.models.leaves(), source.models.leaves(), strict=True)
    )
    w = after.P[0] - before.P[0]
    assert w[0] == 0 and w[4] == 0 and w.max() > 0  # its own model is no gain, four of five were sent
    share = w.clamp(min=0) / w.clamp(min=0).sum()
    mixture = before.models.map(lambda models: torch.tensordot(share, models, 1))
    for path, leaf in mixture.flat().items():
        torch.testing.assert_close(client.old.flat()[path][0], leaf)
    assert newcomers(old, later, epochs=1).values[2] == pytest.approx(
        alone.history(0)["correct_after"][-1][0] / alone.history(0)["test_samples"][0]
    )


def test_a_newcomer_with_nothing_to_train_on_is_tested_as_it_arrives(fedavg, later) -> None:
    poor = later.part(range(4))
    poor.rows["train"][1] = poor.rows["train"][1][:0]
    found, there, all_of_it = (
        newcomers(fedavg, poor, epochs=1),
        newcomers(fedavg, later),
        newcomers(fedavg, later, epochs=1),
    )
    assert found.values[1] == there.values[1]
    assert [found.values[client] for client in (0, 2, 3)] == [all_of_it.values[client] for client in (0, 2, 3)]


@pytest.mark.parametrize("name", names())
def test_new_clients_arrive_at_every_method_but_those_declared(name: str, later) -> None:
    old = trained(name, rounds=1, local_steps=1)
    if name in dict(NOT_TO_JOIN):
        with pytest.raises(UserError, match="a number for each client that trained, and none for a new one"):
            arrived(old, later)
    else:
        assert len(client_models(arrived(old, later))) == later.clients


def test_what_cannot_be_done_is_refused(fedavg, later) -> None:
    with pytest.raises(UserError, match=r"way to adapt new clients.*own, plain"):
        newcomers(fedavg, later, "tuned")
    with pytest.raises(UserError, match="epochs"):
        newcomers(fedavg, later, epochs=-1)
    with pytest.raises(UserError, match="the base and head of cnn-digits"):
        tuned(trained("moon/fedbr", rounds=1), 1)


def test_a_part_of_a_federation_has_the_same_samples(later) -> None:
    part = later.part([3, 1])
    assert part.clients == 2 and part.x is later.x
    assert [rows.tolist() for rows in part.rows["train"]] == [later.rows["train"][i].tolist() for i in (3, 1)]
    assert part.sizes("test").tolist() == later.sizes("test")[[3, 1]].tolist()


def test_what_a_protocol_has_of_its_own_in_the_first_round_is_none_of_the_newcomers(later) -> None:
    """First weights of their own, a first round of one step: new clients start at the trained server, with the usual steps."""
    first = trained("fedavg", local_steps=2, first_steps=1, first_weights="slots")
    usual = trained("fedavg", local_steps=2)
    usual.replicas[0].server = first.replicas[0].server
    for how in ("own", "plain"):
        found = [newcomers(each, later, how=how, epochs=1).values for each in (first, usual)]
        np.testing.assert_array_equal(*found)
    np.testing.assert_array_equal(tuned(first, epochs=0).values, share(first))
