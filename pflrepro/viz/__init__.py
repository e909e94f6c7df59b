"""Tables and pictures of results: pandas Styler, markdown and csv; matplotlib figures in one style. Lazy."""

from __future__ import annotations

from pflrepro.lazy import lazy_names

_NAMES = {
    "styled": ".tables",
    "claims": ".tables",
    "markdown": ".tables",
    "wide": ".tables",
    "points": ".plots",
    "curves": ".plots",
    "bubbles": "pflrepro.data.picture",
    "bars": ".partition",
    "pictures": ".outputs",
    "write": ".outputs",
    "critical_difference": ".ranks",
    "caption": ".captions",
}
__all__ = list(_NAMES)
__getattr__, __dir__ = lazy_names(__name__, _NAMES)
