"""What the score card and the plan say of an artefact, remembered as long as nothing changes that it follows from.

That is the package, the data, the runs that came with it, and in the store those runs alone that the artefact asks for: a new run costs
the artefacts that show it, not all.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pflrepro.data.root import data_root as chosen_data_root
from pflrepro.errors import MissingData
from pflrepro.experiments.store import Store
from pflrepro.papers.artefact import Artefact
from pflrepro.papers.counted import PACKAGE, code_version
from pflrepro.remembered import place_of, read_cache, write_cache

Lines = list[dict[str, Any]]
COMPUTING = ("numpy", "scipy", "pandas")  # whose other version may give an interval or a p other last digits
MARGIN = 2.0  # seconds by which the clock of a file may differ from ours


class Made(NamedTuple):
    """What was worked out for an artefact, in JSON's types, and the ids of the runs that it asks for, there or not."""

    lines: Any
    asked: list[str]


def remembered_lines(
    kind: str,
    artefacts: Iterable[Artefact],
    make: Callable[[Artefact], Made],
    fits: Callable[[Any], bool],
    *,
    store: Store,
    data_root: str | Path | None,
    besides: Sequence[str] = (),
) -> Iterator[Any]:
    """The lines of each artefact: the remembered ones, or what `make` gives, which is then kept.

    Args:
        kind: of lines; each has a file of its own.
        fits: whether lines are of the kind's form: what was kept may be anything.
        besides: what else the lines follow from.
    """
    root = chosen_data_root(data_root)
    place = file(kind, store.root, store.behind, root)
    kept, fresh = read_cache(place), {}
    stamp = _stamp(store.behind, root, besides)
    try:
        for artefact in artefacts:
            found = kept.get(artefact.id)
            if not (_current(found, stamp, store) and fits(found["lines"])):
                begun = time.time()
                made = make(artefact)
                lines = json.loads(json.dumps(made.lines, default=np.generic.item))  # the same types, remembered or not
                seen, written = _seen(store, made.asked)
                found = {"stamp": stamp, "asked": made.asked, "seen": seen, "lines": lines}
                if written < begun - MARGIN:  # else some of it may be younger than the lines
                    fresh[artefact.id] = found
            yield found["lines"]
    finally:
        if fresh:
            write_cache(place, read_cache(place) | fresh)


def file(kind: str, *places: Path) -> Path:
    """Where the lines are kept: apart for each package, store and data root."""
    return place_of(kind, PACKAGE, *places)


def _current(kept: Any, stamp: str, store: Store) -> bool:
    """Whether what was kept follows from what there is now."""
    with suppress(KeyError, TypeError):
        return bool("lines" in kept and kept["stamp"] == stamp and kept["seen"] == _seen(store, kept["asked"])[0])
    return False


def _stamp(behind: Path, data: Path, besides: Sequence[str]) -> str:
    """Of what all artefacts follow from."""
    from pflrepro.data.frost import find_folder

    parts = [sys.version, *map(version, COMPUTING), code_version(), *besides, *_listed(behind)]
    with suppress(OSError):
        parts += [line for folder in sorted(data.iterdir()) for line in (folder.name, *_listed(folder))]
    with suppress(MissingData):
        parts.append(str(find_folder(data)))  # photographs may lie in another package
    return sha256("\n".join(parts).encode()).hexdigest()


def _seen(store: Store, asked: Iterable[str]) -> tuple[str, float]:
    """Of the runs that are there: their files, and when they were written, as one text; and the last of these times, in seconds."""
    lines: list[str] = []
    last = 0.0
    for id in asked:
        lines.append(id)
        for folder in (store.folder(id), store.folder(id) / "readings"):
            stats = _stats(folder)
            lines += _lines(stats)
            with suppress(OSError):  # its own time tells of a file that was renamed or removed
                last = max([last, folder.stat().st_mtime, *(stat.st_mtime for stat in stats.values())])
    return sha256("\n".join(lines).encode()).hexdigest(), last


def _listed(folder: Path) -> list[str]:
    """The files of a folder, see `_lines`."""
    return _lines(_stats(folder))


def _lines(stats: dict[str, os.stat_result]) -> list[str]:
    """Files with size and times; `ctime` tells who may read them, too."""
    return [f"{name} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}" for name, stat in sorted(stats.items())]


def _stats(folder: Path) -> dict[str, os.stat_result]:
    """Of the files of a folder, by name; nothing where it cannot be looked into."""
    with suppress(OSError), os.scandir(folder) as entries:
        return {entry.name: entry.stat() for entry in entries}
    return {}
