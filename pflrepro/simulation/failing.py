"""Mistakes in a method's own code: where an error comes from, and what a hook may not return."""

from __future__ import annotations

import dis
import inspect
import traceback
from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import Any

import torch

from pflrepro.algorithms.contract import Method
from pflrepro.errors import RunFailed, UserError, at_line, in_short
from pflrepro.trees import Tree


def place_of(error: BaseException, method: Method) -> str:
    """` at my_module.py:12 (step)`: the innermost frame in a file of the method's classes; "" where there is none."""
    own = set(_files(type(method)))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in own]
    if not frames:
        return ""
    return f"{at_line(frames[-1].filename, frames[-1].lineno or 0)} ({frames[-1].name})"


def without_result(error: BaseException, method: Method) -> str:
    """`; Mine.correct at my_module.py:12 may return nothing`: whose None an error may be about; "" where that is not known.

    A hook has returned when what it gave is used, so that no traceback names it.
    """
    if "NoneType" not in str(error) or isinstance(error, RunFailed):  # which says it
        return ""
    found = [*_hooks_without_result(type(method))]
    return f"; {' and '.join(found)} may return nothing" if found else ""


def tree_of(given: Any, method: Method, hook: str) -> Tree:
    """What a hook returned; `UserError` where it is no Tree of tensors."""
    name = f"{type(method).__name__}.{hook}"
    if not isinstance(given, Tree):
        raise UserError(f"{name} must return a Tree, not {in_short(given)}")
    wrong = next((entry for entry in given.flat().items() if not isinstance(entry[1], torch.Tensor)), None)
    if wrong:
        raise UserError(f"{name} returned {wrong[0]} = {in_short(wrong[1])}, a {type(wrong[1]).__name__} and no tensor")
    return given


def pair_of(given: Any, method: Method, hook: str) -> tuple[Tree, Tree]:
    """The two Trees that a hook returned; `UserError` where it did not."""
    if not isinstance(given, tuple) or len(given) != 2:
        what = "one Tree" if isinstance(given, Tree) else in_short(given)
        raise UserError(f"{type(method).__name__}.{hook} must return two Trees, not {what}")
    return tree_of(given[0], method, hook), tree_of(given[1], method, hook)


def changed(server: Tree, changes: Tree, method: Method, hook: str) -> Tree:
    """`server` with the changes that a hook returned; `UserError` for what is no entry of it, or has another shape."""
    known, new = server.flat(), tree_of(changes, method, hook).flat()
    refuse_unknown(new, known, method, hook, "server's state")
    for entry, value in new.items():
        if value.shape != known[entry].shape:
            name = f"{type(method).__name__}.{hook}"
            raise UserError(f"{name} returned {entry} of shape {[*value.shape]}, not {[*known[entry].shape]}")
    return server | changes


def refuse_unknown(new: Iterable[str], known: Iterable[str], method: Method, hook: str, where: str) -> None:
    """`UserError` where a hook returned entries that a state, `where`, has not."""
    unknown = sorted({*new} - {*known})
    if unknown:
        raise UserError(
            f"{type(method).__name__}.{hook} returned {', '.join(unknown)}; the {where} has: "
            f"{', '.join(sorted(known)) or '(nothing)'}"
        )


def scores_of(given: Any, method: Method, rows: int, classes: int) -> torch.Tensor:
    """What `predict` returned; `UserError` where it is no score a class and row."""
    if not isinstance(given, torch.Tensor) or not given.is_floating_point() or tuple(given.shape) != (rows, classes):
        found = f"{[*given.shape]} of {given.dtype}" if isinstance(given, torch.Tensor) else in_short(given)
        raise UserError(f"{type(method).__name__}.predict must return scores [{rows}, {classes}], not {found}")
    return given


def _hooks_without_result(kind: type[Method]) -> Iterator[str]:
    """The user's own hooks that can end in `return None` where the contract has something returned."""
    for name, contract in vars(Method).items():
        if not inspect.isfunction(contract) or "None" in str(contract.__annotations__.get("return")):
            continue
        hook = inspect.unwrap(getattr(kind, name))
        if hook.__module__.partition(".")[0] != "pflrepro" and inspect.isfunction(hook) and _ends_with_none(hook):
            code = hook.__code__
            yield f"{kind.__name__}.{name}{at_line(code.co_filename, code.co_firstlineno)}"


def _ends_with_none(function: FunctionType) -> bool:
    steps = [*dis.get_instructions(function)]
    loads = {place + 1 for place, step in enumerate(steps) if step.opname == "LOAD_CONST" and step.argval is None}
    return any(
        (step.opname == "RETURN_CONST" and step.argval is None)  # in one instruction, Python 3.12 and 3.13
        or (step.opname == "RETURN_VALUE" and place in loads)
        for place, step in enumerate(steps)
    )


def _files(kind: type[Method]) -> Iterator[str]:
    """The files of the functions of a class and of those that it is made of, but the contract's."""
    for base in kind.__mro__:
        for value in vars(base).values() if base not in Method.__mro__ else ():
            function = inspect.unwrap(getattr(value, "fget", None) or getattr(value, "__func__", value))
            if inspect.isfunction(function) and function.__code__.co_filename != "<string>":  # what `dataclass` wrote
                yield function.__code__.co_filename
