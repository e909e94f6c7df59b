"""The states that a store keeps of its runs: from them a run grows, and its models are looked into."""

from __future__ import annotations

import logging
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from pflrepro.errors import CorruptFile, UserError
from pflrepro.experiments import files
from pflrepro.experiments.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from pflrepro.experiments.folder import CHECKPOINT, DONE
from pflrepro.experiments.history import agree
from pflrepro.experiments.readings import FOLDER as READINGS

MOST_STATE_BYTES = 2 << 30
TOGETHER = ".checkpoint.tmp"  # a checkpoint whose run trains beside others that have not got theirs yet
log = logging.getLogger("pflrepro.store")


class KeptStates(ABC):
    """A store's part for the states of its runs; what writes holds the run's lock."""

    @abstractmethod
    def folder(self, id: str) -> Path:
        """Where the run with this id lies."""

    def states(self, id: str) -> dict[int, Path]:
        """Round -> the file of the kept state after it, in ascending order; none of them has been looked into."""
        found = {path.stem.removeprefix("state-"): path for path in self.folder(id).glob("state-*.npz")}
        return dict(sorted((int(round), path) for round, path in found.items() if round.isdecimal()))

    def state(self, id: str, latest: int) -> Checkpoint | None:
        """The latest kept state of a run after round `latest` or before, or None; a damaged one is reported and removed."""
        for round, path in sorted(self.states(id).items(), reverse=True):
            try:
                found = read_checkpoint(path, id) if round <= latest else None
            except CorruptFile as error:
                log.warning("a state of run %s is damaged and computed again where it is needed: %s", id, error)
                with suppress(PermissionError):  # a store that cannot be written to can still be read
                    path.unlink(missing_ok=True)
                continue
            if found is not None:
                return found
        return None

    def keep_state(self, id: str, state: Checkpoint, *, asked: bool = False) -> Path | None:
        """Write the state after a round, or say why it is not kept: a large one is kept only where it was asked for."""
        size = sum(array.nbytes for array in state.state.values())
        if size > MOST_STATE_BYTES and not asked:
            log.warning(
                "the state of run %s after round %d has %.1f GB and is not kept (2 GB at most): what needs it trains the run again",
                *(id, state.round, size / 1e9),
            )
            return None
        path = self.folder(id) / f"state-{state.round}.npz"
        write_checkpoint(path, id, state)
        return path

    def save_checkpoints(self, checkpoints: Mapping[str, Checkpoint]) -> None:
        """Write how far runs are that train side by side: all of them, or, where the process is killed meanwhile, none.

        Seeds that train together round otherwise than each alone, so that they must go on together.
        """
        name = TOGETHER if len(checkpoints) > 1 else CHECKPOINT
        for id, checkpoint in checkpoints.items():
            write_checkpoint(self.folder(id) / name, id, checkpoint)
        for id in checkpoints if name == TOGETHER else ():
            (self.folder(id) / TOGETHER).replace(self.folder(id) / CHECKPOINT)

    def settle_checkpoints(self, ids: Iterable[str]) -> None:
        """Call before runs go on: where a kill came between the renames of `save_checkpoints`, the others get their new name, too."""
        ids = [id for id in ids if self.folder(id).is_dir()]
        known = [_made_in(self.folder(id) / CHECKPOINT, id) for id in ids]
        for id in ids:
            written = self.folder(id) / TOGETHER
            if written.exists() and _made_in(written, id) in filter(None, known):
                written.replace(self.folder(id) / CHECKPOINT)

    def put_checkpoint_by(self, id: str) -> None:
        """How far a run was when it was stopped stays, as a kept state, for a request that it can go on to."""
        path = self.folder(id) / CHECKPOINT
        if path.exists():
            path.rename(self.folder(id) / f"state-{read_checkpoint(path, id, tests_only=True).round}.npz")

    def ahead(self, id: str) -> list[int]:
        """The rounds of kept states that a finished run has not come to: where a longer one, or one tested otherwise, was stopped."""
        try:
            done = files.read_json(self.folder(id) / DONE)["rounds"]
        except (KeyError, UserError, OSError):  # not done, or damaged: said where the run is read
            return []
        return [round for round in self.states(id) if round > done]

    def drop_states(self, id: str, rounds: Iterable[int] | None = None) -> int:
        """Remove the kept states after these rounds (None: all); the bytes that are freed."""
        gone = [path for round, path in self.states(id).items() if rounds is None or round in rounds]
        freed = sum(path.stat().st_size for path in gone)
        for path in gone:
            path.unlink()
        return freed

    def drop_others(self, id: str, history: Mapping[str, np.ndarray]) -> None:
        """Remove the kept states of another training than this history's, and all that was measured: on whose models is not known.

        They are those of a history that this one replaces, or were made again to look into a run in `behind`.
        """
        for path in self.states(id).values():
            try:
                tested = read_checkpoint(path, id, tests_only=True).history
            except UserError:  # damaged, or of another version: said where it is needed
                continue
            if tested and not agree(tested, history):  # before a test it is the start, that of every training
                path.unlink()
        shutil.rmtree(self.folder(id) / READINGS, ignore_errors=True)


def _made_in(path: Path, id: str) -> tuple[int, list[int], int] | None:
    """Of a checkpoint the round, the seeds that train together and the round where they began to; None where none can be read."""
    try:
        found = read_checkpoint(path, id, tests_only=True)
        last = found.attempts[-1]
        return found.round, last["seeds_together"], last["started_at_round"]
    except (UserError, OSError, LookupError):  # damaged ones are reported where they are read
        return None
