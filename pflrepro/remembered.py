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
    found = _read(place).get(key)
    if fits(found):
        return found
    made = work_out()
    with suppress(OSError, UserError):  # a cache that cannot be written to is done without
        place.parent.mkdir(parents=True, exist_ok=True)
        content = _read(place) | {key: made}  # read again: others may have written meanwhile
        with replacing(place) as stream:
            stream.write(json.dumps(content, indent=0).encode())
    return made


def _read(place: Path) -> dict[str, Any]:
    try:
        found = json.loads(place.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
