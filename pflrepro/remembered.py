"""Values that were worked out before, kept in a JSON file: a cache that may be lost, damaged or unwritable at any time."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pflrepro.atomic import replacing
from pflrepro.errors import UserError


def remembered(place: Path, key: str, work_out: Callable[[], Any], fits: Callable[[Any], bool]) -> Any:
    """The value of `key` in the file at `place` if it is one that `fits`; else `work_out()`, which is then kept there."""
    found = read_cache(place).get(key)
    if fits(found):
        return found
    made = work_out()
    write_cache(place, read_cache(place) | {key: made})  # read again: others may have written meanwhile
    return made


def write_cache(place: Path, content: dict[str, Any]) -> None:
    """Keep `content`; a cache that cannot be written to is done without."""
    with suppress(OSError, UserError):
        place.parent.mkdir(parents=True, exist_ok=True)
        with replacing(place) as stream:
            stream.write(json.dumps(content, indent=0).encode())


def read_cache(place: Path) -> dict[str, Any]:
    """What is kept at `place`; nothing where it is lost or damaged."""
    try:
        found = json.loads(place.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
