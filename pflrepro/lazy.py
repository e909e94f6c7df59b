"""Names that load their module on first use, so that importing a package imports no framework."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package whose public names, the keys of `modules`, live in the modules that it gives for them.

    A module that starts with a dot is relative to the package. The package's own modules are among what it lists, and load when they
    are asked for.
    """

    def get(name: str) -> Any:
        if name in modules:
            return getattr(import_module(modules[name], package), name)
        if name in submodules(package):
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: sorted({*modules, *submodules(package)})


def submodules(package: str) -> list[str]:
    """The public modules of an imported package, none of which is loaded for that; of the outermost one its packages alone.

    Example:
        >>> import pflrepro
        >>> {"data", "papers", "viz"} <= set(submodules("pflrepro"))
        True
    """
    found = [module for module in pkgutil.iter_modules(sys.modules[package].__path__) if module.name[0] != "_"]
    return [module.name for module in found if module.ispkg or "." in package]
