"""Fingerprints of data sets that were worked out before, in the user's cache folder: a file is hashed once, not in every process.

What was worked out holds as long as the file has its time, size and inode, and its set is made in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pflrepro.atomic import replacing
from pflrepro.data.arrays import SHIFT_REVISION
from pflrepro.data.datasets import find
from pflrepro.errors import UserError
from pflrepro.experiments.loading import Stamp


def remembered(dataset: str, root: str, stamp: Stamp, work_out: Callable[[], str]) -> str:
    """The fingerprint of a data set in the folder `root`, whose file `stamp` tells from others: read, or worked out and then kept.

    Data that come with a package have none to be kept: theirs is the declared one, without which they are refused.
    """
    spec = find(dataset)
    if spec.embedded and spec.fingerprint:
        return spec.fingerprint
    if stamp is None:
        return work_out()
    place, key = (
        file(),
        f"{dataset} {Path(root).absolute()} {spec.shift} {spec.part} {spec.samples} {SHIFT_REVISION} {stamp}",
    )
    found = _read(place).get(key)
    if isinstance(found, str):
        return found
    made = work_out()
    with suppress(OSError, UserError):  # a cache that cannot be written to is done without
        place.parent.mkdir(parents=True, exist_ok=True)
        content = _read(place) | {key: made}
        with replacing(place) as stream:
            stream.write(json.dumps(content, indent=0).encode())
    return made


def file() -> Path:
    """Where they are kept."""
    import platformdirs

    return platformdirs.user_cache_path("pflrepro") / "fingerprints.json"


def _read(place: Path) -> dict[str, str]:
    try:
        found = json.loads(place.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
