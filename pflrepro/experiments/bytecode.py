"""What a code object does, in words that stay when its text is laid out anew, and which names it reads."""

from __future__ import annotations

import dis
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

_VARIADIC = 0x4 | 0x8  # of co_flags: *args, **kwargs
_KIND = 0x20 | 0x80 | 0x100 | 0x200  # generator, coroutine, a generator used as one, asynchronous generator
_GLOBAL = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
NOTES = frozenset({"__doc__", "__firstlineno__", "__static_attributes__"})  # what a class's body stores of its own text


@dataclass
class Reads:
    """What a function and those inside it read.

    Attributes:
        variables: names looked up among the globals, without `__file__` and the like.
        names: all names, of attributes too, and the strings that may be names for `getattr`.
        imports: (module, names from it or None, level of a relative import).
    """

    variables: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    imports: list[tuple[str, tuple[str, ...] | None, int]] = field(default_factory=list)


def describe_code(code: CodeType) -> tuple[str, list[tuple[str, Any]]]:
    """The instructions of `code` with what their numbers stand for; its constants, as ("constant", value), as they are loaded.

    A docstring moves the numbers of constants, and with them those of jumps; neither counts, nor file, lines or the code's name.
    """
    steps, lines, constants = _instructions(code), [], []
    offsets = [step.offset for step in steps]
    for step in steps:
        operand: Any = step.arg
        if step.opcode in dis.hasconst:
            operand = "constant"
            constants.append((operand, code.co_consts[step.arg]))
        elif step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
            operand = bisect_left(offsets, step.argval)
        elif step.opcode in dis.hasname:
            operand = f"{step.argval} {step.argrepr}"
        elif step.opcode in dis.haslocal or step.opcode in dis.hasfree:
            operand = step.argval
        lines.append(f"{step.opname} {operand}")
    for entry in dis.Bytecode(code).exception_entries:
        places = [bisect_left(offsets, place) for place in (entry.start, entry.end, entry.target)]
        lines.append(f"handler {places} {entry.depth} {entry.lasti}")
    counts = code.co_argcount, code.co_kwonlyargcount, (code.co_flags & _VARIADIC).bit_count()
    head = f"{counts} {code.co_posonlyargcount} {code.co_flags & (_VARIADIC | _KIND)} {code.co_varnames[: sum(counts)]}"
    return "\n".join(["code", head, *lines]), constants


def reads_of(code: CodeType) -> Reads:
    """What `code` and the code inside it (functions, classes, comprehensions) read."""
    reads = Reads()
    for inner in _nested(code):
        reads.names.update(inner.co_names)
        steps = _instructions(inner)
        for n, step in enumerate(steps):
            if step.opname in _GLOBAL:
                reads.variables.update(() if is_dunder(step.argval) else (step.argval,))
            elif step.opname == "IMPORT_NAME":
                reads.imports.append((step.argval, steps[n - 1].argval, steps[n - 2].argval))
            elif step.opcode in dis.hasconst and isinstance(step.argval, str):
                reads.names.add(step.argval)
    return reads


def is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _instructions(code: CodeType) -> list[dis.Instruction]:
    """The instructions that do something: without those that keep a place for a line, and without `NOTES`."""
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("NOP", "EXTENDED_ARG")]
    notes = {n for n, step in enumerate(steps) if step.opname == "STORE_NAME" and step.argval in NOTES}
    notes = {n for n in notes if steps[n - 1].opname.startswith("LOAD_")}
    return [step for n, step in enumerate(steps) if n not in notes and n + 1 not in notes]


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)
