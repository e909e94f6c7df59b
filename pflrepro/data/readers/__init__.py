"""Original files -> arrays: one module a source format, each reader strict about what it accepts.

A reader is a function `(spec, paths) -> Arrays`: `paths` maps the roles of `spec.files` to files (or folders) that have the
published sizes and checksums where there are any. It raises `CorruptFile` for anything odd, in one line that names the file.
A spec names its reader as "module:function", a module of this package; nothing else registers it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from pflrepro.data.arrays import Arrays
from pflrepro.data.sets.types import DatasetSpec

Reader = Callable[[DatasetSpec, Mapping[str, Path]], Arrays]


def reader(name: str) -> Reader:
    """The reader called "module:function" in this package, imported now."""
    module, function = name.split(":")
    return getattr(import_module(f"{__name__}.{module}"), function)
