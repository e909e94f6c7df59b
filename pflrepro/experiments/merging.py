"""Two stores become one: the finished runs of another store join this one, each whole, and none is made of two trainings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pflrepro.errors import UserError
from pflrepro.experiments import files
from pflrepro.experiments.checkpoint import read_checkpoint
from pflrepro.experiments.folder import DONE, read_run
from pflrepro.experiments.history import agree
from pflrepro.experiments.identity import ID_LENGTH
from pflrepro.experiments.readings import FOLDER
from pflrepro.experiments.result import Run
from pflrepro.experiments.store import Store


@dataclass(frozen=True)
class Merged:
    """What became of a run of the other store.

    Attributes:
        what: `taken` (it was not here, or damaged), `replaced` (it is longer than what was here), `kept` (what is here stays),
            `busy` (somebody trains it here or there: merge again later), `damaged` (there; it is left where it is), `unreadable`
            (what is here, as it is of another version; it stays).
        reason: in what it is damaged, or why it cannot be read.
        files: states and readings that came along.
    """

    id: str
    what: str
    reason: str = ""
    files: int = 0


def merge(store: Store, source: str | Path) -> Iterator[Merged]:
    """Take the finished runs of the store in the folder `source` into `store`; what became of each, as it is done.

    Of a run that both have the longer one is kept, whole, or the one that was tested more often; where they are equal nothing
    changes, so that a merge may be repeated, or go on where it was stopped. The states and readings of both are kept where
    their numbers agree (`history.agree`), else those of the one that is kept. Runs that are half done stay where they are. The source
    is not changed.

    Raises `UserError` where there is no other store at `source`.
    """
    there = Store(source)
    if not (there.root / "runs").is_dir():
        raise UserError(f"no run store at {there.root}: it has no folder runs/")
    if store.root.exists() and there.root.samefile(store.root):
        raise UserError(f"a store is not merged with itself: {there.root}")
    for id in sorted(done.parent.name for done in (there.root / "runs").glob(f"*/{DONE}")):
        if len(id) != ID_LENGTH:  # set aside
            continue
        with _both(store, there, id) as free:
            yield _merge_one(store, there, id) if free else Merged(id, "busy")


@contextmanager
def _both(store: Store, there: Store, id: str) -> Iterator[bool]:
    """Hold a run's locks here and there, or say that somebody else does; a source that cannot be written to has none to hold."""
    with ExitStack() as held:
        ours = store.lock(id)
        if not ours.acquire():
            yield False
            return
        held.callback(ours.release)
        theirs = there.lock(id)
        try:
            free = theirs.acquire()
        except UserError:
            free = True
        else:
            held.callback(theirs.release)
        yield free


def _merge_one(store: Store, there: Store, id: str) -> Merged:
    try:
        theirs = read_run(there.folder(id))
    except UserError as error:  # damaged, or not for us to read
        return Merged(id, "damaged", str(error))
    try:
        mine = store.get(id, locked=True)
    except UserError as error:  # of another version, say
        return Merged(id, "unreadable", str(error))
    stays = mine is not None and not theirs.has_more_than(mine)
    if stays and not agree(theirs.history, mine.history):
        return Merged(id, "kept")
    if stays:
        return Merged(id, "kept", files=_take_along(store, theirs))
    if mine is None or not agree(theirs.history, mine.history):  # another machine's numbers
        store.drop_others(id, theirs.history)
    store.begin(id, theirs.experiment, theirs.identity)  # how far a longer run is that was stopped stays, too
    store.finish(id, theirs.experiment, theirs.history, theirs.environment)
    return Merged(id, "taken" if mine is None else "replaced", files=_take_along(store, theirs))


def _take_along(store: Store, theirs: Run) -> int:
    """Copy the states and readings that are not here yet, those that are whole; how many."""
    here, came = store.folder(theirs.id), 0
    for path in sorted([*theirs.folder.glob("state-*.npz"), *theirs.folder.glob(f"{FOLDER}/*.npz")]):
        target = here / path.relative_to(theirs.folder)
        if target.exists():
            continue
        try:
            read_checkpoint(path, theirs.id) if path.parent == theirs.folder else files.read_npz(path)
        except UserError:  # damaged, or of another version: it is computed again where it is needed
            continue
        target.parent.mkdir(exist_ok=True)
        files.write(target, path.read_bytes())
        came += 1
    return came
