"""What looks on while runs are trained: a tracker of experiments, the bar of progress, a class of one's own.

    class Print(pflrepro.experiments.Callback):
        def round(self, round, scores):
            for line in scores:
                print(round, line["accuracy"])

    pflrepro.run(experiments, callbacks=[Print()])

Neither the identity of a run nor its numbers depend on them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from pflrepro.errors import Paused, UserError, is_several
from pflrepro.experiments.history import History
from pflrepro.experiments.identity import Job
from pflrepro.experiments.result import Run

log = logging.getLogger("pflrepro.run")
FUNCTIONS = ("start", "round", "end")


class Callback:
    """Three functions, which do nothing by default; whatever has all three is a callback.

    Runs that differ only in their seed train side by side and are told of together. All is told in the process that trains, between two
    rounds: with worker processes in their parent, in a sweep with a launcher where the task is trained. Nothing is told of runs that
    the store has, for these are not trained. A callback that raises is warned of and told no more, as training must not be lost for
    it; but `pflrepro.errors.Paused` stops the runs: what was trained is saved, and the same call goes on from there.
    """

    def start(self, jobs: Sequence[Job], round: int) -> None:
        """Runs begin, or go on behind `round` rounds; each job has `id` and `experiment`."""

    def round(self, round: int, scores: Sequence[Mapping[str, float]]) -> None:
        """So many rounds are done, of each run; for every round from 0 on, also those of an earlier call, half a second late at most.

        `scores`: for each run its numbers by the names of `History.tests`; empty where nothing was tested after this round.
        """

    def end(self, runs: Sequence[Run]) -> None:
        """The runs are in the store, as far as they were asked for; none: they broke or were stopped."""


class Watching:
    """Tells `callbacks` what is trained; `UserError` for what is none."""

    def __init__(self, callbacks: Sequence[Any] = ()) -> None:
        if not is_several(callbacks):
            raise UserError(f"callbacks is a list of callbacks, also of one, not {callbacks!r}")
        self.callbacks = list(callbacks)
        for each in self.callbacks:
            lacking = [name for name in FUNCTIONS if not callable(getattr(each, name, None))]
            if lacking or isinstance(each, type):
                what = "it is a class, to be called first" if isinstance(each, type) else f"it lacks {lacking[0]}"
                raise UserError(f"a callback has the functions {', '.join(FUNCTIONS)}; {each!r} is none: {what}")
        self._runs, self._told = 0, -1
        self._pause: Paused | None = None

    def add(self, callback: Callback) -> None:
        """One more, told after the others."""
        self.callbacks.append(callback)

    def start(self, jobs: Sequence[Job], round: int) -> None:
        """Runs of one pack begin, or go on."""
        self._runs, self._told, self._pause = len(jobs), -1, None
        self._tell("start", jobs, round)

    def look(self, simulation: Any) -> None:
        """Tell of the rounds since the last look; raises `Paused` behind the last of them where a callback did."""
        if not self.callbacks:
            return
        tested = [_lines(History(simulation.history(index)), self._told) for index in range(self._runs)]
        for round in range(self._told + 1, simulation.round + 1):
            self._tell("round", round, [lines[round] for lines in tested if round in lines])
        self._told = simulation.round
        if self._pause is not None:
            raise self._pause

    def end(self, runs: Sequence[Run]) -> None:
        """The pack has come to its end, or none of its runs has; raises `Paused` where a callback did only now."""
        before = self._pause
        self._tell("end", runs)
        if self._pause is not before:
            raise self._pause

    def _tell(self, what: str, *told: Any) -> None:
        for each in list(self.callbacks):
            try:
                getattr(each, what)(*told)
            except Paused as paused:
                self._pause = paused
            except Exception as error:
                self.callbacks.remove(each)
                reason = " ".join(f"{type(error).__name__}: {error}".split())
                log.warning("the callback %s is told no more, %s failed: %s", type(each).__name__, what, reason)


def _lines(history: History, told: int) -> dict[int, dict[str, float]]:
    """Round -> numbers by name, of the tests after later rounds than `told`."""
    if "round" not in history:
        return {}
    columns = {name: array.tolist() for name, array in history.behind(told).tests().items()}
    rounds = columns.pop("round")
    return {round: {name: column[place] for name, column in columns.items()} for place, round in enumerate(rounds)}
