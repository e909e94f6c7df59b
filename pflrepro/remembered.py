"""Values that were worked out before, kept in a JSON file: a cache that may be lost, damaged or unwritable at any time.

A file has the SHA-256 of what it keeps: a flipped bit would be another number in somebody's table. One without a sum was written
before there were sums, and is taken as it is.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from pflrepro.atomic import replacing
from pflrepro.errors import UserError

SUM, CONTENT = "sha256", "content"
log = logging.getLogger("pflrepro.cache")


def remembered(place: Path, key: str, work_out: Callable[[], Any], fits: Callable[[Any], bool]) -> Any:
    """The value of `key` in the file at `place` if it is one that `fits`; else `work_out()`, which is then kept there."""
    found = read_cache(place).get(key)
    if fits(found):
        return found
    made = work_out()
    write_cache(place, read_cache(place) | {key: made})  # read again: others may have written meanwhile
    return made


def place_of(kind: str, *places: Path) -> Path:
    """The file for values of a kind that hold for these folders: two that took turns in one file would work all out each time."""
    import platformdirs

    name = sha256("\n".join(str(place.absolute()) for place in places).encode()).hexdigest()
    return platformdirs.user_cache_path("pflrepro") / kind / f"{name[:12]}.json"


def write_cache(place: Path, content: dict[str, Any]) -> None:
    """Keep `content`; a cache that cannot be written to is done without."""
    with suppress(OSError, UserError):
        place.parent.mkdir(parents=True, exist_ok=True)
        kept = json.loads(json.dumps(content))  # as it will be read: JSON's keys are texts
        with replacing(place) as stream:
            stream.write(json.dumps({SUM: _sum(kept), CONTENT: kept}).encode())


def read_cache(place: Path) -> dict[str, Any]:
    """What is kept at `place`; nothing where it is lost or, which is said once, damaged."""
    try:
        if not place.exists():
            return {}
        if not place.is_file():  # a pipe would be waited for
            raise ValueError("it is no file")
        stat = place.stat()
        return dict(_content(place, (stat.st_ino, stat.st_mtime_ns, stat.st_size)))
    except (OSError, ValueError, RecursionError) as error:
        _say(place, " ".join(str(error).split())[:160])
        return {}


@lru_cache(maxsize=8)
def _content(place: Path, version: tuple[int, ...]) -> dict[str, Any]:
    """What a version of a file holds: read once a process."""
    found = json.loads(place.read_text("utf-8"))
    if isinstance(found, dict) and found.keys() == {SUM, CONTENT}:
        if found[SUM] != _sum(found[CONTENT]):
            raise ValueError("its content is not what was written")
        found = found[CONTENT]
    if not isinstance(found, dict):
        raise ValueError("it holds no object")
    return found


def _sum(content: Any) -> str:
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


@cache
def _say(place: Path, reason: str) -> None:
    log.warning("the cache %s cannot be read (%s): what it kept is worked out anew", place, reason)
