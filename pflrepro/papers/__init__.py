"""The papers: every table and figure as data, the published numbers, the comparison with ours. Lazy."""

from __future__ import annotations

from pflrepro.lazy import lazy_names

_NAMES = {
    "ARTEFACTS": ".registry",
    "PAPERS": ".registry",
    "find": ".registry",
    "select": ".registry",
    "Artefact": ".artefact",
    "published": ".numbers",
    "published_tables": ".numbers",
    "study": ".studies",
    "Study": ".studies",
    "score": ".scoring",
    "score_card": ".scoring",
    "summary": ".scoring",
}
__all__ = list(_NAMES)
__getattr__, __dir__ = lazy_names(__name__, _NAMES)
