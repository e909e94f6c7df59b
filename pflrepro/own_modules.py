"""Which modules are the user's own: not this package's, not Python's, not installed ones."""

from __future__ import annotations

import functools
import importlib.util
import os
import site
import sys
import sysconfig
from types import ModuleType
from typing import Any


def is_own(name: str | None) -> bool:
    """Whether the module `name` is the user's: `__main__` (a script, a notebook), one whose file lies in no folder of Python or
    of installed packages (so a library installed editable, too), or one that was made by hand and is not registered."""
    if name == "__main__":
        return True
    top = str(name).partition(".")[0]
    loaded = [sys.modules[module] for module in (top, str(name)) if module in sys.modules]
    return top != "pflrepro" and all(_is_outside(module) for module in loaded)


def loaded() -> tuple[ModuleType, ...]:
    """The user's modules that are loaded here, but `__main__`; looked for anew when a module has been loaded since."""
    return _loaded(len(sys.modules))


@functools.lru_cache(maxsize=1)
def _loaded(count: int) -> tuple[ModuleType, ...]:
    return tuple(module for name, module in list(sys.modules.items()) if name != "__main__" and is_own(name))


def is_own_module(value: Any) -> bool:
    return isinstance(value, ModuleType) and is_own(value.__name__)


def own_import(space: dict[str, Any], name: str, names: tuple[str, ...] | None, level: int) -> ModuleType | None:
    """The user's module that an `import` in code with the globals `space` binds; None for other modules, which are not loaded for
    this, and where it fails, as it may under a `try`.

    Args:
        name, names, level: as in `__import__`: what is imported, the names from it, how many packages up a relative import goes.
    """
    top = name.partition(".")[0]
    try:
        if not level and not (is_own(top) if top in sys.modules else _is_outside(importlib.util.find_spec(top))):
            return None
        module = __import__(name, space, None, names or (), level)
    except Exception:  # whatever a module may raise while it is executed
        return None
    return module if is_own_module(module) else None


def _is_outside(thing: Any) -> bool:
    """Whether a module, or the spec of one that is not loaded, has a file (a package without one: a folder) that is not installed."""
    file = getattr(thing, "__file__", None) or (thing.origin if getattr(thing, "has_location", False) else None)
    folders = getattr(thing, "__path__", None) or getattr(thing, "submodule_search_locations", None) or ()
    return any(not _is_installed(place) for place in ([file] if file else folders))


def _is_installed(place: str) -> bool:
    paths = {os.path.abspath(place), os.path.realpath(place)}
    below = any(path.startswith(folder + os.sep) for path in paths for folder in _installed_folders())
    return below or any({"site-packages", "dist-packages"} & set(path.split(os.sep)) for path in paths)


@functools.cache
def _installed_folders() -> frozenset[str]:
    folders = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [*site.getsitepackages(), site.getusersitepackages()]
    return frozenset(place for folder in folders for place in (os.path.abspath(folder), os.path.realpath(folder)))
