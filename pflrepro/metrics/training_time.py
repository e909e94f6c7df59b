"""Where a client's local training of pFedFDA spends its time: run on copies, by the loop backend; the simulation stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
import torch

from pflrepro.algorithms.pfedfda import PFedFDA
from pflrepro.errors import UserError, check_range
from pflrepro.markup import BriefArrays
from pflrepro.simulation.computing import computing
from pflrepro.simulation.inspection import check_replica, further_round
from pflrepro.simulation.loop import Loop, Participant
from pflrepro.simulation.simulation import Simulation
from pflrepro.simulation.watch import now
from pflrepro.trees import Tree


@dataclass(frozen=True, eq=False, repr=False)
class TimeShares(BriefArrays):
    """Where a local iteration of pFedFDA spends its time, in percent, one number a client [N] (its Algorithm 1, lines 7, 8, 9).

    Attributes:
        network: passes through the network.
        estimation: means and covariance.
        interpolation: the search for beta, mixing included.
    """

    network: np.ndarray
    estimation: np.ndarray
    interpolation: np.ndarray


def time_shares(
    simulation: Simulation, index: int = 0, clients: Sequence[int] | None = None, repeat: int = 3
) -> TimeShares:
    """Time the next local training of pFedFDA's clients, on copies [FDA Table 9]; `UserError` for another method.

    Each client is measured `repeat` times, its median shares count, after one training that warms up.

    Args:
        index: number of the seed, of several that train side by side.
        clients: their numbers; default: all.

    Example:
        >>> import pflrepro
        >>> experiment = pflrepro.Experiment.for_dataset("pfedfda", "digits", clients=3, rounds=2)
        >>> simulation = pflrepro.simulate(experiment, rounds=1, workers=1)
        >>> shares = time_shares(simulation, clients=[0], repeat=1)
        >>> round(float(shares.network[0] + shares.estimation[0] + shares.interpolation[0]), 6)
        100.0
    """
    check_range("repeat", repeat, 1, integer=True)
    chosen = _chosen(simulation, index, clients)
    _measured(simulation, index, chosen[:1])
    middle = np.median([_measured(simulation, index, chosen) for _ in range(repeat)], axis=0)
    return TimeShares(*(100.0 * middle / middle.sum(0)))


def _chosen(simulation: Simulation, index: int, clients: Sequence[int] | None) -> np.ndarray:
    host = type(simulation.method)
    if not issubclass(host, PFedFDA):
        raise UserError(f"the time of estimates and interpolation is pFedFDA's; this is {host.__name__}")
    check_replica(simulation, index)
    chosen = np.arange(simulation.task.clients) if clients is None else np.asarray(clients)
    whole = np.issubdtype(chosen.dtype, np.integer)
    if not whole or chosen.ndim != 1 or not len(chosen) or chosen.min() < 0 or chosen.max() >= simulation.task.clients:
        raise UserError(f"clients are numbers in 0..{simulation.task.clients - 1}, one at least, not {clients}")
    return chosen


def _measured(simulation: Simulation, index: int, chosen: np.ndarray) -> np.ndarray:
    """Each client's shares of its time, [3, clients], which sum to 1."""
    clock = partial(now, simulation.device)
    spent = {"estimate": 0.0, "personalise": 0.0}

    def watch(name: str, work: Callable[..., Tree], given: tuple[Any, ...]) -> Tree:
        started = clock()
        result = work(*given)
        spent[name] += clock() - started
        return result

    host = type(simulation.method)

    class Timed(host):
        """The same method with a watch around what follows the passes through the network."""

        def estimate(self, *given: Any) -> Tree:
            return watch("estimate", super().estimate, given)

        def personalise(self, *given: Any) -> Tree:
            return watch("personalise", super().personalise, given)

    watched = Timed(**{field.name: getattr(simulation.method, field.name) for field in fields(simulation.method)})
    rows = []
    for train in _each_training(simulation, index, chosen, watched):
        spent.update(dict.fromkeys(spent, 0.0))
        started = clock()
        train()
        whole = clock() - started
        rows.append([whole - spent["personalise"], spent["estimate"], spent["personalise"] - spent["estimate"]])
    return (np.array(rows) / np.sum(rows, axis=1, keepdims=True)).T


def _each_training(
    simulation: Simulation, index: int, chosen: np.ndarray, method: PFedFDA
) -> Iterator[Callable[[], Tree]]:
    """One function a client that does its local training of the next round by `method`."""
    program = simulation.dispatcher.program(Loop(), method)
    launch = further_round(simulation, program, index, chosen)
    for i in range(len(launch)):
        yield partial(_train, program, launch, i)


def _train(program, launch, i: int) -> Tree:
    with computing(program.federation.device), torch.no_grad():
        return Participant(program, launch, i, training=True).train()
