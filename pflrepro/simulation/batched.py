"""The `batched` backend: all rows of a launch in one call, by `torch.func.vmap` over stacked trees.

In each phase the rows are sorted by their number of steps, so that the active ones are always a prefix: a client that has
finished costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import grad, vmap

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.phases import Phase
from pflrepro.algorithms.task import never
from pflrepro.simulation.launch import Launch
from pflrepro.simulation.program import TEST, Program
from pflrepro.simulation.schedule import Table
from pflrepro.trees import Tree, concatenate


def differentiate(function: Callable[[Tree], tuple[Tensor, Tree]], params: Tree) -> tuple[Tree, Tree]:
    """(gradients of `function` at `params`, its second output), composable with `vmap`."""
    return grad(function, has_aux=True)(params)


def each(function: Callable[[Tree, Tensor], Tensor], rows: Tree, shared: Tensor) -> Tensor:
    """`function` of every row and of `shared`, at once."""
    return vmap(function, in_dims=(0, None))(rows, shared)


class Batched:
    """All rows at once."""

    name = "batched"
    differentiate = staticmethod(differentiate)
    settled = staticmethod(never)
    each = staticmethod(each)

    def participate(self, program: Program, launch: Launch) -> Tree:
        if _large(program.method) and len(launch.received) > 1:
            return _seed_by_seed(launch, lambda part: self.participate(program, part))
        mapped = Mapped(program, launch)
        scalars = launch.scalars[""]
        with torch.no_grad():
            local = self.run_phases(program, mapped, launch, mapped(program.begin, scalars))
            result = mapped(program.finish, scalars, local)
            if launch.score_after or launch.score_absent:
                params = mapped(program.trained, scalars, local)
                if launch.score_after:
                    result["after"] = self.score(program, mapped, launch, params, local.get("buffers", Tree()))
                if launch.score_absent:
                    adapted = self.run_phases(program, mapped, launch, local | Tree(params=params), adapting=True)
                    result["absent"] = self.score(
                        program, mapped, launch, adapted.params, adapted.get("buffers", Tree())
                    )
        return result

    def evaluate(self, program: Program, launch: Launch) -> Tree:
        if len(launch.received) > 1:  # so the shared parameters stay unstacked, one copy for all clients of a seed
            return _seed_by_seed(launch, lambda part: self.evaluate(program, part))
        mapped = Mapped(program, launch)
        scalars = launch.scalars[""]
        with torch.no_grad():
            if launch.adapt:
                local = mapped(program.begin_adapting, scalars)
                local = self.run_phases(program, mapped, launch, local, adapting=True)
                return self.score(program, mapped, launch, local.params, local.get("buffers", Tree()))
            params = mapped(program.tested, scalars)
            statistics = mapped(lambda rec, row, sc: program.statistics(rec, row), scalars)
            return self.score(program, mapped, launch, params, statistics, one_copy=_one_copy(program, launch))

    def run_phases(self, program: Program, mapped: Mapped, launch: Launch, local: Tree, adapting: bool = False) -> Tree:
        """`local` [m, ...] after the phases of local training, or after those of adaptation."""
        for phase, table in launch.work(adapting):
            local = self.run_phase(program, mapped, phase, table, local, launch.scalars[phase.name])
        return local

    def run_phase(
        self, program: Program, mapped: Mapped, phase: Phase, table: Table, local: Tree, scalars: Tree
    ) -> Tree:
        """`local` [m, ...] after the phase."""
        order = np.argsort(-table.steps, kind="stable")
        device = program.federation.device
        back = torch.as_tensor(np.argsort(order), device=device)
        mapped = mapped.part(order)
        local = local[torch.as_tensor(order, device=device)]
        local = mapped(lambda rec, row, sc, loc: program.enter(sc, loc, phase), scalars, local)
        sums = self._zero_sums(program, mapped, phase, local, scalars)
        local, sums = self.work(program, mapped, phase, table.part(order), local, sums, scalars)
        local = mapped(
            lambda rec, row, sc, loc, tot: program.leave(rec, row, sc, loc, tot, phase), scalars, local, sums
        )
        return local[back]

    def work(
        self, program: Program, mapped: Mapped, phase: Phase, table: Table, local: Tree, sums: Tree, scalars: Tree
    ) -> tuple[Tree, Tree]:
        """(`local`, `sums`) after all batches of rows that are sorted by their number of steps, longest first."""
        one = one_batch(program, phase)
        batches = DeviceTable(program, phase, table)
        finished: list[tuple[Tree, Tree]] = []
        active = mapped.count
        for k in range(table.longest):
            still = int((table.steps > k).sum())
            if still < active:
                finished.append((local[still:active], sums[still:active]))
                local, sums, active = local[:still], sums[:still], still
            local, sums = mapped.prefix(active)(one, scalars, local, sums, batches.step(k, active))
        parts = [(local, sums), *reversed(finished)]
        return concatenate([part[0] for part in parts]), concatenate([part[1] for part in parts])

    def _zero_sums(self, program: Program, mapped: Mapped, phase: Phase, local: Tree, scalars: Tree) -> Tree:
        if not phase.scan:
            return Tree()
        empty = program.no_samples(phase)

        def observe(received: Tree, row: Tree, sc: Tree, loc: Tree) -> Tree:
            return program.observe(loc, empty, program.context(received, row, sc, phase)).map(torch.zeros_like)

        return mapped(observe, scalars, local)

    def score(
        self,
        program: Program,
        mapped: Mapped,
        launch: Launch,
        params: Tree,
        statistics: Tree,
        one_copy: tuple[str, ...] = (),
    ) -> Tree:
        """`correct` and `loss` [m] over the test batches; the groups `one_copy` are equal in all rows and stay unstacked."""
        table, scalars = launch.test, launch.scalars[""]
        order = np.argsort(-table.steps, kind="stable")
        device = program.federation.device
        rows, back = torch.as_tensor(order, device=device), torch.as_tensor(np.argsort(order), device=device)
        mapped, table = mapped.part(order), table.part(order)
        single = Tree({name: params[name][0] for name in one_copy})
        params, statistics = params.without(one_copy)[rows], statistics[rows]
        batches = DeviceTable(program, TEST, table)
        zeros = torch.zeros(len(order), dtype=program.dtype, device=device)
        total = Tree(correct=zeros, loss=zeros)

        def one(received: Tree, row: Tree, sc: Tree, own: Tree, kept: Tree, batch: Tree) -> Tree:
            return program.score(received, row, sc, single | own, kept, batch)

        for k in range(table.longest):
            active = int((table.steps > k).sum())
            prefix = slice(0, active)
            new = mapped.prefix(active)(one, scalars, params[prefix], statistics[prefix], batches.step(k, active))
            total = total.map(lambda old, add, n=active: torch.cat([old[:n] + add, old[n:]]), new)
        return total[back]


def one_batch(program: Program, phase: Phase) -> Callable[..., tuple[Tree, Tree]]:
    """(received, row, scalars, local, sums, batch) -> (local, sums) after one batch of the phase, for one row."""

    def one(received: Tree, row: Tree, scalars: Tree, local: Tree, sums: Tree, batch: Tree) -> tuple[Tree, Tree]:
        ctx = program.context(received, row, scalars, phase)
        if phase.scan:
            return local, sums + program.observe(local, batch, ctx)
        return program.step(local, batch, ctx), sums

    return one


class Mapped:
    """`vmap` over the rows of a launch: what was received is broadcast for one seed, gathered a row for several."""

    def __init__(self, program: Program, launch: Launch) -> None:
        self.rows, self.count = launch.rows, len(launch)
        self.device = program.federation.device
        if len(launch.received) == 1:
            self.received, self.shared = launch.received[0], True
        else:
            stacked = launch.received[0].map(lambda *leaves: torch.stack(leaves), *launch.received[1:])
            self.received, self.shared = stacked[torch.as_tensor(launch.seed_of, device=self.device)], False

    def part(self, order: np.ndarray) -> Mapped:
        """The rows in another order."""
        return self._with(torch.as_tensor(order, device=self.device), len(order))

    def prefix(self, count: int) -> Mapped:
        """The first `count` rows."""
        return self if count == self.count else self._with(slice(0, count), count)

    def _with(self, chosen: Any, count: int) -> Mapped:
        other = object.__new__(Mapped)
        other.rows, other.count, other.device, other.shared = self.rows[chosen], count, self.device, self.shared
        other.received = self.received if self.shared else self.received[chosen]
        return other

    def __call__(self, function: Callable[..., Any], scalars: Tree, *stacked: Tree) -> Any:
        """`function(received, row, scalars, *of the row)` for all rows."""
        rows = self.rows | Tree(
            _=torch.zeros(self.count, device=self.device)
        )  # a tree without leaves has no rows to map over
        dims = (None if self.shared else 0, 0, None, *[0] * len(stacked))
        return vmap(function, in_dims=dims)(self.received, rows, scalars, *stacked)


class DeviceTable:
    """A table on the device, and its step k for a prefix of the rows."""

    def __init__(self, program: Program, phase: Phase, table: Table) -> None:
        device = program.federation.device
        self.program, self.phase = program, phase
        self.index = torch.as_tensor(table.index, device=device)
        self.mask = torch.as_tensor(table.mask, device=device)
        self.draws = Tree(
            {slot: torch.as_tensor(values, dtype=program.dtype, device=device) for slot, values in table.draws.items()}
        )

    def step(self, k: int, active: int) -> Tree:
        draws = self.draws.map(lambda values: values[:active, k])
        return self.program.batch(self.phase, self.index[:active, k], self.mask[:active, k], draws)


def _one_copy(program: Program, launch: Launch) -> tuple[str, ...]:
    """The groups that every client is tested with unchanged: shared or frozen, where the method leaves `model` alone."""
    if type(program.method).model is not Method.model:
        return ()
    own = set(launch.rows.own.get("params", Tree())) | set(launch.rows.client.get("params", Tree()))
    kinds = program.kinds
    return tuple(
        name for name in launch.received[0].common.params if kinds[name] in ("shared", "frozen") and name not in own
    )


def _large(method: Method) -> bool:
    """Whether what all clients of a seed receive is too large for a copy a row."""
    return method.server_store or method.large_supply


def _seed_by_seed(launch: Launch, work: Callable[[Launch], Tree]) -> Tree:
    """`work` on the rows of each seed alone; results in row order."""
    groups = [np.flatnonzero(launch.seed_of == seed) for seed in np.unique(launch.seed_of)]
    results = [work(launch.alone(rows)) for rows in groups]
    order = np.argsort(np.concatenate(groups))
    return concatenate(results)[torch.as_tensor(order)]
