"""Mistakes in a method's own code: where an error comes from, and what a hook may not return."""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Iterator

from pflrepro.algorithms.contract import Method
from pflrepro.errors import UserError
from pflrepro.trees import Tree


def place_of(error: BaseException, method: Method) -> str:
    """` at my_module.py:12 (step)`: the innermost frame in a file of the method's classes; "" where there is none."""
    own = set(_files(type(method)))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in own]
    if not frames:
        return ""
    file = frames[-1].filename
    near = os.path.relpath(file) if os.path.isabs(file) else file  # a cell of a notebook may have no path
    return f" at {file if near.startswith(os.pardir) else near}:{frames[-1].lineno} ({frames[-1].name})"


def changed(server: Tree, changes: Tree, method: Method, hook: str) -> Tree:
    """`server` with the changes that a hook returned; `UserError` for what is no entry of it, which nobody would ever read."""
    name = f"{type(method).__name__}.{hook}"
    if not isinstance(changes, Tree):
        raise UserError(f"{name} must return a Tree of what changed in the server's state, not {changes!r}")
    known = server.flat()
    unknown = sorted(changes.flat().keys() - known.keys())
    if unknown:
        raise UserError(
            f"{name} returned {', '.join(unknown)}; the server's state has: {', '.join(sorted(known)) or '(nothing)'}"
        )
    return server | changes


def _files(kind: type[Method]) -> Iterator[str]:
    """The files of the functions of a class and of those that it is made of, but the contract's."""
    for base in kind.__mro__:
        for value in vars(base).values() if base not in Method.__mro__ else ():
            function = inspect.unwrap(getattr(value, "fget", None) or getattr(value, "__func__", value))
            if inspect.isfunction(function) and function.__code__.co_filename != "<string>":  # what `dataclass` wrote
                yield function.__code__.co_filename
