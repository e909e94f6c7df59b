"""What a run store can do without."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from pflrepro.experiments.store import Store


@dataclass(frozen=True)
class Freed:
    """Something that goes: of which run (or the name of its folder), what it is, its bytes."""

    id: str
    what: str
    size: int


def prune(store: Store, *, states: bool = False, dry_run: bool = False) -> list[Freed]:
    """Remove the damaged folders that were set aside, with `states` also the kept states of finished runs that nobody trains.

    Histories and readings stay; what needs a state again trains the run again.

    Args:
        dry_run: only say what would go.
    """
    freed = []
    for folder in sorted((store.root / "runs").glob("*.damaged-*")):
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        freed.append(Freed(folder.name, "damaged, set aside", size))
        if not dry_run:
            shutil.rmtree(folder)
    for run in store.runs() if states else ():
        kept = store.states(run.id)
        size = sum(path.stat().st_size for path in kept.values())
        if kept and (dry_run or _dropped(store, run.id)):
            freed.append(Freed(run.id, f"states behind rounds {', '.join(map(str, kept))}", size))
    return freed


def _dropped(store: Store, id: str) -> bool:
    """Whether the states of a run could be removed: nobody else has its lock."""
    lock = store.lock(id)
    if not lock.acquire():
        return False
    try:
        store.drop_states(id)
    finally:
        lock.release()
    return True
