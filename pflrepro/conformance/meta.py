"""A round on PyTorch's `meta` device, whose tensors have shapes and no numbers: what looks at a number there fails."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from pflrepro import trees
from pflrepro.errors import UserError
from pflrepro.simulation.graph import Graph
from pflrepro.simulation.launch import Launch
from pflrepro.simulation.program import Program
from pflrepro.simulation.schedule import Table
from pflrepro.simulation.simulation import Simulation

META = torch.device("meta")
aten = torch.ops.aten
_MAKERS = {torch.tensor, torch.as_tensor, torch.asarray, torch.from_numpy, Tensor.new_tensor}
_COPIED = "a tensor is made of numbers on the host, which are copied at every call"
_NOT_THEIRS = (str(Path(torch.__file__).parent), __file__, trees.__file__)  # where an error is raised, not made


def run_on_meta(simulation: Simulation) -> None:
    """The device functions of every round that has phases of its own, and of its tests, without a number.

    What the host decides (phases, sends, tables of batches) is worked out as ever, from the state before round 0, and moved there.
    Raises `AssertionError` that names the line.
    """
    dispatcher, backend, everyone = simulation.dispatcher, Graph(), np.arange(simulation.task.clients)
    rounds = [(simulation.method, dispatcher.clock(t), "") for t in range(simulation.settings.rounds)]
    prologue = simulation.method.prologue()
    if prologue is not None:
        rounds.append((prologue, dispatcher.clock(-1), "prologue/"))
    seen = []
    for method, clock, prefix in rounds:
        program = dispatcher.program(backend, method)
        phases = program.phases(clock)
        if (prefix, phases) in seen:
            continue
        seen.append((prefix, phases))
        launch = dispatcher.launch(program, clock, [everyone for _ in dispatcher.replicas], phases, prefix)
        launch.score_after = True
        moved = _moved(program)
        _located(backend.participate, moved, _shortened(launch))
        for replica in dispatcher.replicas:
            _located(backend.evaluate, moved, _shortened(dispatcher.test_launch(program, replica, clock, everyone)))


def _moved(program: Program) -> Program:
    """The program on the meta device, watched."""
    task = replace(program.task, info=program.task.info.to(META))
    moved = {"task": task, "federation": program.federation.to(META)}
    turns = cycle((False, True))  # one turn of an iteration that may settle, and no more: the others are the same again
    return _Watched(**vars(program) | moved | {"settled": lambda flag: next(turns)})


def _shortened(launch: Launch) -> Launch:
    """The launch on the meta device, one batch a phase, as a graph repeats it; tables stay on the host, where backends have them."""

    def first(tables: list[Table]) -> list[Table]:
        return [table.first(1) for table in tables]

    return replace(
        launch,
        received=[tree.to(META) for tree in launch.received],
        rows=launch.rows.to(META),
        scalars={name: tree.to(META) for name, tree in launch.scalars.items()},
        tables=first(launch.tables),
        adapt_tables=first(launch.adapt_tables),
    )


class _Watch(TorchDispatchMode):
    """Refuses what the meta device lets pass: tensors on the CPU, and tensors made of the host's numbers.

    A single number of the host's is no tensor's copy: PyTorch itself makes one of the 2 in `2 * x`, and hands it on by value.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given, made = (
            [t for t in pytree.tree_leaves(tree) if isinstance(t, Tensor)] for tree in ((args, kwargs), result)
        )
        on_host = [tensor for tensor in given if tensor.device != META]
        copied = func is aten._to_copy.default and on_host and made[0].device == META
        if func is aten.lift_fresh.default or copied:
            raise RuntimeError(_COPIED)
        if any(tensor.ndim for tensor in on_host + [tensor for tensor in made if tensor.device != META]):
            raise RuntimeError(f"{func} works on the CPU: give a tensor the device of those that it meets")
        return result


class _NoCopies(TorchFunctionMode):
    """Refuses tensors that are made of the host's numbers where PyTorch makes them on the meta device without a sign of it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        numbers = (args[1:] if func is Tensor.new_tensor else args) or tuple((kwargs or {}).values())
        if func in _MAKERS and not isinstance(numbers[0], Tensor):
            raise RuntimeError(_COPIED)
        return func(*args, **(kwargs or {}))


def _watched(name: str) -> Callable[..., Any]:
    function = getattr(Program, name)

    @wraps(function)
    def watched(self: Program, *args: Any) -> Any:
        with _Watch(), _NoCopies():
            return function(self, *args)

    return watched


_OF_ONE_CLIENT = ("begin", "enter", "step", "observe", "leave", "finish", "tested", "trained", "score")
_Watched = type("Watched", (Program,), {name: _watched(name) for name in _OF_ONE_CLIENT})


def _located(work: Callable[[Program, Launch], Any], program: Program, launch: Launch) -> None:
    """Does the work; `AssertionError` that names the line of a method or network which cannot do without numbers."""
    try:
        work(program, launch)
    except UserError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        at = [frame for frame in frames if not frame.filename.startswith(_NOT_THEIRS)][-1]
        where = f"{Path(at.filename).name}, line {at.lineno}, in {at.name}"
        raise AssertionError(f"without numbers, in {where}: {type(error).__name__}: {error}") from error
