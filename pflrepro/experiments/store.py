"""The run store: one folder a run, whole or resumable or set aside, never half trusted.

    <root>/runs/<id>/config.json          what was run, and its identity, whose digest is the id
                     history-<sum>.npz    round x client, see `pflrepro.experiments.history`
                     record-<sum>.json    versions, device, timings, peak memory
                     state-<round>.npz    the engine's state after a round: the last one, from which the run can grow, and kept ones
                     readings/            what was measured on its models, see `pflrepro.experiments.readings`
                     checkpoint.npz       only while it is trained
                     done                 written last: which history and record are meant, and SHA-256 of them and of config.json
    <root>/locks/<id>.lock                held by the process that trains it
    <root>/listing.json                   the runs as lines of a table, see `pflrepro.experiments.listing`; made anew where it is lost
    <root>/timings.json                   what a network's step takes on this machine, for plans
    <root>/notebooks/                     the notebooks that `reproduce` has executed

A folder appears under its name with its configuration in it, and goes again where the run is refused before anything was saved;
every file is written under a temporary name and renamed. A run that is trained on keeps what it has until `done` names the new
files. A folder that does not fit its sums or its name is reported, renamed to `<id>.damaged-N` and made anew; while another process
holds its lock it is left alone. A state that is missing or damaged is computed again.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import string
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pflrepro.errors import CorruptFile, UserError, check_range
from pflrepro.experiments import compact, files
from pflrepro.experiments.behind import Behind
from pflrepro.experiments.checkpoint import Checkpoint, read_checkpoint
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.folder import CHECKPOINT, CONFIG, DONE, FORMAT, holds_nothing, is_done, read_config, read_run
from pflrepro.experiments.history import agree, check_history, spacing_of
from pflrepro.experiments.identity import ID_LENGTH, run_id, written_down
from pflrepro.experiments.locks import RunLock
from pflrepro.experiments.readings import Question, questions, taken
from pflrepro.experiments.result import Run
from pflrepro.experiments.runs import Listed, Runs
from pflrepro.experiments.states import KeptStates
from pflrepro.experiments.unfinished import UnfinishedRuns, read_unfinished
from pflrepro.places import chosen_folder, named_folder

ENVIRONMENT = "PFLREPRO_STORE"
MOST_NAMED = 5  # ids in an error message
log = logging.getLogger("pflrepro.store")


class Health(NamedTuple):
    """What was found under a store's root: the finished runs, the damaged folders with the reason, why others cannot be read."""

    finished: list[Run]
    damaged: list[tuple[Path, str]]
    unreadable: list[str]


class Store(KeptStates, Behind, Listed):
    """The runs under a folder: `root` (--store), else $PFLREPRO_STORE, else a per-user cache folder.

    The folder need not exist. Raises `UserError` if the name is none, belongs to a file or can be nobody's.

    Attributes:
        made: the ids of the runs that were trained through this object.
        behind: a folder of `compact` runs, looked into where the store has nothing; None: those that came with the package.
    """

    def __init__(self, root: str | Path | None = None, behind: str | Path | None = None) -> None:
        self.root = chosen_folder(root, "--store", ENVIRONMENT, "store").absolute()  # a notebook may change its folder
        self.made: set[str] = set()
        self.behind = compact.shipped() if behind is None else named_folder(behind, "behind")

    def __repr__(self) -> str:
        return f"Store({str(self.root)!r})"

    # ---- looking up --------------------------------------------------------------------------------------------------------
    def folder(self, id: str) -> Path:
        """Where the run with this id lies, whether it exists or not."""
        return self.root / "runs" / id

    def lock(self, id: str) -> RunLock:
        """The lock of a run; not held yet."""
        return RunLock(self.root / "locks" / f"{id}.lock")

    def find(self, experiment: Experiment, data_root: str | Path | None = None) -> Run | None:
        """The run of an experiment with the data of this data root, as far as it is asked for, or None.

        `UserError` for what is no experiment.
        """
        return self.answer(run_id(experiment, data_root), experiment)

    def answer(self, id: str, experiment: Experiment) -> Run | None:
        """The run with this id as far as `experiment` asks for it; None where there is none, or not enough of it."""
        for run in (self.get(id), self.compact(id)):
            found = None if run is None else run.answering(experiment)
            if found is not None:
                return found
        return None

    def matching(self, prefix: str) -> list[str]:
        """The ids that begin with `prefix`, in their order: of the finished runs here, and of those in `behind`."""
        here = (path.parent.name for path in (self.root / "runs").glob(f"*/{DONE}"))
        found = {*here, *(path.stem for path in self.behind.glob("*.npz"))}
        return sorted(id for id in found if id.startswith(prefix) and len(id) == ID_LENGTH)

    def id_of(self, prefix: str) -> str:
        """The only id that begins with `prefix`; `UserError` where there is none, or several."""
        found = self.matching(prefix)
        if len(found) == 1:
            return found[0]
        if found:
            few = ", ".join(found[:MOST_NAMED]) + (" ..." if len(found) > MOST_NAMED else "")
            raise UserError(f"{len(found)} runs begin with {prefix!r}: {few}; give more digits")
        if any(self.begun(folder.name) for folder in self._folders() if folder.name.startswith(prefix)):
            raise UserError(
                f"the run that begins with {prefix!r} is not finished; how far it is: pflrepro store unfinished"
            )
        raise UserError(
            f"no run begins with {prefix!r} among the {len(self.matching(''))} of {self.root} and of the package"
        )

    def reading(self, run: Run, question: Question, take: Callable[[], Mapping[str, Any]]) -> dict[str, np.ndarray]:
        """A measurement on a run's models: the kept one, or what `take` gives, which is then kept.

        What came with a shipped run is not: the run that is trained here later, rounded otherwise, would take it for its own.
        """
        file = self._measured(run)
        shipped = None if file is None else compact.reading(file, question)
        if file != run.folder:
            return taken(run.folder, question, take if shipped is None else lambda: shipped)
        if shipped is None and self.holds(run):
            return taken(self.folder(run.id), question, take)
        return {name: np.asarray(value) for name, value in (shipped or take()).items()}

    def holds(self, run: Run) -> bool:
        """Whether models and measurements that are kept here under the id of a run are of its own training.

        They are not of a shipped run that was trained here with other numbers.
        """
        mine = self.get(run.id) if run.folder.is_file() else None
        return mine is None or agree(mine.history, run.history)

    def readings(self, run: Run) -> list[Question]:
        """What was measured on a run's models and is kept, here or in `behind`, by name and round."""
        file = self._measured(run)
        shipped = [] if file is None else compact.questions(file)
        found = {question.text: question for question in (*questions(run.folder), *shipped)}
        return sorted(found.values(), key=lambda each: (each.name, each.round, each.text))

    def get(self, id: str, *, locked: bool = False) -> Run | None:
        """The whole run with this id, or None; a damaged one is reported and set aside, unless another process uses it.

        A shorter beginning of an id stands for the only run, here or in `behind`, that has it; `UserError` for none or several.

        Args:
            locked: the caller holds the run's lock.
        """
        if not isinstance(id, str):
            raise UserError(f"a run's id is a text of {ID_LENGTH} hex digits, or how it begins, not {id!r}")
        if len(id) < ID_LENGTH:
            id = self.id_of(id)
            return self.get(id, locked=locked) or self.compact(id)
        if len(id) != ID_LENGTH or set(id) - set(string.hexdigits):
            raise UserError(f"a run's id is {ID_LENGTH} hex digits, not {id!r}")
        if not is_done(self.folder(id)):
            return None
        try:
            return read_run(self.folder(id))
        except CorruptFile as error:
            if not locked:
                return self._look_again(id)
            self.set_aside(id, str(error))
            return None

    def runs(self, newest: int | None = None) -> Runs:
        """All finished runs here in the order of their ids, or the newest ones; damaged ones are reported and left out."""
        found = self.health(newest)
        for folder, reason in found.damaged:
            log.warning("run folder %s is damaged and left out: %s", folder.name, reason)
        for reason in found.unreadable:
            log.warning("a run is left out: %s", reason)
        return Runs(found.finished)

    def begun(self, id: str) -> bool:
        """Whether a run was begun and is not done: in the making, or stopped and resumed when it is asked for again."""
        begun = os.access(self.folder(id) / CONFIG, os.F_OK) and not os.access(self.folder(id) / DONE, os.F_OK)
        return begun and not self.looked_into(id)

    def looked_into(self, id: str) -> bool:
        """Whether all that is here of a run in `behind` are models that were made again, to look into them."""
        folder, other = self.folder(id), [self.folder(id) / DONE, self.folder(id) / CHECKPOINT]
        return folder.is_dir() and (self.behind / f"{id}.npz").exists() and not any(path.exists() for path in other)

    def unfinished(self) -> UnfinishedRuns:
        """The runs that were begun and are not done, and finished ones that grow: how far each is, how good, whether it is trained now.

        What is damaged is reported and left out.
        """
        found = UnfinishedRuns()
        for folder in self._folders():
            ahead = self.ahead(folder.name)
            if self.begun(folder.name) or (folder / CHECKPOINT).exists() or ahead:
                try:
                    found += filter(None, [read_unfinished(folder, self.lock(folder.name), ahead)])
                except UserError as error:
                    log.warning("an unfinished run is left out: %s", error)
        return found

    def health(self, newest: int | None = None) -> Health:
        """All finished runs (or the newest ones), each read and checked; nothing is changed."""
        found, folders = Health([], [], []), self._folders()
        if newest is not None:
            newest = check_range("newest", newest, 0, integer=True)
            finished = [folder for folder in folders if (folder / DONE).exists()]
            folders = sorted(finished, key=lambda folder: (folder / DONE).stat().st_mtime_ns, reverse=True)[:newest]
        for folder in folders:
            try:
                if is_done(folder):
                    found.finished.append(read_run(folder))
            except CorruptFile as error:
                found.damaged.append((folder, str(error)))
            except UserError as error:
                found.unreadable.append(str(error))
        return found

    def _folders(self) -> list[Path]:
        """The folders of the runs, but those that were set aside and those in the making."""
        runs = self.root / "runs"
        found = sorted(runs.iterdir()) if runs.is_dir() else []
        return [folder for folder in found if len(folder.name) == ID_LENGTH]

    def _look_again(self, id: str) -> Run | None:
        """A run that looked damaged, under its lock: another process may just be making it anew."""
        lock = self.lock(id)
        try:
            free = lock.acquire()
        except UserError:  # a store that cannot be written to can still be read
            free = False
        if not free:
            log.warning(
                "run folder %s is damaged; it is left alone, since another process uses it or the store is read-only",
                id,
            )
            return None
        try:
            return self.get(id, locked=True)
        finally:
            lock.release()

    # ---- writing: the caller holds the lock --------------------------------------------------------------------------------
    def begin(self, id: str, experiment: Experiment, identity: Mapping[str, Any]) -> list[Checkpoint]:
        """Make the run's folder, or look into one: the states that a run of so many rounds may go on from, the furthest first.

        Damaged ones are left out. How far a longer run is that was stopped stays, as a kept state.
        """
        folder = self.folder(id)
        try:
            self._sweep_temporaries(id)
            if folder.exists():
                try:
                    read_config(folder)
                    return self._checkpoints(id, experiment.settings.rounds)
                except CorruptFile as error:
                    self.set_aside(id, str(error))
            described = written_down(experiment)
            new = folder.with_name(f".{id}.{secrets.token_hex(4)}.tmp")
            try:
                new.mkdir(parents=True)
                files.write_json(new / CONFIG, {"format": FORMAT, "experiment": described, "identity": dict(identity)})
                new.rename(folder)
            finally:
                shutil.rmtree(new, ignore_errors=True)
        except OSError as error:
            raise UserError(f"cannot write to the run store {self.root}: {error.strerror or error}") from None
        return []

    def withdraw(self, id: str) -> None:
        """Remove the folder of a run of which nothing was saved."""
        if holds_nothing(self.folder(id)):
            shutil.rmtree(self.folder(id))

    def _checkpoints(self, id: str, latest: int) -> list[Checkpoint]:
        folder, found = self.folder(id), []
        if not (folder / DONE).exists() and any(folder.glob("history-*")):
            log.warning("run folder %s has no mark that it is done: the run goes on from its last state", id)
        if (folder / CHECKPOINT).exists():
            stopped = self._stopped(id)
            if stopped is not None and stopped.round <= latest:
                found.append(stopped)
            elif stopped is not None:
                self.put_checkpoint_by(id)
        kept = self.state(id, latest)
        if kept is not None:
            found.append(kept)
        return sorted(found, key=lambda checkpoint: -checkpoint.round)

    def _stopped(self, id: str) -> Checkpoint | None:
        """How far the run was when it was stopped; a damaged checkpoint is reported and removed: older states may be whole."""
        path = self.folder(id) / CHECKPOINT
        try:
            return read_checkpoint(path, id)
        except CorruptFile as error:
            log.warning(
                "the checkpoint of run %s is damaged, an older state or a fresh start takes its place: %s", id, error
            )
            path.unlink()
            return None

    def drop_checkpoint(self, id: str, reason: str) -> None:
        """Forget the states that do not fit, after a report."""
        log.warning("the checkpoint of run %s is not used, the run starts afresh: %s", id, reason)
        (self.folder(id) / CHECKPOINT).unlink(missing_ok=True)
        self.drop_states(id)

    def finish(
        self,
        id: str,
        experiment: Experiment,
        history: Mapping[str, np.ndarray],
        environment: Mapping[str, Any],
    ) -> Run:
        """Write the results and, last, the mark that the run is done; what they replace goes then.

        Args:
            experiment: what was asked for; the history may be longer.
        """
        folder = self.folder(id)
        kept = {
            "history": files.write_named(folder, "history", ".npz", files.npz_bytes(check_history(history), True)),
            "record": files.write_named(folder, "record", ".json", files.json_bytes(dict(environment))),
        }
        sums = {name: files.sha256(folder / name) for name in (CONFIG, *kept.values())}
        every = spacing_of(history, experiment.settings.every)
        length = {"rounds": int(history["round"][-1]), "every": every}
        files.write_json(folder / DONE, {"format": FORMAT, "id": id, "files": sums, **kept, **length})
        for old in {*folder.glob("history-*"), *folder.glob("record-*")} - {folder / name for name in kept.values()}:
            old.unlink()
        (folder / CHECKPOINT).unlink(missing_ok=True)
        self.made.add(id)
        return read_run(self.folder(id))

    def set_aside(self, id: str, reason: str) -> None:
        """Rename a damaged run folder to `<id>.damaged-N` and say so."""
        folder = self.folder(id)
        number = 1
        while (aside := folder.with_name(f"{id}.damaged-{number}")).exists():
            number += 1
        try:
            folder.rename(aside)
        except OSError as error:
            raise UserError(f"cannot set the damaged run folder {folder} aside: {error.strerror or error}") from None
        log.warning("run folder %s is damaged (%s): set aside as %s", id, reason, aside.name)

    def _sweep_temporaries(self, id: str) -> None:
        """What a killed process left half-written; nobody else writes while the lock is held."""
        for left in (self.root / "runs").glob(f".{id}.*.tmp"):
            shutil.rmtree(left, ignore_errors=True)
        for left in self.folder(id).glob(".*.tmp"):
            left.unlink(missing_ok=True)
