"""Widgets for a notebook: an experiment to put together, to run and to look at; the runs of a store. Lazy."""

from __future__ import annotations

from pflrepro.lazy import lazy_names

_NAMES = {"explore": ".experiment", "Explorer": ".experiment", "browse": ".browser", "Browser": ".browser"}
__all__ = list(_NAMES)
__getattr__, __dir__ = lazy_names(__name__, _NAMES)
