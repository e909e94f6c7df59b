"""Tables and pictures of results: pandas Styler, markdown and csv; matplotlib figures in one style. Lazy."""

from __future__ import annotations

from pflrepro.lazy import lazy_names

_NAMES = {
    "styled": ".tables",
    "claims": ".tables",
    "markdown": ".tables",
    "wide": ".tables",
    "line_figure": ".lines",
    "dot_figure": ".dots",
    "bar_figure": ".bars",
    "share_figure": ".bars",
    "count_figure": ".counts",
    "bubbles": "pflrepro.data.picture",
    "pictures": ".outputs",
    "write": ".outputs",
    "critical_difference": ".ranks",
    "caption": ".captions",
}
__all__ = list(_NAMES)
__getattr__, __dir__ = lazy_names(__name__, _NAMES)
