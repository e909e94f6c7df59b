"""The identity of a user's own method: a digest of the code in use, not of a file that may say something else by now.

Nothing is remembered between calls, for a notebook exchanges the code under a class that stays.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import re
import sys
from collections import deque
from datetime import date, time, timedelta
from numbers import Number
from types import CodeType, EllipsisType, FunctionType, MappingProxyType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

from pflrepro.experiments.bytecode import NOTES, describe_code, is_dunder, reads_of
from pflrepro.own_modules import is_own, is_own_module, own_import

Entries = list[tuple[str, Any]]  # label, part
# key -> (object, its own text, keys of its parts); the object is kept, for an address is a key only as long as it lives
Nodes = dict[Any, tuple[Any, str, list[Any]]]

_ATOMS = (type(None), bool, int, float, complex, str, bytes, range, EllipsisType)
_MADE_OF = (
    ((staticmethod, classmethod), ("__func__",)),
    (property, ("fget", "fset", "fdel")),
    ((functools.partial, functools.partialmethod), ("func", "args", "keywords")),
    (MethodType, ("__func__", "__self__")),
    (dataclasses.Field, ("name", "default", "default_factory")),
    (enum.Enum, ("_name_", "_value_")),
    (re.Pattern, ("pattern", "flags")),
    (slice, ("start", "stop", "step")),
)
_ANNOTATIONS = {"__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__"}
_NOT_CODE = NOTES | _ANNOTATIONS | {"__module__", "__qualname__", "__dict__", "__weakref__", "__slotnames__"}
_MARKS = ("_torchscript", "_torchdynamo")  # notes that torch leaves on what it has looked at
_SERVICES = ("logging", "weakref")  # the state of their objects is the process's


def code_of(cls: type) -> str:
    """SHA-256 (hex) of the code in use of `cls`: of its functions and values, those of its bases, and what they reach, outside
    this package, Python's library and installed packages, whose functions and classes count by their names.

    Counted: bytecode with its constants, defaults, closures; class attributes, properties, fields' defaults; and what functions
    name of their module and of the user's modules that they import (imported here, if a function does so only when it is called).
    Not counted: docstrings, comments, line numbers, paths, annotations, names that are put together when the code runs. Values
    count as they are now; an object of an installed type by its type and its public plain values. The digest is one of bytecode:
    another minor version of Python gives another.
    """
    nodes: Nodes = {}
    pending: list[Any] = [cls]
    while pending:
        value = pending.pop()
        if (key := _key(value)) not in nodes:
            text, entries = _describe(value)
            nodes[key] = value, f"{text} {[label for label, _ in entries]}", [_key(part) for _, part in entries]
            pending += [part for _, part in entries]
    return _digest(nodes, _key(cls))


def _digest(nodes: Nodes, root: Any) -> str:
    """Objects are distinguished by their texts, then by what they refer to, until no more are. So objects of equal content are one
    (after an edit a notebook has old and new copies side by side), and neither addresses nor the order of visits matter."""
    colours = {key: _sha(text) for key, (_, text, _) in nodes.items()}
    while True:
        finer = {}
        for key, (value, text, parts) in nodes.items():
            seen = [colours[part] for part in parts]
            finer[key] = _sha(text, *(sorted(seen) if isinstance(value, (set, frozenset)) else seen))
        if len(set(finer.values())) == len(set(colours.values())):
            return _sha(finer[root], *sorted({colours[key] + finer[key] for key in nodes}))
        colours = finer


def _sha(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode("utf-8", "backslashreplace")).hexdigest()


def _key(value: Any) -> Any:
    return (type(value), repr(value)) if type(value) in _ATOMS else id(value)


def _describe(value: Any) -> tuple[str, Entries]:
    """A text of the value's own, without its parts, and the parts under labels."""
    if type(value) in _ATOMS:
        return f"{type(value).__name__} {value!r}", []
    for kind, describe in ((CodeType, describe_code), (FunctionType, _function), (type, _class), (ModuleType, _module)):
        if isinstance(value, kind):
            return describe(value)
    if text := _numbers(value):
        return text, []
    for kinds, names in _MADE_OF:
        if isinstance(value, kinds):
            return "made of", [("type", type(value)), *((name, getattr(value, name)) for name in names)]
    return _object(value)


def _function(function: FunctionType) -> tuple[str, Entries]:
    code, home = function.__code__, function.__globals__.get("__name__")
    cells: Entries = []
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            cells.append((f"cell {name}", cell.cell_contents))
        except ValueError:
            cells.append((f"cell {name}, not filled yet", None))
    if not is_own(home):  # a library's decorator holds the user's function; its tables may be caches
        held = [*cells, ("wrapped", getattr(function, "__wrapped__", None))]
        text = f"function {home}.{code.co_qualname}"
        return text, [entry for entry in held if not isinstance(entry[1], (dict, list, set))]
    defaults = [("default", value) for value in function.__defaults__ or ()]
    defaults += [(f"default {name}", value) for name, value in sorted((function.__kwdefaults__ or {}).items())]
    attributes = [(name, value) for name, value in sorted(vars(function).items()) if not name.startswith(_MARKS)]
    return "function", [("code", code), *defaults, *cells, *attributes, *_reached(function)]


def _reached(function: FunctionType) -> Entries:
    """The globals that a function reads; in place of a user's module what the function names of it, or else all of it."""
    space, reads = function.__globals__, reads_of(function.__code__)
    known = [(name, space[name]) for name in reads.variables if name in space]
    modules = [value for _, value in known] + [own_import(space, *wanted) for wanted in reads.imports]
    modules = [module for module in modules if is_own_module(module)]
    entries = {name: value for name, value in known if not is_own_module(value)}
    for module in modules:  # grows as modules are found in modules
        inside = dict(_module(module)[1])
        for name, value in ({name: inside[name] for name in inside.keys() & reads.names} or inside).items():
            if not is_own_module(value):
                entries[f"{module.__name__}.{name}"] = value
            elif value not in modules:
                modules.append(value)
    return sorted(entries.items(), key=lambda entry: entry[0])


def _module(module: ModuleType) -> tuple[str, Entries]:
    inside = sorted(vars(module).items()) if is_own_module(module) else []
    return f"module {module.__name__}", [(name, value) for name, value in inside if not is_dunder(name)]


def _class(cls: type) -> tuple[str, Entries]:
    """The bases in the order of resolution, a user's class with its attributes by name; other classes are their names."""
    if not any(is_own(base.__module__) for base in cls.__mro__):
        return f"class {cls.__module__}.{cls.__qualname__}", []
    bases = [("metaclass", type(cls)), *(("base", base) for base in cls.__mro__[1:])]
    own = sorted(vars(cls).items()) if is_own(cls.__module__) else []
    own = [(name, value) for name, value in own if name not in _NOT_CODE and not name.startswith(_MARKS)]
    return f"class {cls.__qualname__}", bases + own


def _object(value: Any) -> tuple[str, Entries]:
    """A container by its items, in its order; any object by its state, and by its name if it has one (a built-in function)."""
    name = getattr(value, "__qualname__", getattr(value, "__name__", None))
    text = f"object {name}" if isinstance(name, str) else "object"
    entries: Entries = [("type", type(value))]
    if isinstance(value, (dict, MappingProxyType)):
        entries += [entry for key, item in value.items() for entry in (("key", key), ("item", item))]
    elif isinstance(value, (list, tuple, set, frozenset, deque)):
        entries += [("item", item) for item in value]
    elif isinstance(value, (int, float, complex, str, bytes)):
        text += next(b.__repr__(value) for b in (int, float, complex, str, bytes) if isinstance(value, b))
    elif isinstance(value, (Number, bytearray, date, time, timedelta)):
        text += repr(value)
    elif (torch := sys.modules.get("torch")) and isinstance(value, torch.nn.Module):
        entries += sorted(value.state_dict().items())
    return text, entries + _state(value)


def _state(value: Any) -> Entries:
    """Attributes by name: all of an object of the user's or of this package; what is public and plain of another."""
    kind, held = type(value), getattr(value, "__dict__", None)
    held = {str(name): part for name, part in held.items()} if isinstance(held, dict) else {}
    home = str(kind.__module__).partition(".")[0]
    if is_own(kind.__module__) or home == "pflrepro":
        slots = [n for base in kind.__mro__ for n, slot in vars(base).items() if isinstance(slot, MemberDescriptorType)]
        held |= {name: getattr(value, name) for name in slots if hasattr(value, name)}
    else:
        taken = {name for name, part in held.items() if not name.startswith("_") and _is_plain(part)} | {"__wrapped__"}
        held = {name: part for name, part in held.items() if name in taken and home not in _SERVICES}
    return sorted(held.items(), key=lambda entry: entry[0])


def _is_plain(value: Any, depth: int = 4) -> bool:
    if type(value) in _ATOMS or isinstance(value, (FunctionType, type)) or _numbers(value):
        return True
    if depth == 0 or type(value) not in (dict, list, tuple, set, frozenset):
        return False
    return all(_is_plain(item, depth - 1) for item in ([*value, *value.values()] if type(value) is dict else value))


def _numbers(value: Any) -> str | None:
    """Arrays and tensors by their bytes, types of numbers and devices by their names; None for anything else."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if torch and isinstance(value, torch.Tensor):
        try:
            flat = value.detach().cpu().resolve_conj().resolve_neg().reshape(-1).contiguous().view(torch.uint8).numpy()
        except (RuntimeError, TypeError, NotImplementedError):  # sparse, or without data
            flat = b""
        return f"tensor {value.dtype} {tuple(value.shape)} {hashlib.sha256(flat).hexdigest()}"
    if numpy and isinstance(value, (numpy.ndarray, numpy.generic)):
        content = b"" if value.dtype.hasobject else value.tobytes()
        return f"array {value.dtype} {value.shape} {hashlib.sha256(content).hexdigest()}"
    names = ((torch, "dtype"), (torch, "device"), (numpy, "dtype"))
    return repr(value) if any(isinstance(value, getattr(library, name, ())) for library, name in names) else None
