"""The papers: every table and figure as data, the published numbers, the comparison with ours. Lazy."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_EXPORTS = {
    "ARTEFACTS": "registry",
    "PAPERS": "registry",
    "find": "registry",
    "select": "registry",
    "Artefact": "artefact",
    "published": "numbers",
    "published_tables": "numbers",
    "plan": "planning",
    "run": "running",
    "result": "comparing",
    "Result": "comparing",
    "score": "scoring",
    "summary": "scoring",
}
__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(import_module(f"pflrepro.papers.{_EXPORTS[name]}"), name)
    raise AttributeError(f"module 'pflrepro.papers' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
