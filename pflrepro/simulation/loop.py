"""The `loop` backend: one client after another on unpadded batches; the oracle, and the fastest on a CPU for the papers' CNN.

Gradients come from `torch.autograd.grad`, which here takes a third less time than `torch.func.grad` and gives the same bits.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from pflrepro.algorithms.phases import Phase
from pflrepro.errors import RunFailed, UserError
from pflrepro.simulation.asking import RowByRow
from pflrepro.simulation.failing import place_of, without_result
from pflrepro.simulation.launch import Launch
from pflrepro.simulation.memory_order import fast_layout
from pflrepro.simulation.program import TEST, Program
from pflrepro.simulation.row_pool import RowPool
from pflrepro.simulation.schedule import AUGMENT, Table
from pflrepro.trees import Tree, WholeBatch

GATHERED_ROWS = 640  # samples gathered at once: 64 batches of 10; small enough for any data set


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
    """One row after another; on a CPU, where it pays, `workers` processes side by side (`row_pool`)."""

    name = "loop"
    differentiate = staticmethod(differentiate)
    settled = staticmethod(settled)

    def __init__(self, workers: int = 1) -> None:
        self.pool, self.each = RowPool(workers), RowByRow(workers)

    def participate(self, program: Program, launch: Launch) -> Tree:
        return self.pool.each(participate_one, program, launch)

    def evaluate(self, program: Program, launch: Launch) -> Tree:
        return self.pool.each(evaluate_one, program, launch)


def participate_one(program: Program, launch: Launch, i: int) -> Tree:
    """What row `i` leaves behind, and its scores: one entry of `Backend.participate`."""
    return Participant(program, launch, i, training=True).participate()


def evaluate_one(program: Program, launch: Launch, i: int) -> Tree:
    """The scores of row `i`: one entry of `Backend.evaluate`."""
    participant = Participant(program, launch, i)
    return participant.score(*participant.tested())


class Participant:
    """Row `i` of a launch: what it received, its own row, and its round.

    What many rows received is laid out once a launch; supplied data stay as they are.

    Attributes:
        training: whether its parameters are laid out for many steps (`fast_layout`): else each step would mix two memory orders, at
            several times the cost.
    """

    def __init__(self, program: Program, launch: Launch, i: int, training: bool = False) -> None:
        self.program, self.launch, self.i = program, launch, i
        self.scalars = launch.scalars[""]
        self.received, self.row = self._laid_out() if training else launch.row(i)

    @property
    def of_row(self) -> tuple[Tree, Tree, Tree]:
        """What the functions of a row take first."""
        return self.received, self.row, self.scalars

    # ---- the round ---------------------------------------------------------------------------------------------------------
    def participate(self) -> Tree:
        """`client`, `upload`, `kept`, `averaged`, `losses`, and the scores `after` local training and `absent`, adapted."""
        local = self.train()
        with self._located(lambda: "at the end of the round", local):
            result = self.program.finish(*self.of_row, local)
        if self.launch.score_after or self.launch.score_absent:
            params = self.program.trained(*self.of_row, local)
            if self.launch.score_after:
                result["after"] = self.score(params, local.get("buffers", Tree()))
            if self.launch.score_absent:
                adapted = self._phases(local | Tree(params=params), adapting=True)
                result["absent"] = self.score(adapted.params, adapted.get("buffers", Tree()))
        return result

    def train(self) -> Tree:
        """`local` after its client phases."""
        with self._located(lambda: "at the start of the round"):
            local = self.program.begin(*self.of_row)
        return self._phases(local)

    def adapt(self) -> Tree:
        """`local` after the phases that a copy goes through before it is tested."""
        return self._phases(self.program.begin_adapting(*self.of_row), adapting=True)

    def tested(self) -> tuple[Tree, Tree]:
        """(parameters, statistics) that are tested before local training, adapted where the method adapts."""
        if not self.launch.adapt:
            return self.program.tested(*self.of_row), self.program.statistics(self.received, self.row)
        local = self.adapt()
        return local.params, local.get("buffers", Tree())

    def score(self, params: Tree, statistics: Tree) -> Tree:
        """`correct` predictions and summed cross-entropy `loss` on the row's test samples."""
        params = fast_layout(params)
        zero = torch.zeros((), dtype=self.program.dtype, device=self.program.federation.device)
        total = Tree(correct=zero, loss=zero)
        with self._located(lambda: "in a test", Tree(params=params)):
            for batch in self._batches(TEST, self.launch.test):
                total = total + self.program.score(*self.of_row, params, statistics, batch)
        return total

    # ---- phases ------------------------------------------------------------------------------------------------------------
    def _phases(self, local: Tree, adapting: bool = False) -> Tree:
        for phase, table in self.launch.work(adapting):
            local = self._phase(phase, table, local)
        return local

    def _phase(self, phase: Phase, table: Table, local: Tree) -> Tree:
        program, scalars = self.program, self.launch.scalars[phase.name]
        ctx = program.context(self.received, self.row, scalars, phase)
        local = fast_layout(program.enter(scalars, local, phase))
        sums, k = Tree(), -1
        with self._located(lambda: f"phase {phase.name!r}, step {k}", local):
            if phase.scan and table.steps[self.i] == 0:
                empty = program.no_samples(phase)
                sums = program.observe(local, empty, ctx).map(torch.zeros_like)
            for k, batch in enumerate(self._batches(phase, table)):
                if phase.scan:
                    seen = program.observe(local, batch, ctx)
                    sums = sums + seen if k else seen
                else:
                    local = program.step(local, batch, ctx)
            return program.leave(self.received, self.row, scalars, local, sums, phase)

    def _batches(self, phase: Phase, table: Table) -> Iterator[Tree]:
        """Batches without padding: padded in every backend, a forgotten row mask would pass every comparison.

        Samples are gathered for some batches at a time, which costs as many calls as for one.
        """
        program, i = self.program, self.i
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

    # ---- where it is, what it has ------------------------------------------------------------------------------------------
    def _laid_out(self) -> tuple[Tree, Tree]:
        launch, seed = self.launch, int(self.launch.seed_of[self.i])
        if seed not in launch.arranged:
            received, stacks = launch.received[seed], self.program.method.server_store
            common = fast_layout(received.common.without(["supplied"]), stacks=stacks)
            launch.arranged[seed] = received | Tree(common=common)
        return launch.arranged[seed], fast_layout(launch.rows[self.i])

    @contextlib.contextmanager
    def _located(self, place: Callable[[], str], local: Tree | None = None) -> Iterator[None]:
        """Errors of a method's functions as one `RunFailed` that says where: method, round, client, place, line, shapes."""
        try:
            yield
        except (UserError, RunFailed):
            raise
        except Exception as error:
            seed, client = self.launch.keys[self.i]
            method = self.program.method
            where = f"{type(method).__name__}, round {self.launch.t}, seed {seed}, client {client}, {place()}"
            params = (local or Tree()).get("params", Tree())
            shapes = {path: list(leaf.shape) for path, leaf in params.flat().items()}
            where += place_of(error, method)
            said = without_result(error, method) or f" (parameters: {shapes})"  # shapes say nothing of a None
            raise RunFailed(f"{where}: {type(error).__name__}: {error}{said}") from error
