"""The `loop` backend: one client after another on unpadded batches; the oracle, and the fastest on a CPU for the papers' CNN.

With several workers, clients are dealt out longest first (see `pflrepro.simulation.workers`). Gradients come from
`torch.autograd.grad`, which here takes a third less time than `torch.func.grad` and gives the same bits.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from pflrepro.algorithms.phases import Phase
from pflrepro.errors import RunFailed, UserError
from pflrepro.simulation.failing import place_of
from pflrepro.simulation.launch import Launch
from pflrepro.simulation.program import TEST, Program
from pflrepro.simulation.schedule import AUGMENT, Table
from pflrepro.simulation.workers import Work, Workers
from pflrepro.trees import Tree, WholeBatch, stack


def differentiate(function: Callable[[Tree], tuple[Tensor, Tree]], params: Tree) -> tuple[Tree, Tree]:
    """(gradients of `function` at `params`, its second output without history); parameters it does not use get zeros."""
    inputs = params.map(lambda leaf: leaf.detach().requires_grad_())
    with torch.enable_grad():
        value, out = function(inputs)
    grads = torch.autograd.grad(value, list(inputs.leaves()), allow_unused=True, materialize_grads=True)
    return inputs.refill(iter(grads)), out.map(lambda leaf: leaf.detach())


def settled(flag: Tensor) -> bool:
    """Whether `flag` holds; on another device the answer would make the host wait, and the rest of an iteration costs less."""
    return flag.device.type == "cpu" and bool(flag)


class Loop:
    """One row after another; on a CPU, where it pays, `workers` processes side by side.

    Every row is worked through by one thread, here or in a worker, so that the numbers do not depend on `workers`.
    """

    name = "loop"
    differentiate = staticmethod(differentiate)
    settled = staticmethod(settled)

    def __init__(self, workers: int = 1) -> None:
        self.workers = Workers(workers)
        self._seconds: dict[str, float] = {}  # what one batch took, by kind of work

    def participate(self, program: Program, launch: Launch) -> Tree:
        return self._each(_participate_one, program, launch)

    def evaluate(self, program: Program, launch: Launch) -> Tree:
        return self._each(_evaluate_one, program, launch)

    def _each(self, work: Work, program: Program, launch: Launch) -> Tree:
        """`work` for every row, the longest first so that the workers end together; results in row order."""
        load = sum(
            (table.steps for table in [*launch.tables, *launch.adapt_tables]), start=np.zeros(len(launch), np.int64)
        )
        if launch.test is not None:
            load = load + launch.test.steps
        order = [int(i) for i in np.argsort(-load, kind="stable")]
        results: dict[int, Tree] = {}
        with torch.no_grad():
            while order and (program.federation.device.type != "cpu" or not self._pays(program, work, load[order])):
                i = order.pop()  # the shortest: it also tells what a batch costs
                started = time.perf_counter()
                results[i] = work(program, launch, i)
                if load[i]:
                    self._seconds[work.__name__] = (time.perf_counter() - started) / load[i]
        if order:
            results |= self.workers.map(work, program, launch, order)
        return stack([results[i] for i in range(len(launch))])

    def _pays(self, program: Program, work: Work, load: np.ndarray) -> bool:
        """Whether handing these rows to worker processes takes less time than working through them here."""
        seconds = self._seconds.get(work.__name__)
        return seconds is not None and self.duration(program, load, seconds) < seconds * float(load.sum())

    def duration(self, program: Program, load: np.ndarray, seconds: float) -> float:
        """Seconds for rows of `load` batches at `seconds` a batch: here, or by worker processes where that is shorter."""
        here, rows = seconds * float(load.sum()), len(load)
        if self.workers.count == 1 or rows < 2 or program.federation.device.type != "cpu":
            return here
        if program.method.server_store:  # every row would carry the models of all clients
            return here
        return min(here, here / min(self.workers.count, rows) + ROW_OVERHEAD * rows)


GATHERED_ROWS = 640  # samples gathered at once: 64 batches of 10; small enough for any data set
ROW_OVERHEAD = 0.02  # seconds to hand one row to a worker and to take its result back (measured for cnn4: 0.01 to 0.02)


def train_one(program: Program, launch: Launch, i: int) -> Tree:
    """`local` of row `i` behind its client phases."""
    return _train(program, launch, i, *_of_row(program, launch, i))


def _train(program: Program, launch: Launch, i: int, received: Tree, row: Tree) -> Tree:
    with _located(program, launch, i, lambda: "at the start of the round"):
        local = program.begin(received, row, launch.scalars[""])
    return _run_phases(program, launch, i, local, received, row)


def adapted_one(program: Program, launch: Launch, i: int) -> Tree:
    """`local` of row `i` behind the phases that a copy goes through before it is tested."""
    received, row = launch.row(i)
    local = program.begin_adapting(received, row, launch.scalars[""])
    return _run_phases(program, launch, i, local, received, row, adapting=True)


def tested_one(program: Program, launch: Launch, i: int) -> tuple[Tree, Tree]:
    """(parameters, statistics) that row `i` is tested with before local training, adapted where the method adapts."""
    if not launch.adapt:
        received, row = launch.row(i)
        return program.tested(received, row, launch.scalars[""]), program.statistics(received, row)
    local = adapted_one(program, launch, i)
    return local.params, local.get("buffers", Tree())


def _participate_one(program: Program, launch: Launch, i: int) -> Tree:
    received, row = _of_row(program, launch, i)
    scalars = launch.scalars[""]
    local = _train(program, launch, i, received, row)
    with _located(program, launch, i, lambda: "at the end of the round", lambda: local):
        result = program.finish(local, received, row, scalars)
    if launch.score_after or launch.score_held:
        params = program.trained(local, received, row, scalars)
        statistics = local.get("buffers", Tree())
        if launch.score_after:
            result["after"] = _score(program, launch, i, params, statistics, received, row)
        if launch.score_held:
            held = _run_phases(program, launch, i, local | Tree(params=params), received, row, adapting=True)
            result["held"] = _score(program, launch, i, held.params, held.get("buffers", Tree()), received, row)
    return result


def _evaluate_one(program: Program, launch: Launch, i: int) -> Tree:
    params, statistics = tested_one(program, launch, i)
    received, row = launch.row(i)
    return _score(program, launch, i, params, statistics, received, row)


def _run_phases(
    program: Program, launch: Launch, i: int, local: Tree, received: Tree, row: Tree, adapting: bool = False
) -> Tree:
    for phase, table in launch.work(adapting):
        local = _run_phase(program, launch, phase, table, i, local, received, row)
    return local


def _run_phase(
    program: Program, launch: Launch, phase: Phase, table: Table, i: int, local: Tree, received: Tree, row: Tree
) -> Tree:
    scalars = launch.scalars[phase.name]
    ctx = program.context(phase, scalars, received, row)
    local = fast_layout(program.enter(local, phase, scalars))
    sums = Tree()
    k = -1
    with _located(program, launch, i, lambda: f"phase {phase.name!r}, step {k}", lambda: local):
        if phase.scan and table.steps[i] == 0:
            empty = program.batch(phase, torch.zeros(1, dtype=torch.int64), torch.zeros(1), Tree())
            sums = program.observe(local, empty, ctx).map(torch.zeros_like)
        for k, batch in enumerate(_unpadded(program, phase, table, i)):
            if phase.scan:
                seen = program.observe(local, batch, ctx)
                sums = sums + seen if k else seen
            else:
                local = program.step(local, batch, ctx)
        return program.leave(local, sums, phase, received, row, scalars)


@contextlib.contextmanager
def _located(
    program: Program, launch: Launch, i: int, place: Callable[[], str], local: Callable[[], Tree] = Tree
) -> Iterator[None]:
    """Errors of a method's functions as one `RunFailed` that says where: method, round, client, place, line, shapes."""
    try:
        yield
    except (UserError, RunFailed):
        raise
    except Exception as error:
        seed, client = launch.keys[i]
        where = f"{type(program.method).__name__}, round {launch.t}, seed {seed}, client {client}, {place()}"
        shapes = {path: list(leaf.shape) for path, leaf in local().get("params", Tree()).flat().items()}
        where += place_of(error, program.method)
        raise RunFailed(f"{where}: {type(error).__name__}: {error} (parameters: {shapes})") from error


def _unpadded(program: Program, phase: Phase, table: Table, i: int) -> Iterator[Tree]:
    """Row i's batches without padding: padded in every backend, a forgotten row mask would pass every comparison.

    Samples are gathered for some batches at a time, which costs as many calls as for one.
    """
    device, sizes = program.federation.device, table.mask[i].sum(1)
    at_once = max(1, GATHERED_ROWS // max(1, table.mask.shape[2]))
    for start in range(0, int(table.steps[i]), at_once):
        chosen = slice(start, min(start + at_once, int(table.steps[i])))
        draws = {
            slot: torch.as_tensor(values[i, chosen], device=device).to(program.dtype)
            for slot, values in table.draws.items()
        }
        if phase.data == "none":
            yield from (Tree({slot: v[k] for slot, v in draws.items()}) for k in range(chosen.stop - chosen.start))
            continue
        numbers = draws.pop(AUGMENT, None)
        rows = torch.as_tensor(table.index[i, chosen][table.mask[i, chosen]], device=device)
        x, y = program.federation.batch(rows, program.dtype)
        ones = torch.ones(table.mask.shape[2], dtype=program.dtype, device=device)
        parts = sizes[chosen].tolist()
        for k, (xs, ys) in enumerate(zip(x.split(parts), y.split(parts), strict=True)):
            if numbers is not None:
                xs = program.augmented(xs, numbers[k])
            yield WholeBatch(x=xs, y=ys, mask=ones[: len(ys)], **{slot: v[k] for slot, v in draws.items()})


def _score(program: Program, launch: Launch, i: int, params: Tree, statistics: Tree, received: Tree, row: Tree) -> Tree:
    params = fast_layout(params)
    zero = torch.zeros((), dtype=program.dtype, device=program.federation.device)
    total = Tree(correct=zero, loss=zero)
    with _located(program, launch, i, lambda: "in a test", lambda: Tree(params=params)):
        for batch in _unpadded(program, TEST, launch.test, i):
            total = total + program.score(params, statistics, batch, received, row, launch.scalars[""])
    return total


def _of_row(program: Program, launch: Launch, i: int) -> tuple[Tree, Tree]:
    """(what row `i` received, its row), for training, in the memory order of the parameters: else each step would mix the two, at
    several times the cost. What many rows received is arranged once a launch; supplied data stay as they are.
    """
    seed = int(launch.seed_of[i])
    if seed not in launch.arranged:
        received = launch.received[seed]
        common = fast_layout(received.common.without(["supplied"]), stacks=program.method.server_store)
        launch.arranged[seed] = received | Tree(common=common)
    return launch.arranged[seed], fast_layout(launch.rows[i])


def fast_layout(local: Tree, stacks: bool = False) -> Tree:
    """The same numbers in the memory order that a CPU works fastest on; shapes and values are untouched.

    Convolution weights go channels-last (max-pooling behind them is then 6 times faster), matrices column by column (the
    gradient of a dense layer's weight is then 1.8 times faster); measured in benchmarks/memory_layout.py. The layout survives
    `w - rate * g`, whose result follows w. With `stacks`, also of the models of all clients, a row each.
    """

    def arrange(leaf: Tensor) -> Tensor:
        if leaf.device.type == "cpu" and stacks and leaf.ndim in (3, 5):
            return _stacked_layout(leaf)
        if leaf.device.type != "cpu" or leaf.ndim not in (2, 4):
            return leaf
        if leaf.ndim == 2:
            return leaf if leaf.stride(0) == 1 else leaf.t().contiguous().t()
        empty = torch.empty(leaf.shape, dtype=leaf.dtype, memory_format=torch.channels_last)
        return leaf if leaf.stride() == empty.stride() else empty.copy_(leaf)

    return local.map(arrange)


def _stacked_layout(leaf: Tensor) -> Tensor:
    """Matrices [n, a, b] column by column, convolution weights [n, o, i, h, w] channels-last, one row after the other."""
    order = (0, 2, 1) if leaf.ndim == 3 else (0, 1, 3, 4, 2)
    back = (0, 2, 1) if leaf.ndim == 3 else (0, 1, 4, 2, 3)
    moved = leaf.permute(order)
    fresh = torch.empty(moved.shape, dtype=leaf.dtype, device=leaf.device)  # `contiguous` ignores axes of length 1
    return fresh.copy_(moved).permute(back)
