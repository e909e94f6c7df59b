"""The runs of a store that are not finished: how far each is, how good so far, and whether somebody trains it now."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pflrepro.errors import CorruptFile, UserError
from pflrepro.experiments import files
from pflrepro.experiments.checkpoint import read_checkpoint
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.folder import CHECKPOINT, DONE, read_config
from pflrepro.experiments.locks import RunLock
from pflrepro.experiments.runs import configuration
from pflrepro.markup import Brief, records
from pflrepro.metrics.divergence import Divergence, divergence
from pflrepro.notebook import duration


@dataclass(frozen=True, repr=False)
class Unfinished(Brief):
    """A run as its last checkpoint has it; before the first, at round 0.

    Attributes:
        experiment: as it was asked for last.
        round: rounds done.
        accuracy: the best test accuracy so far, as a fraction; NaN before the first test, and of checkpoints of older versions.
        best_round: where that was reached; -1 before the first test.
        diverged: by which round its training came apart at the latest, and at which clients; None where it did not.
        seconds_per_round: on average, training and tests; of seeds that train side by side all of them. NaN before the first round.
        saved: when, in seconds since 1970; None where nothing was saved yet.
        trained: whether a process trains it now.
    """

    id: str
    experiment: Experiment
    round: int = 0
    accuracy: float = math.nan
    best_round: int = -1
    diverged: Divergence | None = None
    seconds_per_round: float = math.nan
    saved: float | None = None
    trained: bool = False

    @property
    def _percent(self) -> str:
        return "" if math.isnan(self.accuracy) else f"{100 * self.accuracy:.2f} %, "

    def line(self) -> dict[str, Any]:
        """As a line of a table."""
        of, asked = configuration(self.experiment), self.experiment.settings.rounds
        ago = "" if self.saved is None else f"{duration(max(0.0, time.time() - self.saved))} ago"
        return {name: of[name] for name in ("algorithm", "options", "dataset", "partition", "seed")} | {
            "round": f"{self.round:,} of {'at most ' if self.experiment.settings.patience else ''}{asked:,}",
            "best so far": "" if self.best_round < 0 else f"{self._percent}round {self.best_round:,}",
            "diverged": f"by round {self.diverged.round:,}" if self.diverged else "",
            "a round": "" if math.isnan(self.seconds_per_round) else duration(self.seconds_per_round),
            "saved": ago,
            "now": "is trained" if self.trained else "stopped",
            "id": self.id,
        }


class UnfinishedRuns(list[Unfinished]):
    """A list of them that shows itself as a table."""

    def __repr__(self) -> str:
        return "\n".join([f"UnfinishedRuns({len(self)})", *(f"  {each!r}" for each in self)])

    def _repr_html_(self) -> str:
        said = f"<p>{len(self)} unfinished run{'' if len(self) == 1 else 's'}</p>"
        return said + (records([each.line() for each in self]) if self else "")


def read_unfinished(folder: Path, lock: RunLock, ahead: Sequence[int] = ()) -> Unfinished | None:
    """What stands in a run's folder; None for a leftover: the checkpoint of a run that is done to that round.

    Args:
        ahead: the rounds of states that a finished run has not come to; the last stands in for a checkpoint.
    """
    _, experiment = read_config(folder)
    path = folder / CHECKPOINT
    if ahead and not path.exists():
        path = folder / f"state-{ahead[-1]}.npz"
    try:
        saved = path.stat().st_mtime
        checkpoint = read_checkpoint(path, folder.name, tests_only=True)
    except (FileNotFoundError, CorruptFile):
        if path.exists():
            raise
        # nothing was saved yet, or another process has just finished the run
        return None if (folder / DONE).exists() else Unfinished(folder.name, experiment, trained=_held(lock))
    if (folder / DONE).exists() and checkpoint.round <= files.read_json(folder / DONE).get("rounds", 0):
        return None
    if checkpoint.attempts:
        experiment = experiment.with_settings(**checkpoint.attempts[-1].get("asked", {}))
    spent = sum(attempt["seconds"] for attempt in checkpoint.attempts)
    samples = checkpoint.attempts[-1].get("test_samples") if checkpoint.attempts else None
    return Unfinished(
        folder.name,
        experiment,
        checkpoint.round,
        *_best(checkpoint.history, samples),
        _diverged(checkpoint.history, samples),
        spent / checkpoint.round if checkpoint.round else math.nan,
        saved,
        _held(lock),
    )


def _best(tested: Mapping[str, Any], samples: int | None) -> tuple[float, int]:
    """The best accuracy and its round; NaN of a checkpoint that does not say how many samples are tested."""
    if not len(tested.get("round", ())):
        return math.nan, -1
    correct = tested["correct"].sum(1)
    place = int(correct.argmax())
    return float(correct[place] / samples) if samples else math.nan, int(tested["round"][place])


def _diverged(tested: Mapping[str, Any], samples: int | None) -> Divergence | None:
    """As `divergence` finds it, but for losses that are huge and finite: of a client's samples only the sum over clients is known."""
    return divergence({**tested, "test_samples": samples or math.inf}) if "loss" in tested else None


def _held(lock: RunLock) -> bool:
    """Whether somebody has the lock; where the store cannot be written to, nobody is known to."""
    try:
        free = lock.acquire()
    except UserError:
        return False
    if free:
        lock.release()
    return not free
