"""Who works in a round, and what the clients are sent out with; backends work through what is made here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.phases import Clock, Phase
from pflrepro.algorithms.task import Task
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.settings import Settings
from pflrepro.simulation.failing import pair_of
from pflrepro.simulation.launch import Backend, Launch
from pflrepro.simulation.participants import participants
from pflrepro.simulation.program import TEST, Program
from pflrepro.simulation.replica import Replica
from pflrepro.simulation.schedule import Table, cohort, table
from pflrepro.simulation.source import Supplies
from pflrepro.trees import Tree, concatenate, stack


@dataclass(frozen=True)
class Dispatcher:
    """Makes the launches of a round and of its tests from the state that the replicas are in; it changes none of it.

    Attributes:
        method, task, settings, federation: what is run, by whom.
        kinds: group of parameters -> who holds it (see `Part`).
        dtype: the run's number type.
        replicas: the seeds.
        supplies: seed -> the data that its clients are supplied with.
        first_model: (seed, place) -> the shared parameters that round 0 starts from there, see `Settings.first_weights`.
    """

    method: Method
    task: Task
    kinds: dict[str, str]
    settings: Settings
    federation: Federation
    dtype: torch.dtype
    replicas: Sequence[Replica]
    supplies: Mapping[int, Supplies]
    first_model: Callable[[int, int], Tree]

    @property
    def device(self) -> torch.device:
        """Where the samples are, and the work is done."""
        return self.federation.device

    @cached_property
    def tests(self) -> Table:
        """The test batches of all clients, the same in every round."""
        return table(self.federation, TEST, self.settings, 0, [(0, client) for client in range(self.task.clients)])

    def program(self, backend: Backend, method: Method | None = None) -> Program:
        """The functions of one client for `backend`; `method`: in place of the run's, on the same state."""
        return Program(
            method=method or self.method,
            task=self.task,
            kinds=self.kinds,
            settings=self.settings,
            federation=self.federation,
            dtype=self.dtype,
            differentiate=backend.differentiate,
            settled=backend.settled,
            each=backend.each,
        )

    def clock(self, t: int) -> Clock:
        """Round `t` as host functions see it."""
        return Clock.of(self.settings.at(t), t)

    def cohort(self, replica: Replica, t: int) -> np.ndarray:
        """The clients of round `t` of one seed."""
        return cohort(replica.seed, t, self.task.clients, self.settings)

    def participants(self, replica: Replica, ids: np.ndarray, t: int) -> Tree:
        """The clients `ids` of round `t` as host functions of a method see them."""
        return participants(self.task, self.settings, replica.seed, t, ids, self.dtype)

    def receive(
        self, method: Method, replica: Replica, ids: np.ndarray, t: int, reading: bool = False
    ) -> tuple[Tree, Tree]:
        """(what all of `ids` receive in round `t`, their rows); `reading`: see `Replica.states`."""
        cohort = self.participants(replica, ids, t)
        common, own = pair_of(method.send(replica.server, cohort), method, "send")
        supplied = self.supplies[replica.seed].at(t)
        if supplied is not None:
            common = common | Tree(supplied=supplied)
        received = Tree(common=common, buffers=replica.averaged)
        client, buffers = replica.states(cohort, reading)
        row = Tree(
            own=own,
            client=client,
            info=self.task.info[cohort.id] | cohort.only(["slot"]),
            buffers=buffers,
            steps=Tree(),
        )
        return received, row

    def launch(
        self, program: Program, clock: Clock, cohorts: list[np.ndarray], phases: list[Phase], prefix: str = ""
    ) -> Launch:
        """The local training of one round for the cohorts of all seeds; `prefix` keys a prologue's draws apart."""
        received, rows, keys, seed_of = [], [], [], []
        for s, (replica, ids) in enumerate(zip(self.replicas, cohorts, strict=True)):
            common, row = self.receive(program.method, replica, ids, clock.t)
            if self.settings.first_weights == "slots" and clock.t == 0:
                row["first"] = self._first_models(replica.seed, common.common, row.info.slot.tolist())
            received.append(common)
            rows.append(row)
            keys += [(replica.seed, int(client)) for client in ids]
            seed_of += [s] * len(ids)
        names = [phase.name for phase in phases]
        if len(set(names)) != len(names):
            raise UserError(f"the phases of a round need different names, not {', '.join(names)}")
        working = [phase for phase in phases if phase.where == "clients"]
        settings = self.settings.at(clock.t)
        tables = [table(self.federation, phase, settings, clock.t, keys, prefix) for phase in working]
        stacked = concatenate(rows)
        absent = self.settings.receivers == "selected" and not prefix
        adapt = [phase for phase in phases if phase.where == "adapt"] if absent else []
        adapt_tables = [table(self.federation, phase, self.settings, clock.t + 1, keys) for phase in adapt]
        stacked["steps"] = self._steps([*working, *adapt], [*tables, *adapt_tables])
        return Launch(
            received=received,
            seed_of=np.array(seed_of),
            rows=stacked,
            keys=keys,
            phases=working,
            tables=tables,
            adapt=adapt,
            adapt_tables=adapt_tables,
            test=self.tests.part(np.array([client for _, client in keys], dtype=np.int64)),
            scalars=_scalars(program, [*working, *adapt], clock),
            t=clock.t,
            score_absent=absent,
        )

    def test_launch(
        self, program: Program, replica: Replica, clock: Clock, ids: np.ndarray, reading: bool = False
    ) -> Launch:
        """The test of the clients `ids` with what they receive in round `clock.t`, adapted where the method adapts.

        `reading`: see `Replica.states`; the launch is then of no use once a store has changed.
        """
        adapt = [phase for phase in program.phases(clock) if phase.where == "adapt"]
        received, rows = self.receive(program.method, replica, ids, clock.t, reading)
        keys = [(replica.seed, int(client)) for client in ids]
        adapt_tables = [table(self.federation, phase, self.settings, clock.t, keys) for phase in adapt]
        rows["steps"] = self._steps(adapt, adapt_tables)
        return Launch(
            received=[received],
            seed_of=np.zeros(len(ids), np.int64),
            rows=rows,
            keys=keys,
            adapt=adapt,
            adapt_tables=adapt_tables,
            test=self.tests.part(ids),
            scalars=_scalars(program, adapt, clock),
            t=clock.t,
        )

    def _first_models(self, seed: int, common: Tree, places: list[int]) -> Tree:
        """What stands in a first round at each of `places` for the model that all are sent, a row a place."""
        models = [self.first_model(seed, place) for place in places]
        unsent = [group for group in models[0] if group not in common.params]
        if unsent or not models[0]:
            lacks = f"{unsent[0]!r} is not sent to all alike" if unsent else "nothing is shared"
            raise UserError(f"first_weights=slots needs a method whose clients all receive the server's model: {lacks}")
        return stack(models)

    def _steps(self, phases: list[Phase], tables: list[Table]) -> Tree:
        """phase name -> the number of steps of each row."""
        pairs = zip(phases, tables, strict=True)
        return Tree({phase.name: torch.as_tensor(tab.steps, device=self.device) for phase, tab in pairs})


def _scalars(program: Program, phases: list[Phase], clock: Clock) -> dict[str, Tree]:
    """phase name -> its device scalars; "" for the functions outside of phases."""
    return {phase.name: program.scalars(phase, clock) for phase in phases} | {"": program.scalars(None, clock)}
