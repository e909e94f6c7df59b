"""The clients' models of a simulation, to be looked at: their features and scores on any samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pflrepro.algorithms.phases import Clock
from pflrepro.algorithms.task import Context
from pflrepro.errors import UserError
from pflrepro.markup import facts
from pflrepro.simulation.computing import computing
from pflrepro.simulation.launch import Launch
from pflrepro.simulation.loop import Loop, Participant
from pflrepro.simulation.program import Program
from pflrepro.simulation.simulation import Simulation
from pflrepro.simulation.start import check_place
from pflrepro.trees import Tree, stack

ROWS = 500  # samples that go through a network at once


@dataclass(frozen=True, repr=False)
class ClientModel:
    """One client's model as the method would test it.

    Attributes:
        client: its number.
        params, statistics: parameters by group, running statistics by role.
        program, received, row, clock: what the method's functions are called with.
    """

    client: int
    params: Tree
    statistics: Tree
    program: Program
    received: Tree
    row: Tree
    clock: Clock

    def __repr__(self) -> str:
        return f"ClientModel(client {self.client}, {self.program.method!r}: {self.params!r})"

    def _repr_html_(self) -> str:
        shown = facts(f"the model of client {self.client}", {"method": self.program.method})
        trees = (self.params, self.statistics)
        return shown + "".join(tree._repr_html_() for tree in trees if tree.has_leaves())

    @property
    def context(self) -> Context:
        """The moment in which this model is looked at: evaluation mode, the role that is tested."""
        role = self.program.method.roles[-1]
        ctx = self.program.context(self.received, self.row, self.program.scalars(None, self.clock))
        return ctx.at(buffers=self.statistics.get(role, Tree()), role=role)

    def scores(self, x: Tensor) -> Tensor:
        """[n, C], the largest wins: `Method.predict`; x [n, ...] is normalised as in training (see `Federation.batch`)."""
        return self._through(lambda part: self.program.method.predict(self.params, part, self.context), x)

    def features(self, x: Tensor) -> Tensor:
        """z [n, K], the output of the base."""
        return self._through(lambda part: self.program.method.forward(self.params, part, self.context).z, x)

    def _through(self, function, x: Tensor) -> Tensor:
        with torch.no_grad():
            return torch.cat([function(part) for part in x.split(ROWS)])


def client_models(
    simulation: Simulation, index: int = 0, after: bool = False, adapted: bool = True
) -> list[ClientModel]:
    """The models of all clients of seed number `index`, with what they receive now.

    `after` False: before local training, adapted where the method adapts (as the curve's last point). True: after the local training
    of a further round, which is run on copies; the simulation stays as it is. `adapted` False leaves out what a method adapts before
    its tests (FedBABU's fine-tuning).
    """
    check_replica(simulation, index)
    dispatcher = simulation.dispatcher
    program = dispatcher.program(Loop())
    clock, everyone = dispatcher.clock(simulation.round), np.arange(simulation.task.clients)
    if after:
        launch = further_round(simulation, program, index, everyone)
    else:
        launch = dispatcher.test_launch(program, simulation.replicas[index], clock, everyone)
        launch.adapt, launch.adapt_tables = (launch.adapt, launch.adapt_tables) if adapted else ([], [])
    with computing(simulation.device), torch.no_grad():
        return [_model(program, launch, i, after, clock) for i in range(len(launch))]


def notes(simulation: Simulation, index: int = 0) -> dict[str, np.ndarray]:
    """What the method of seed number `index` finds while it adapts before a test (`Method.notes`): name -> one row a client [N, ...].

    pFedFDA: `beta` [N, 2]; APFL: `alpha` [N]; most methods: nothing. The adaptation is run on copies, as for a test of every client
    with what it receives now.

    Example:
        >>> import pflrepro
        >>> experiment = pflrepro.Experiment.for_dataset("pfedfda", "digits", clients=3, rounds=2)
        >>> notes(pflrepro.simulate(experiment, rounds=1, workers=1))["beta"].shape
        (3, 2)
    """
    check_replica(simulation, index)
    dispatcher = simulation.dispatcher
    program, everyone = dispatcher.program(Loop()), np.arange(simulation.task.clients)
    launch = dispatcher.test_launch(program, simulation.replicas[index], dispatcher.clock(simulation.round), everyone)
    with computing(simulation.device), torch.no_grad():
        each = [Participant(program, launch, i) for i in range(len(launch))]
        rows = [program.notes(*participant.of_row, participant.adapt()) for participant in each]
    return {name: leaf.cpu().numpy() for name, leaf in stack(rows).flat().items()}


def check_replica(simulation: Simulation, index: int) -> None:
    """`UserError` unless `index` is the number of one of the simulation's seeds, 0..S-1, and it is a simulation."""
    if not isinstance(simulation, Simulation):
        kind = type(simulation).__name__
        raise UserError(f"the models of a {kind} are not at hand: pflrepro.revive(run) gives a simulation to look into")
    check_place(index, simulation.seeds)


def further_round(simulation: Simulation, program: Program, index: int, clients: np.ndarray) -> Launch:
    """The local training of the next round, of `clients` of seed number `index` alone; nothing of it flows back."""
    check_replica(simulation, index)
    clock, mine = simulation.dispatcher.clock(simulation.round), simulation.replicas[index]
    cohorts = [clients if replica is mine else clients[:0] for replica in simulation.replicas]
    return simulation.dispatcher.launch(program, clock, cohorts, program.phases(clock))


def samples(simulation: Simulation, client: int | None = None, split: str = "test") -> tuple[Tensor, Tensor]:
    """(x, y) of one client's samples, or of all clients' pooled; x as it is trained on."""
    rows = simulation.federation.rows[split]
    chosen = np.concatenate(rows) if client is None else rows[client]
    index = torch.as_tensor(chosen, device=simulation.device)
    return simulation.federation.batch(index, simulation.dtype)


def _model(program: Program, launch: Launch, i: int, after: bool, clock: Clock) -> ClientModel:
    participant = Participant(program, launch, i, training=after)
    if after:
        local = participant.train()
        params, statistics = program.trained(*participant.of_row, local), local.get("buffers", Tree())
    else:
        params, statistics = participant.tested()
    return ClientModel(launch.keys[i][1], params, statistics, program, *launch.row(i), clock)
