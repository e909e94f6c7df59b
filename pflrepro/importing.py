"""What a user names as `module:name`: a method's class, a network's function."""

from __future__ import annotations

import importlib
import sys
import traceback
from types import ModuleType
from typing import Any

from pflrepro.errors import UserError, at_line


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
        if "non-frozen dataclass from a frozen one" in reason:
            reason += "; a method has @dataclass(frozen=True) above it"
        raise UserError(f"module {module_name!r} fails when imported{failing_statement(error)}: {reason}") from None
    return module, getattr(module, name, None)


def failing_statement(error: BaseException) -> str:
    """` at my_module.py:12`: the statement at which a module could not be imported; "" for one whose message names it itself."""
    frames = traceback.extract_tb(error.__traceback__)
    modules = [frame.filename for frame in frames if frame.name == "<module>"]
    # the body of a class, or a function of that file, is nearer to the mistake than the module's own frame
    line = next((frame.lineno for frame in reversed(frames) if modules and frame.filename == modules[-1]), None)
    return "" if line is None else at_line(modules[-1], line)
