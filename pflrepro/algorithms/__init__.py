"""Methods: one file each, written as pure functions over trees (see `pflrepro.algorithms.contract`)."""

from __future__ import annotations

from pflrepro.lazy import lazy_names

_NAMES = {
    "Method": ".contract",
    "by_label": ".contract",
    "cross_entropy": ".contract",
    "mean": ".contract",
    "one_hot": ".contract",
    "Clock": ".phases",
    "Draw": ".phases",
    "Part": ".phases",
    "Phase": ".phases",
    "Context": ".task",
    "Setup": ".task",
    "Task": ".task",
    "build_method": ".registry",
    "ALGORITHMS": ".entries",
    "PLUGINS": ".entries",
}
__all__ = list(_NAMES)
__getattr__, __dir__ = lazy_names(__name__, _NAMES)
