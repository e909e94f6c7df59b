"""The `graph` backend: `batched` with static buffers, on a GPU captured as CUDA graphs.

A phase's state lives at fixed addresses: its rows' `local` and `sums`, what they received, the tables of batches, and the step
number k. One call works on a prefix of the rows (one of a few sizes), reads batch k, keeps the rows that have finished as they are,
and raises k. Numbers that change (rates, the round) are device scalars, so one capture serves all rounds.

On a CPU the same buffers are used without capture, so that the bookkeeping is tested everywhere.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch.func import vmap

from pflrepro.algorithms.phases import Phase
from pflrepro.errors import UserError
from pflrepro.simulation.batched import Batched, Mapped, one_batch
from pflrepro.simulation.program import Program
from pflrepro.simulation.schedule import Table
from pflrepro.trees import Tree

WARM_UP = 3  # calls before a capture, as PyTorch's notes on CUDA graphs ask for
FEW = 32  # rows of a launch in which each number of active ones may get a graph of its own

Prefix = tuple[int, bool]  # how many rows, and whether all of them are active


class Graph(Batched):
    """All rows at once, one captured graph a phase and prefix."""

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
        active = [int((table.steps > k).sum()) for k in range(table.longest)]
        instance.load(inputs, active)
        for count in active:
            instance.advance(count)
        return instance.result()


def buckets(rows: int) -> list[int]:
    """The prefix sizes that may get a graph, ascending: of at most `FEW` rows all, of more `rows` and down by a quarter at a time.

    Example:
        >>> buckets(5), buckets(40)[-5:]
        ([1, 2, 3, 4, 5], [14, 18, 23, 30, 40])
    """
    if rows <= FEW:
        return list(range(1, rows + 1))
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
        self.calls: dict[Prefix, Callable[[], None]] = {}
        self.pool = None

    def load(self, inputs: Tree, active: Iterable[int]) -> None:
        """Copy a new round's inputs to the fixed addresses; `active`: the rows that its batches will be for."""
        if self.program.federation.device.type == "cuda":
            asked = set(map(self._prefix, active))
            # the largest first: the others find its memory in the pool; before the copy, as captures spoil the state
            for prefix in sorted(asked - self.calls.keys(), reverse=True):
                self.calls[prefix] = self._captured(prefix, inputs)
        self._fill(inputs)

    def advance(self, active: int) -> None:
        """One batch for the first `active` rows."""
        prefix = self._prefix(active)
        self.calls.setdefault(prefix, lambda: self._batch(prefix))()

    def result(self) -> tuple[Tree, Tree]:
        """Copies of `local` and `sums`."""
        return self.buffers.local.map(torch.clone), self.buffers.sums.map(torch.clone)

    def _prefix(self, active: int) -> Prefix:
        size = next(size for size in self.sizes if size >= active)
        return size, size == active

    def _batch(self, prefix: Prefix) -> None:
        (size, whole), b = prefix, self.buffers
        first = slice(0, size)
        steps = b.steps[first]
        index = b.index[first].index_select(1, b.k).squeeze(1)
        mask = b.mask[first].index_select(1, b.k).squeeze(1)
        draws = b.draws[first].map(lambda values: values.index_select(1, b.k).squeeze(1))
        batch = self.program.batch(self.phase, index, mask, draws)
        rows = b.rows[first] | Tree(_=steps)  # a tree without leaves has no rows to map over
        received = b.received if self.shared else b.received[first]
        local, sums = b.local[first], b.sums[first]
        dims = (None if self.shared else 0, 0, None, 0, 0, 0)
        new_local, new_sums = vmap(self.one, in_dims=dims)(received, rows, b.scalars, local, sums, batch)
        active = None if whole else steps > b.k
        if not self.phase.scan:
            _keep(active, new_local, local, "`local`")
        else:
            _keep(active, new_sums, sums, "what `observe` gives")
        b.k.add_(1)

    def _captured(self, prefix: Prefix, inputs: Tree) -> Callable[[], None]:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._warm_up(prefix, inputs)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with (
            _no_collection(),
            torch.cuda.graph(graph, pool=self.pool, stream=_capture_stream(self.program.federation.device)),
        ):
            self._batch(prefix)
        self.pool = graph.pool()
        return graph.replay

    def _warm_up(self, prefix: Prefix, inputs: Tree) -> None:
        """First batches, each anew: a method may count its batches, and write by that count into what it keeps."""
        for _ in range(WARM_UP):
            self._fill(inputs)
            self._batch(prefix)

    def _fill(self, inputs: Tree) -> None:
        self.buffers.map(lambda fixed, new: fixed.copy_(new), inputs)


@cache
def _capture_stream(device: torch.device) -> torch.cuda.Stream | None:
    """The stream of all captures on a GPU; None on the first, for PyTorch's own.

    That one lies on the GPU of the process's first capture. There is one a GPU, for memory is shared between captures of one stream.
    """
    return torch.cuda.Stream(device) if device.index else None


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


def _keep(active: torch.Tensor | None, new: Tree, fixed: Tree, what: str) -> None:
    """Write `new` into the fixed rows that are active (None: all are); the whole state of the others stays as it is.

    What was handed on as it was is not written. What a step hands on as another entry is copied before anything is written: it lies
    where that one will be.
    """
    places = {leaf.untyped_storage().data_ptr() for leaf in fixed.leaves()}

    def apart(old: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        if (value.shape, value.dtype) != (old.shape, old.dtype):
            raise UserError(
                f"a batch made {_form(value)} of an entry of {what} that was {_form(old)}: entries keep their shape and number type"
            )
        return value.clone() if value.untyped_storage().data_ptr() in places and not _same(old, value) else value

    def write(old: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        if _same(old, value):
            return old
        if active is None:
            return old.copy_(value)
        return torch.where(active.view(-1, *[1] * (old.ndim - 1)), value, old, out=old)

    fixed.map(write, fixed.map(apart, new))


def _form(leaf: torch.Tensor) -> str:
    return f"{str(leaf.dtype).removeprefix('torch.')} {list(leaf.shape[1:])}"


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one shape are the same numbers in the same place."""
    return a.data_ptr() == b.data_ptr() and a.stride() == b.stride()
