"""What editors and type checkers read of the packages whose names load lazily: `python -m pflrepro.stubs` writes it.

One `__init__.pyi` a package, from its `__all__` and `_NAMES`; a test compares them.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from importlib.util import resolve_name
from pathlib import Path

from pflrepro.lazy import submodules

ROOT = Path(__file__).parent
NOTE = "# Written by `python -m pflrepro.stubs` from __all__ and _NAMES.\n"


def lazy_packages() -> list[str]:
    """The packages that have lazy names."""
    names = ["pflrepro", *(f"pflrepro.{path.parent.name}" for path in sorted(ROOT.glob("*/__init__.py")))]
    return [name for name in names if hasattr(import_module(name), "_NAMES")]


def stub(name: str) -> str:
    """The text of a package's `__init__.pyi`."""
    package = import_module(name)
    places = {public: resolve_name(module, name) for public, module in package._NAMES.items()}
    plain: list[str] = []
    for public in package.__all__:
        value = getattr(package, public)
        if public not in places and (inspect.isclass(value) or inspect.isfunction(value)):
            places[public] = value.__module__
        elif public not in places:
            plain.append(f"{public}: {type(value).__name__}\n")
    inner = {each: name for each in submodules(name) if each not in places}
    lines = sorted(f"from {module} import {public} as {public}\n" for public, module in (places | inner).items())
    return NOTE + "".join(lines) + "".join(plain)


def main() -> None:
    """Write all stubs."""
    for name in lazy_packages():
        path = ROOT.joinpath(*name.split(".")[1:], "__init__.pyi")
        path.write_text(stub(name), encoding="utf-8")


if __name__ == "__main__":
    main()
