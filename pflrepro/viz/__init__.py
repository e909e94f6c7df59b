"""Pictures of arrays and numbers: matplotlib figures in one style. Lazy."""

from __future__ import annotations

from pflrepro.lazy import lazy_names

_NAMES = {
    "line_figure": ".lines",
    "dot_figure": ".dots",
    "bar_figure": ".bars",
    "share_figure": ".bars",
    "count_figure": ".counts",
    "bubbles": "pflrepro.data.picture",
}
__all__ = list(_NAMES)
__getattr__, __dir__ = lazy_names(__name__, _NAMES)
