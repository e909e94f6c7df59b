"""A store's runs as lines of a table, kept in one file beside them: thousands of them without opening thousands of folders again."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pflrepro.errors import CorruptFile, UserError
from pflrepro.experiments.folder import DONE, read_run
from pflrepro.experiments.identity import ID_LENGTH
from pflrepro.experiments.runs import COLUMNS, configuration, results
from pflrepro.notebook import ProgressLine, attached
from pflrepro.remembered import read_cache, write_cache

if TYPE_CHECKING:
    import pandas as pd

LISTING = "listing.json"
MANY = 200  # runs to be read that take so long that a notebook is told
log = logging.getLogger("pflrepro.store")
Line = list[Any]  # when the run was finished, in nanoseconds, then one value a column


def listed(root: Path) -> pd.DataFrame:
    """What `Store(root).frame()` gives of the finished runs, in the order of their ids, each run read once and for all.

    A line that is known is taken as it is while the run's mark that it is done is as old as it was: whoever opens the run checks it.
    Damaged runs are reported and left out. The file may be lost, or damaged, or a store not writable: then runs are read again.

    Example:
        >>> listed(Path("nowhere")).shape == (0, len(COLUMNS))
        True
    """
    import pandas as pd

    there = dict(sorted(_finished(root / "runs").items()))
    lines = {id: line for id, line in _read(root / LISTING).items() if line[0] == there.get(id)}
    new = [id for id in there if id not in lines]
    bar = ProgressLine(len(new), "run") if len(new) > MANY and attached() else None
    for id in new:
        lines[id] = _line(root / "runs" / id, there[id])
        if bar is not None:
            bar.update()
    if bar is not None:
        bar.close()
    found = {id: line for id in there if (line := lines[id]) is not None}
    if new:
        write_cache(root / LISTING, {"columns": list(COLUMNS), "runs": found})
    return pd.DataFrame([line[1:] for line in found.values()], columns=list(COLUMNS))


def _finished(runs: Path) -> dict[str, int]:
    """Id -> when the run was finished."""
    found = {}
    for folder in runs.iterdir() if runs.is_dir() else ():
        with suppress(OSError):
            if len(folder.name) == ID_LENGTH:
                found[folder.name] = (folder / DONE).stat().st_mtime_ns
    return found


def _line(folder: Path, finished: int) -> Line | None:
    try:
        run = read_run(folder)
    except (CorruptFile, UserError) as error:
        log.warning("run folder %s is left out: %s", folder.name, error)
        return None
    values = configuration(run.experiment) | results(run)
    return [finished, *(values[name] for name in COLUMNS)]


def _read(place: Path) -> dict[str, Line]:
    """What is known; nothing where the file is of other columns, or no such file."""
    content = read_cache(place)
    lines = content.get("runs")
    if content.get("columns") != list(COLUMNS) or not isinstance(lines, dict):
        return {}
    return {id: line for id, line in lines.items() if isinstance(line, list) and len(line) == 1 + len(COLUMNS)}
