"""The local training of single clients, to be measured: run on copies, by the loop backend; the simulation stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
import torch

from pflrepro.algorithms.pfedfda import PFedFDA
from pflrepro.errors import UserError
from pflrepro.simulation.computing import computing
from pflrepro.simulation.inspection import check_replica, further_round
from pflrepro.simulation.loop import Loop, Participant
from pflrepro.simulation.simulation import Simulation
from pflrepro.simulation.watch import now
from pflrepro.trees import Tree


def each_training(
    simulation: Simulation, index: int = 0, clients: Sequence[int] | None = None, method: PFedFDA | None = None
) -> Iterator[Callable[[], Tree]]:
    """One function a client that does its local training of the next round, of seed number `index`; `clients` default: all.

    Args:
        method: instead of the simulation's, one with the same state.

    Example:
        >>> import pflrepro
        >>> experiment = pflrepro.Experiment.for_dataset("fedavg", "digits", clients=3, rounds=2)
        >>> simulation = pflrepro.simulate(experiment, rounds=1, workers=1)
        >>> (train,) = each_training(simulation, clients=[1])
        >>> list(train())
        ['params', 'seen']
    """
    check_replica(simulation, index)
    chosen = np.arange(simulation.task.clients) if clients is None else np.asarray(clients)
    whole = np.issubdtype(chosen.dtype, np.integer)
    if not whole or chosen.ndim != 1 or not len(chosen) or chosen.min() < 0 or chosen.max() >= simulation.task.clients:
        raise UserError(f"clients are numbers in 0..{simulation.task.clients - 1}, one at least, not {clients}")
    program = simulation.dispatcher.program(Loop(), method)
    launch = further_round(simulation, program, index, chosen)
    for i in range(len(launch)):
        yield partial(_train, program, launch, i)


def _train(program, launch, i: int) -> Tree:
    with computing(program.federation.device), torch.no_grad():
        return Participant(program, launch, i, training=True).train()


def shares_of_time(
    simulation: Simulation, index: int, clients: Sequence[int] | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Percent of a local training of pFedFDA in the network, in the estimates and in the search for beta, each [N].

    Example:
        >>> import pflrepro
        >>> experiment = pflrepro.Experiment.for_dataset("pfedfda", "digits", clients=3, rounds=2)
        >>> simulation = pflrepro.simulate(experiment, rounds=1, workers=1)
        >>> network, estimates, search = shares_of_time(simulation, index=0, clients=[0])
        >>> round(float(network[0] + estimates[0] + search[0]), 6)
        100.0
    """
    host = type(simulation.method)
    if not issubclass(host, PFedFDA):
        raise UserError(f"the time of estimates and interpolation is pFedFDA's; this is {host.__name__}")
    clock = partial(now, simulation.device)
    spent = {"estimate": 0.0, "personalise": 0.0}

    def watch(name: str, work: Callable[..., Tree], given: tuple[Any, ...]) -> Tree:
        started = clock()
        result = work(*given)
        spent[name] += clock() - started
        return result

    class Timed(host):
        """The same method with a watch around what follows the passes through the network."""

        def estimate(self, *given: Any) -> Tree:
            return watch("estimate", super().estimate, given)

        def personalise(self, *given: Any) -> Tree:
            return watch("personalise", super().personalise, given)

    watched = Timed(**{field.name: getattr(simulation.method, field.name) for field in fields(simulation.method)})
    rows = []
    for train in each_training(simulation, index, clients, watched):
        spent.update(dict.fromkeys(spent, 0.0))
        started = clock()
        train()
        whole = clock() - started
        rows.append([whole - spent["personalise"], spent["estimate"], spent["personalise"] - spent["estimate"]])
    shares = np.array(rows)
    shares = 100.0 * shares / shares.sum(1, keepdims=True)
    return shares[:, 0], shares[:, 1], shares[:, 2]
