"""Sizes and partitions that follow from the package's code (and its data) alone: counted once a version of the code, then read.

Building a large network or drawing a partition takes a second; the score card shows forty of them whenever it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from pflrepro.remembered import place_of, remembered

PACKAGE = Path(__file__).parents[1]


def counted(key: str, count: Callable[[], Any]) -> Any:
    """`count()`, a value in JSON's types; remembered in the user's cache folder as long as no file of the package changes."""
    stamp = code_version()
    found = remembered(
        file(),
        key,
        lambda: [stamp, count()],
        lambda kept: isinstance(kept, list) and len(kept) == 2 and kept[0] == stamp,
    )
    return found[1]


def file() -> Path:
    """Where they are kept."""
    return place_of("counted", PACKAGE)


@cache
def code_version() -> str:
    """Digest of the names, sizes and times of the package's modules and tables: hashing their texts would take longer than a count."""
    stats = ((path, path.stat()) for path in sorted(PACKAGE.rglob("*")) if path.suffix in (".py", ".csv"))
    texts = (f"{path.relative_to(PACKAGE)} {stat.st_size} {stat.st_mtime_ns}" for path, stat in stats)
    return sha256("\n".join(texts).encode()).hexdigest()
