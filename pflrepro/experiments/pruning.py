"""What a run store can do without, and how it is put in order."""

from __future__ import annotations

import math
import secrets
import shutil
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pflrepro.errors import CorruptFile, UserError
from pflrepro.experiments import files
from pflrepro.experiments.checkpoint import read_checkpoint
from pflrepro.experiments.folder import CHECKPOINT, CONFIG, DONE, holds_nothing
from pflrepro.experiments.identity import ID_LENGTH
from pflrepro.experiments.readings import FOLDER as READINGS
from pflrepro.experiments.store import Store


@dataclass(frozen=True)
class Freed:
    """Something that goes: of which run (or the name of its folder), what it is, its bytes."""

    id: str
    what: str
    size: int


def prune(
    store: Store,
    *,
    states: bool = False,
    runs: bool = False,
    older_than: float | None = None,
    keep_under: float | None = None,
    dry_run: bool = False,
) -> list[Freed]:
    """Remove the damaged folders that were set aside and what killed processes left (`leftovers`).

    Nothing of a run that somebody trains goes.
    With `states` also the kept states of finished runs: histories and readings stay, what needs a state again trains the run again.
    With `runs` also whole runs, finished or half done, with all that is known of them. The states go first, then the runs, and of
    each those first that were written longest ago.

    Args:
        older_than: only states and runs that were last written more seconds ago.
        keep_under: only as many of them as it takes until all runs together have at most so many bytes.
        dry_run: only say what would go.

    Raises `UserError` where whole runs are to go without a limit, or a limit has nothing to limit.
    """
    limited = older_than is not None or keep_under is not None
    if runs and not limited:
        raise UserError("whole runs are removed by age or size: give --older-than or --keep-under with --runs")
    if limited and not (states or runs):
        raise UserError("say what may go by age or size: --states, --runs, or both")
    freed = leftovers(store, remove=not dry_run)
    for folder in sorted((store.root / "runs").glob("*.damaged-*")):
        freed.append(Freed(folder.name, "damaged, set aside", _size(folder)))
        if not dry_run:
            shutil.rmtree(folder)
    room = math.inf
    if keep_under is not None:
        room = keep_under - _size(store.root / "runs") + (sum(each.size for each in freed) if dry_run else 0)
    kept = [each for each in (store.root / "runs").glob("*") if _is_of_a_run(each) and not holds_nothing(each)]
    written = {folder.name: _written(folder) for folder in kept}
    oldest = [id for id in sorted(written, key=written.__getitem__) if time.time() - written[id] > (older_than or 0)]
    gone: Counter[str] = Counter()
    for remove in [_states] * states + [_whole] * runs:
        for id in oldest:
            if keep_under is not None and room >= 0:
                return freed
            what = remove(store, id, dry_run)
            if what is not None:
                what = replace(what, size=what.size - (gone[id] if dry_run else 0))
                gone[id] += what.size
                room += what.size
                freed.append(what)
    return freed


def _is_of_a_run(folder: Path) -> bool:
    return len(folder.name) == ID_LENGTH and folder.is_dir()


def _written(folder: Path) -> float:
    """When a run was last trained: the time of the mark that it is done, of its checkpoint, or of its configuration."""
    return max(
        (path.stat().st_mtime for path in (folder / name for name in (DONE, CHECKPOINT, CONFIG)) if path.exists()),
        default=0.0,
    )


def _states(store: Store, id: str, dry_run: bool) -> Freed | None:
    """Remove the kept states of a run that is done, here or in the package."""
    kept = store.states(id) if (store.folder(id) / DONE).exists() or store.looked_into(id) else {}
    kept = {
        round: kept[round] for round in kept.keys() - store.ahead(id)
    }  # a run that was stopped there is not finished
    size = sum(path.stat().st_size for path in kept.values())
    if not kept or _alone(store, id, lambda: dry_run or store.drop_states(id, kept)) is None:
        return None
    return Freed(id, f"states after rounds {', '.join(map(str, sorted(kept)))}", size)


def _whole(store: Store, id: str, dry_run: bool) -> Freed | None:
    """Remove a run."""
    folder = store.folder(id)
    size, done = _size(folder), (folder / DONE).exists()

    def remove() -> bool:
        going = folder.with_name(f".{id}.{secrets.token_hex(4)}.tmp")  # half of it gone is none of it there
        folder.rename(going)
        shutil.rmtree(going)
        return True

    what = "models of a shipped run" if store.looked_into(id) else "a run" if done else "a half-done run"
    return Freed(id, what, size) if _alone(store, id, lambda: dry_run or remove()) else None


def leftovers(store: Store, *, remove: bool = False) -> list[Freed]:
    """What processes that were killed left in the folders of runs that nobody trains, and nothing needs; with `remove` it goes.

    Half-written files and folders, results that newer ones replaced, the checkpoint of a run that is done to that round, and the folder
    of one that ended before its first checkpoint. Where the store cannot be written to, nobody can remove anything: nothing is found.
    """
    runs, found = store.root / "runs", []
    for id in sorted({_id_of(path) for path in runs.iterdir()}) if runs.is_dir() else ():

        def look(id: str = id) -> list[Freed]:
            left = [(path, Freed(id, what, _size(path))) for path, what in _left(store, id)]
            for path, _ in left if remove else ():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            return [freed for _, freed in left]

        if len(id) == ID_LENGTH and _left(store, id):
            found += _alone(store, id, look) or []
    return found


def repair(store: Store) -> list[str]:
    """Set the damaged run folders aside, so that their runs are made anew, and remove the leftovers; what was done, a line each."""
    told = [
        f"run folder {folder.name} was damaged ({reason}) and is set aside"
        for folder, reason in store.health().damaged
        if store.get(folder.name) is None and not folder.exists()
    ]
    return told + [f"{freed.what} of run {freed.id} is removed" for freed in leftovers(store, remove=True)]


def _id_of(path: Path) -> str:
    """The run that an entry of the store belongs to: its folder's name, or that of a folder in the making (`.<id>.<digits>.tmp`)."""
    return path.name.split(".")[1] if path.name.startswith(".") else path.name


def _left(store: Store, id: str) -> list[tuple[Path, str]]:
    folder = store.folder(id)
    half = [*(store.root / "runs").glob(f".{id}.*.tmp"), *folder.glob(".*.tmp"), *folder.glob(f"{READINGS}/.*.tmp")]
    left = [(path, "a half-written file") for path in half]
    left += [(folder, "the folder, with nothing to go on from,")] if holds_nothing(folder) else []
    try:
        done = files.read_json(folder / DONE)
        meant = {done["history"], done["record"]}
        for path in (*folder.glob("history-*"), *folder.glob("record-*")):
            left += [(path, "a replaced result")] if path.name not in meant else []
        if (folder / CHECKPOINT).exists() and _is_behind(folder, done["rounds"]):
            left.append((folder / CHECKPOINT, "the checkpoint of a finished run"))
    except (KeyError, UserError, OSError):  # not done, damaged, or not for us: nothing is known to be superfluous
        pass
    return left


def _is_behind(folder: Path, rounds: int) -> bool:
    """Whether no longer run can go on from the folder's checkpoint."""
    try:
        return read_checkpoint(folder / CHECKPOINT, folder.name).round <= rounds
    except CorruptFile:
        return True


def _size(path: Path) -> int:
    found = 0
    for each in (path, *path.rglob("*")):
        with suppress(OSError):  # another process has just renamed it
            found += each.stat().st_size if each.is_file() else 0
    return found


def _alone(store: Store, id: str, work: Callable[[], Any]) -> Any | None:
    """What `work` gives under the lock of a run; None where another process has it, or the store cannot be written to."""
    lock = store.lock(id)
    try:
        if not lock.acquire():
            return None
    except UserError:
        return None
    try:
        return work()
    finally:
        lock.release()
