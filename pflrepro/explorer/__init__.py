"""Widgets for a notebook: an experiment to put together, to run and to look at. Lazy."""

from __future__ import annotations

from pflrepro.lazy import lazy_names

_NAMES = {"explore": ".experiment", "Explorer": ".experiment"}
__all__ = list(_NAMES)
__getattr__, __dir__ = lazy_names(__name__, _NAMES)
