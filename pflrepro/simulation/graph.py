"""The `graph` backend: `batched` with static buffers, on a GPU captured as CUDA graphs.

A phase's state lives at fixed addresses: its rows' `local` and `sums`, what they received, the tables of batches, and the step
number k. One call works on a prefix of the rows (a bucket of a few sizes), reads batch k, keeps the rows that have finished as
they are, and raises k. Numbers that change (rates, the round) are device scalars, so one capture serves all rounds.

On a CPU the same buffers are used without capture, so that the bookkeeping is tested everywhere.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch.func import vmap

from pflrepro.algorithms.phases import Phase
from pflrepro.simulation.batched import Batched, Mapped, one_batch
from pflrepro.simulation.program import Program
from pflrepro.simulation.schedule import Table
from pflrepro.trees import Tree

WARM_UP = 3  # calls before a capture, as PyTorch's notes on CUDA graphs ask for


class Graph(Batched):
    """All rows at once, one captured graph a phase and bucket."""

    name = "graph"

    def __init__(self) -> None:
        self._instances: dict[tuple, _StaticPhase] = {}

    def work(
        self, program: Program, mapped: Mapped, phase: Phase, table: Table, local: Tree, sums: Tree, scalars: Tree
    ) -> tuple[Tree, Tree]:
        if table.longest == 0:
            return local, sums
        inputs = _inputs(program, mapped, phase, table, local, sums, scalars)
        key = (
            program.method,
            phase.name,
            phase.where,
            phase.data,
            phase.scan,
            phase.train,
            mapped.shared,
            _structure(inputs),
        )
        if key not in self._instances:
            self._instances[key] = _StaticPhase(program, phase, inputs, mapped.shared)
        instance = self._instances[key]
        instance.load(inputs)
        for k in range(table.longest):
            instance.advance(int((table.steps > k).sum()))
        return instance.result()


def buckets(rows: int) -> list[int]:
    """The prefix sizes that get a graph of their own, ascending: `rows`, and down by a quarter at a time.

    Example:
        >>> buckets(8)
        [1, 2, 3, 4, 5, 6, 8]
    """
    sizes = [rows]
    while sizes[-1] > 1:
        sizes.append(max(1, min(sizes[-1] - 1, -(-3 * sizes[-1] // 4))))
    return sizes[::-1]


def _inputs(
    program: Program, mapped: Mapped, phase: Phase, table: Table, local: Tree, sums: Tree, scalars: Tree
) -> Tree:
    """Everything a phase reads, padded in time to the longest that any client could take, so that shapes stay from round to round."""
    device, longest = program.federation.device, _longest_possible(program, phase, table)

    def padded(values, dtype: torch.dtype) -> torch.Tensor:
        tensor = torch.as_tensor(values, device=device).to(dtype)
        missing = longest - tensor.shape[1]
        return (
            torch.cat([tensor, tensor.new_zeros(tensor.shape[0], missing, *tensor.shape[2:])], 1) if missing else tensor
        )

    return Tree(
        local=local,
        sums=sums,
        rows=mapped.rows,
        received=mapped.received,
        scalars=scalars,
        index=padded(table.index, torch.int64),
        mask=padded(table.mask, torch.bool),
        draws=Tree({slot: padded(values, program.dtype) for slot, values in table.draws.items()}),
        steps=torch.as_tensor(table.steps, device=device),
        k=torch.zeros(1, dtype=torch.int64, device=device),
    )


def _longest_possible(program: Program, phase: Phase, table: Table) -> int:
    if phase.data == "none":
        return phase.steps
    passes = 1 if phase.scan else program.settings.local_epochs if phase.passes is None else phase.passes
    size = phase.batch or program.settings.batch_size
    bound = passes * -(-int(program.federation.sizes(phase.data).max()) // size)
    return max(table.longest, min(bound, phase.steps) if phase.steps else bound)


def _structure(inputs: Tree) -> tuple:
    return tuple((path, tuple(leaf.shape), leaf.dtype) for path, leaf in sorted(inputs.flat().items()))


class _StaticPhase:
    """One phase at fixed addresses."""

    def __init__(self, program: Program, phase: Phase, inputs: Tree, shared: bool) -> None:
        self.program, self.phase, self.shared = program, phase, shared
        self.buffers = inputs.map(lambda leaf: leaf.clone(memory_format=torch.contiguous_format))
        self.rows = int(inputs.steps.shape[0])
        self.sizes = buckets(self.rows)
        self.one = one_batch(program, phase)
        self.calls: dict[int, Callable[[], None]] = {}
        self.pool = None

    def load(self, inputs: Tree) -> None:
        """Copy a new round's inputs to the fixed addresses."""
        if self.program.federation.device.type == "cuda":
            for size in self.sizes:  # before the first load: warming up and capturing would spoil the state
                if size not in self.calls:
                    self.calls[size] = self._captured(size, inputs)
        self._fill(inputs)

    def advance(self, active: int) -> None:
        """One batch for the first `active` rows."""
        size = next(size for size in self.sizes if size >= active)
        self.calls.setdefault(size, lambda: self._batch(size))()

    def result(self) -> tuple[Tree, Tree]:
        """Copies of `local` and `sums`."""
        return self.buffers.local.map(torch.clone), self.buffers.sums.map(torch.clone)

    def _batch(self, size: int) -> None:
        b, prefix = self.buffers, slice(0, size)
        active = b.steps[prefix] > b.k
        index = b.index[prefix].index_select(1, b.k).squeeze(1)
        mask = b.mask[prefix].index_select(1, b.k).squeeze(1)
        draws = b.draws[prefix].map(lambda values: values.index_select(1, b.k).squeeze(1))
        batch = self.program.batch(self.phase, index, mask, draws)
        rows = b.rows[prefix] | Tree(_=active)
        received = b.received if self.shared else b.received[prefix]
        local, sums = b.local[prefix], b.sums[prefix]
        dims = (None if self.shared else 0, 0, None, 0, 0, 0)
        new_local, new_sums = vmap(self.one, in_dims=dims)(received, rows, b.scalars, local, sums, batch)
        if not self.phase.scan:
            _keep(active, new_local, local)
        else:
            _keep(active, new_sums, sums)
        b.k.add_(1)

    def _captured(self, size: int, inputs: Tree) -> Callable[[], None]:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._warm_up(size, inputs)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with _no_collection(), torch.cuda.graph(graph, pool=self.pool):
            self._batch(size)
        self.pool = graph.pool()
        return graph.replay

    def _warm_up(self, size: int, inputs: Tree) -> None:
        """First batches, each anew: a method may count its batches, and write by that count into what it keeps."""
        for _ in range(WARM_UP):
            self._fill(inputs)
            self._batch(size)

    def _fill(self, inputs: Tree) -> None:
        self.buffers.map(lambda fixed, new: fixed.copy_(new), inputs)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Within it no garbage is collected: a graph of an earlier run that is freed during a capture breaks the capture."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _keep(active: torch.Tensor, new: Tree, fixed: Tree) -> None:
    """Write `new` into the fixed rows that are active; the whole state of the others stays as it is."""

    def write(old: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return torch.where(active.view(-1, *[1] * (old.ndim - 1)), value, old, out=old)

    fixed.map(write, new)
