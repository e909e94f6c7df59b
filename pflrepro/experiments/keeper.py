"""The states at the moments that a run was asked to keep, while it is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pflrepro.experiments.checkpoint import Checkpoint
from pflrepro.experiments.history import best_of
from pflrepro.experiments.result import Moment
from pflrepro.metrics.accuracy import pooled

States = dict[int, Mapping[str, Any]]  # round -> the engine's state after it
SAVED = "moments_saved"  # in the record of an attempt: the rounds of the kept states that stand beside its checkpoint


class Keeper:
    """The states at the moments that are asked for, as a simulation comes by them, for each of its seeds.

    Attributes:
        saved: the rounds of those that are in the store with a checkpoint, also of a process before this one.
    """

    def __init__(self, keep: Sequence[Moment], checkpoints: Sequence[Checkpoint | None], patience: int) -> None:
        self.keep, self.patience = keep, patience
        self.states: list[States] = [{} for _ in checkpoints]
        self.saved = [set(each.attempts[-1].get(SAVED, ()) if each and each.attempts else ()) for each in checkpoints]
        self._best = [-1] * len(checkpoints)

    def outdated(self, index: int) -> set[int]:
        """The rounds of states in the store that were the best and are no more."""
        return self.saved[index] - {self._best[index], *self.keep}

    def look(self, simulation: Any) -> None:
        """Call where a simulation goes on from, and after every round."""
        for index, states in enumerate(self.states):
            if simulation.round in self.keep:
                states[simulation.round] = simulation.state_of(index)
            if "best" in self.keep:
                self._look_at_best(simulation, index, states)

    def _look_at_best(self, simulation: Any, index: int, states: States) -> None:
        history = simulation.history(index)
        best = best_of(history["round"], pooled(history), self.patience)
        if best == self._best[index]:
            return
        if self._best[index] not in self.keep:
            states.pop(self._best[index], None)
        self._best[index] = best
        if best == simulation.round:
            states[best] = simulation.state_of(index)
