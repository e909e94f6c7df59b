"""Tables and pictures of results: pandas Styler, markdown and csv; matplotlib figures in one style. Lazy."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_EXPORTS = {
    "styled": "tables",
    "markdown": "tables",
    "wide": "tables",
    "points": "plots",
    "curves": "plots",
    "bubbles": "partition",
    "pictures": "outputs",
    "write": "outputs",
    "caption": "captions",
}
__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(import_module(f"pflrepro.viz.{_EXPORTS[name]}"), name)
    raise AttributeError(f"module 'pflrepro.viz' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
