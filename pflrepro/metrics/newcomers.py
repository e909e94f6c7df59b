"""What a trained model is worth to clients that did not train it, and to its own clients after plain fine-tuning.

trained = pflrepro.simulate(experiment)
federation = pflrepro.load_federation(later.data)
newcomers(trained, federation).weighted
tuned(trained, epochs=5).weighted

Everything is done on copies; the simulation that is looked at stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pflrepro.algorithms.finetuning import FineTuning
from pflrepro.algorithms.local import Local
from pflrepro.algorithms.task import Setup
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError, check_range, check_word
from pflrepro.markup import BriefArrays
from pflrepro.models import build_model
from pflrepro.models.split import parameters_of
from pflrepro.simulation.inspection import check_replica, client_models
from pflrepro.simulation.simulation import Simulation
from pflrepro.simulation.start import setup_of, task_of
from pflrepro.trees import Tree, stack

NETWORK = ("base", "head")
HOW = ("own", "plain")
# What a protocol has of its own in a run's first round is over.
ORDINARY = {"first_weights": "common", "first_steps": 0}


@dataclass(frozen=True, eq=False, repr=False)
class PerClient(BriefArrays):
    """One number a client: `values` [N], NaN where there is none; `samples` [N] test samples behind each.

    Example:
        >>> PerClient(np.array([0.25, 1.0, np.nan]), np.array([4, 8, 0])).weighted
        0.75
    """

    values: np.ndarray
    samples: np.ndarray

    @property
    def weighted(self) -> float:
        """Mean weighted with the test samples [LIB]; of accuracies, the pooled accuracy."""
        there = ~np.isnan(self.values)
        weight = np.where(there, self.samples, 0)
        return float(np.where(there, self.values, 0) @ weight / weight.sum()) if weight.sum() else float("nan")


def newcomers(
    simulation: Simulation,
    federation: Federation,
    how: str = "own",
    epochs: int = 0,
    parts: str = "all",
    index: int = 0,
) -> PerClient:
    """Accuracy of clients that come when the training of seed number `index` is over, on their test parts, as fractions.

    A new client receives what the server would send and starts as every client did, with the trained parameters wherever it starts
    with a copy of the shared ones (Ditto's v, FedRoD's personal head); parts that only clients hold (FedPer's head) start as they were
    first drawn. What the server keeps a client (FedPAC's heads) is the old clients' mean [inferred]; where it holds a model of every
    client (FedFomo), those of the old clients stay as they are and the new one comes first [inferred: it starts from client models,
    DBE App. D.4].

    Args:
        federation: the new clients.
        index: which of the simulation's seeds.
        how: `own`, the method's own way: `epochs` rounds of one local epoch without aggregation, a client's uploads come back to itself
            alone; tested right after the last of them ("method-specific warm-up", 10 epochs [DBE App. D.4]; rounds, so that every
            phase of a method has its share [inferred]). 0: tested as it arrives, adapted where the method adapts before a test
            (pFedFDA fits its classifier, FedAvg does nothing [FDA]). `plain`: cross-entropy on the network alone, see `tuned` (5 epochs
            [FDA]; 10 for FedAvg, Per-FedAvg and FedBABU [DBE App. D.4], on the platform for every method [LIB]).
        parts: what `plain` trains, `all`, `head` or `base`.

    Raises `UserError` for a method whose clients hold a number for each of the others (APPLE's weights): they have none for a new one.

    Example, whose server has been trained by the first three of five clients:
        >>> import pflrepro
        >>> from pflrepro.data.partitions.parse import new_clients
        >>> old, new = new_clients("dirichlet:0.5", 3, 2)
        >>> first = pflrepro.Experiment.for_dataset("fedavg", "digits", partition=old, clients=3, rounds=2)
        >>> trained = pflrepro.simulate(first, rounds=1, workers=1)
        >>> later = pflrepro.load_federation(pflrepro.DataConfig("digits", new, clients=2))
        >>> newcomers(trained, later).values.shape
        (2,)
    """
    check_word("way to adapt new clients", how, HOW)
    check_range("epochs", epochs, 0, integer=True)
    if how == "plain":
        return tuned(arrived(simulation, federation, index), epochs, parts)
    if epochs == 0:
        return _tested(arrived(simulation, federation, index), "correct")
    rounds = {"rounds": epochs, "local_epochs": 1, "local_steps": 0, "every": epochs, "evaluate_after": True}
    found = []
    for client in range(federation.clients):
        one = federation.part([client])
        if len(one.rows["train"][0]):
            found.append(_tested(arrived(simulation, one, index, workers=1, **rounds), "correct_after"))
        else:  # who has nothing to train on is tested as it arrives
            found.append(_tested(arrived(simulation, one, index), "correct"))
    return PerClient(*(np.concatenate([getattr(one, name) for one in found]) for name in ("values", "samples")))


def tuned(simulation: Simulation, epochs: int = 5, parts: str = "all", index: int = 0) -> PerClient:
    """Accuracy of the clients' models after plain fine-tuning, on their test parts, as fractions.

    Every client copies base and head of what the method would test, not adapted, and trains them on its training data by the run's
    SGD with fresh momentum, on cross-entropy alone: w <- w - eta grad l_i(w). What else a method has (DBE's bias, FedRoD's second
    head) is left out. On FedAvg this is FedAvgFT, number for number.

    Args:
        epochs: 5 [FDA-code]; 0: the copies as they are.
        parts: `all`, only the `head` or only the `base`.
        index: which of the simulation's seeds.

    Example:
        >>> import pflrepro
        >>> experiment = pflrepro.Experiment.for_dataset("fedavg", "digits", clients=3, rounds=2)
        >>> trained = pflrepro.simulate(experiment, rounds=1, workers=1)
        >>> tuned(trained, epochs=1).weighted > 0
        True
    """
    models = client_models(simulation, index, adapted=False)
    role, method = simulation.method.roles[-1], LocalFineTuning(tune_parts=parts, tune_epochs=epochs)
    settings = {"rounds": simulation.round, "receivers": "all", "statistics": "personal", **ORDINARY}
    copies = _simulation(simulation, method, simulation.federation, index, settings)
    copies.round = simulation.round  # whose batches are drawn
    start, replica = stack([model.params.only(NETWORK) for model in models]), copies.replicas[0]
    if _shapes(replica.clients.params) != _shapes(start):
        raise UserError(
            f"plain fine-tuning needs the base and head of {simulation.model}; those of {type(simulation.method).__name__} are others"
        )
    replica.clients = replica.clients | Tree(params=start)
    if replica.kept.has_leaves():
        replica.kept = Tree(shared=stack([model.statistics[role].only(NETWORK) for model in models]))
    return _tested(copies, "correct")


class LocalFineTuning(FineTuning, Local):
    """Every client holds a model, a tuned copy of which is tested."""


def arrived(
    simulation: Simulation, federation: Federation, index: int = 0, workers: int | None = None, **changes: Any
) -> Simulation:
    """New clients with the trained server of seed number `index`, before their first round; see `newcomers`.

    Args:
        changes: of `Settings`; by default no round, all clients take part and receive.
    """
    method = simulation.method
    check_replica(simulation, index)
    settings = {"rounds": 0, "participation": 1.0, "participation_low": 0.0, "receivers": "all", **ORDINARY} | changes
    new = _simulation(simulation, method, federation, index, settings, workers)
    trained, replica = simulation.replicas[index], new.replicas[0]
    everyone = list(range(federation.clients))
    setup, larger = (_setup(new, trained.server, federation.part(some)) for some in (everyone, [*everyone, 0]))
    kept = _joined if method.server_store else _mean_row
    replica.server = trained.server.map(kept, method.init_server(setup), method.init_server(larger))
    held = replica.server.get("params", Tree())
    parts = {name: replace(part, params=held.get(name, part.params)) for name, part in setup.parts.items()}
    setup = replace(setup, parts=parts)
    replica.clients = stack([method.init_client(setup, setup.info[client]) for client in everyone])
    if _shapes(replica.clients[0]) != _shapes(method.init_client(larger, larger.info[0])):
        raise UserError(
            f"a client of {type(method).__name__} holds a number for each client that trained, and none for a new one"
        )
    replica.averaged = trained.averaged
    new.prologue_done = True  # the trained server has been through it
    return new


def _mean_row(trained: Tensor, mine: Tensor, larger: Tensor) -> Tensor:
    """A leaf of the trained server; where it grows with the number of clients it has a row each: the mean row, for every new client."""
    if mine.shape == larger.shape:
        return trained
    return trained.double().mean(0, keepdim=True).to(trained.dtype).expand_as(mine).clone()


def _joined(trained: Tensor, mine: Tensor, larger: Tensor) -> Tensor:
    """A leaf of a server that holds something of every client: the new clients' first, then what the trained one has, else 0."""
    if mine.shape == larger.shape:
        return trained
    if mine.shape[1:] == larger.shape[1:]:
        return torch.cat([mine, trained])
    return torch.block_diag(mine, trained)  # a number a pair of clients


def _shapes(tree: Tree) -> dict[str, Any]:
    return {path: leaf.shape for path, leaf in tree.flat().items()}


def _simulation(
    simulation: Simulation,
    method: Any,
    federation: Federation,
    index: int,
    changes: dict[str, Any],
    workers: int | None = None,
) -> Simulation:
    """A simulation of another method or other clients, otherwise as that of one seed."""
    return Simulation(
        method,
        federation,
        simulation.model,
        replace(simulation.settings, **changes),
        [simulation.seeds[index]],
        backend="loop" if workers == 1 else simulation.backend.name,
        workers=workers,
        dtype=str(simulation.dtype).removeprefix("torch."),
    )


def _setup(simulation: Simulation, server: Tree, federation: Federation) -> Setup:
    """The setup of these clients whose network starts with what the server holds of it."""
    federation = federation.hold_out(simulation.method.holdout)
    seed, held = simulation.seeds[0], server.get("params", Tree())
    network = build_model(simulation.model, federation.shape, federation.classes, seed)
    task = task_of(federation, network, simulation.settings)
    for name in NETWORK:
        module = getattr(network, name).to(simulation.dtype)
        own, theirs = parameters_of(module), held.get(name, Tree())
        if own.keys() == theirs.keys() and all(own[path].shape == theirs[path].shape for path in own):
            module.load_state_dict(dict(theirs), strict=False)
    return setup_of(task, simulation.method, network, seed, simulation.device, simulation.dtype)


def _tested(simulation: Simulation, name: str) -> PerClient:
    """The last test of a simulation's only seed, run to its end; NaN for a client without test samples."""
    simulation.step()  # at its end already: the test alone
    while not simulation.finished:
        simulation.step()
    history = simulation.history(0)
    samples = history["test_samples"]
    there = np.where(samples > 0, history[name][-1], np.nan)
    return PerClient(there / np.maximum(samples, 1), samples)
