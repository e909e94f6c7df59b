"""What is asked of a class of the user's own, said when it is loaded: its options, and hooks as the contract spells and calls them."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import logging
from collections.abc import Iterator
from functools import cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING

from pflrepro.errors import UserError, at_line

if TYPE_CHECKING:
    from pflrepro.algorithms.contract import Method

log = logging.getLogger("pflrepro.algorithms")
CLOSE = 0.8  # difflib's ratio: `corect` and `agregate` are spelt nearly as hooks, `beta_schedule` is not


@cache  # once a class: it is looked up for every experiment
def check_own(kind: type[Method]) -> None:
    """`UserError` for options that could not be given or left out, and for hooks that take other arguments than the contract gives; a
    warning for a function that nothing calls.
    """
    own = [base for base in kind.__mro__ if not _ours(base)]
    for base in own:
        _check_fields(base, kind)
        _check_hooks(base)
    for field in dataclasses.fields(kind):
        if field.default_factory is not dataclasses.MISSING:
            raise UserError(
                f"option {field.name} of {kind.__name__} is a {type(field.default_factory()).__name__} that a default_factory makes; "
                f"an option is a number, a word, true or false: write {field.name}: TYPE = VALUE"
            )
        if field.default is dataclasses.MISSING:
            raise UserError(
                f"{kind.__name__} has an option without a default, {field.name}; write {field.name}: TYPE = VALUE"
            )
    _warn_of_slips(kind, own)


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


def _check_hooks(base: type) -> None:
    """Each hook takes the arguments that the contract gives it, in that order."""
    from pflrepro.algorithms.contract import Method

    for name, hook in vars(base).items():
        contract = vars(Method).get(name)
        if name.startswith("_") or not (isinstance(hook, FunctionType) and isinstance(contract, FunctionType)):
            continue
        given = inspect.signature(contract).parameters
        try:
            inspect.signature(hook).bind(*given)
        except TypeError as error:
            code = inspect.unwrap(hook).__code__
            place = at_line(code.co_filename, code.co_firstlineno)
            raise UserError(f"{base.__name__}.{name}{place} must take ({', '.join(given)}): {error}") from None


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
