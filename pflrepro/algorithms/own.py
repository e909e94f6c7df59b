"""What is the user's own: a module is imported, and a method's class asked for its options, and hooks spelt as the contract does."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import inspect
import logging
import sys
import traceback
from collections.abc import Iterator
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from pflrepro.errors import UserError, at_line

if TYPE_CHECKING:
    from pflrepro.algorithms.contract import Method

log = logging.getLogger("pflrepro.algorithms")
CLOSE = 0.8  # difflib's ratio: `corect` and `agregate` are spelt nearly as hooks, `beta_schedule` is not


@cache  # once a class: it is looked up for every experiment
def check_own(kind: type[Method]) -> None:
    """`UserError` for options that could not be given or left out; a warning for a function that nothing calls."""
    own = [base for base in kind.__mro__ if not _ours(base)]
    for base in own:
        _check_fields(base, kind)
    for field in dataclasses.fields(kind):
        if field.default is dataclasses.MISSING:
            raise UserError(
                f"{kind.__name__} has an option without a default, {field.name}; write {field.name}: TYPE = VALUE"
            )
    _warn_of_slips(kind, own)


def imported(path: str, kind: str, form: str) -> tuple[ModuleType, Any]:
    """The module of `module:name` and what it has by that name (None: nothing); a user's module may lie in the current folder.

    `UserError` that says what a `kind` of one's own is given as, `form`, or why the module cannot be imported.
    """
    module_name, _, name = path.partition(":")
    if not all(part.isidentifier() for part in module_name.split(".")) or not name.isidentifier():
        raise UserError(f"an own {kind} is given as {form}, not {path!r}")
    if "" not in sys.path:
        sys.path.append("")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise UserError(f"module {module_name!r} needs {error.name!r}, which is not installed") from None
        raise UserError(f"no module {module_name!r} for {kind} {path!r}; give {form}, importable from here") from None
    except Exception as error:
        if module_name.startswith("pflrepro."):
            raise
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"module {module_name!r} fails when imported{failing_statement(error)}: {reason}") from None
    return module, getattr(module, name, None)


def failing_statement(error: BaseException) -> str:
    """` at my_module.py:12`: the statement at which a module could not be imported; "" for one whose message names it itself."""
    frames = traceback.extract_tb(error.__traceback__)
    modules = [frame.filename for frame in frames if frame.name == "<module>"]
    # the body of a class, or a function of that file, is nearer to the mistake than the module's own frame
    line = next((frame.lineno for frame in reversed(frames) if modules and frame.filename == modules[-1]), None)
    return "" if line is None else at_line(modules[-1], line)


def _ours(base: type) -> bool:
    return base is object or base.__module__.partition(".")[0] == "pflrepro"


def _check_fields(base: type, kind: type[Method]) -> None:
    """Names with a type are options only where `dataclass` has seen them."""
    from pflrepro.algorithms.contract import Method

    names = [name for name, hint in inspect.get_annotations(base).items() if "ClassVar" not in str(hint)]
    names = [name for name in names if not hasattr(Method, name)]
    if names and issubclass(base, Method) and "__dataclass_fields__" not in vars(base):
        place = "" if base is kind else f", of which {kind.__name__} is made,"
        raise UserError(
            f"{base.__name__}{place} has no @dataclass(frozen=True) above it, so that {', '.join(names)} would be no option; "
            "write that line above the class"
        )


def _warn_of_slips(kind: type[Method], own: list[type]) -> None:
    """Say which public functions are no hook and are called by none of the class's functions: misspelt, or another library's hooks."""
    contract = {name for base in kind.__mro__ if _ours(base) for name in vars(base) if not name.startswith("_")}
    written = [(name, each) for base in own for name, each in vars(base).items()]
    functions = {name for name, each in written if isinstance(each, FunctionType)}
    called = {name for _, each in written for name in _names(_code(each))}
    for name in sorted(functions - contract - called):
        if not name.startswith("_"):
            meant = difflib.get_close_matches(name, contract, n=1, cutoff=CLOSE)
            better = f"meant: {meant[0]}?" if meant else f"if it is no hook, call it _{name}"
            log.warning("%s defines %s, which nothing calls; %s", kind.__name__, name, better)


def _code(written: object) -> CodeType | None:
    """Of a function, plain or in a property, a class method or the like."""
    inside = (getattr(written, name, None) for name in ("fget", "func", "__func__"))
    return getattr(next(filter(None, inside), written), "__code__", None)


def _names(code: CodeType | None) -> Iterator[str]:
    """The names that a function and those inside it read."""
    if code is None:
        return
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
