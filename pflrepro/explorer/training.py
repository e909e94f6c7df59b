"""A run that is trained in a thread of its own, so that a notebook stays usable, and that can be stopped between two rounds."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from pflrepro.errors import Paused, RunFailed, UserError, unknown
from pflrepro.experiments.callbacks import Callback, Watching
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.result import Run
from pflrepro.experiments.run import moments, run
from pflrepro.experiments.training import Machine

GIVEN = ("experiments", "store", "data_root", "progress")  # arguments of `pflrepro.run` that are not passed on
PASSED_ON = tuple(name for name in inspect.signature(run).parameters if name not in GIVEN)


def check_how(how: Mapping[str, Any]) -> None:
    """`UserError` for arguments that `pflrepro.run` would refuse when it is called, so that they are refused before."""
    for name in how:
        if name not in PASSED_ON:
            said = unknown("argument of explore", name, PASSED_ON)
            raise UserError(f"{said}; what is trained is set by controls, such as explorer.clients.value = 5")
    of_machine = ("backend", "device", "workers", "memory", "checkpoint_every")
    Machine(**{name: how[name] for name in of_machine if name in how})
    moments(how.get("keep", ()), [])
    Watching(how.get("callbacks", ()))


class Training(Callback):
    """Trains an experiment in the background; `how`: arguments of `pflrepro.run`.

    done: rounds so far. curve: (round, pooled accuracy) of each test so far. run: the finished run, else None.
    message: how it ended, where that is not a finished run; stopped: whether that was asked for.
    """

    def __init__(self, experiment: Experiment, **how: Any) -> None:
        self.experiment, self.message, self.stopped = experiment, "", False
        self.run: Run | None = None
        self.done = 0
        self.curve: list[tuple[int, float]] = []
        self._how, self._asked = how, threading.Event()
        self._thread = threading.Thread(target=self._train, name="pflrepro training", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """Ask it to stop, half a second after the round at hand or sooner; it is saved, and the same experiment goes on from there."""
        self._asked.set()

    def wait(self) -> None:
        """Return when it has ended."""
        self._thread.join()

    def _train(self) -> None:
        try:
            callbacks = [self, *self._how.get("callbacks", ())]
            self.run = run(self.experiment, **self._how | {"progress": False, "callbacks": callbacks})
        except Paused as paused:
            self.message, self.stopped = str(paused), True
        except (UserError, RunFailed) as error:
            self.message = str(error)
        except Exception as error:  # a thread's traceback would be seen by nobody
            self.message = f"{type(error).__name__}: {' '.join(str(error).split())}"

    def round(self, round: int, scores: Sequence[Mapping[str, float]]) -> None:
        """Note how far it is; raise `Paused` if that was asked for."""
        self.done = round
        if scores:
            self.curve.append((round, scores[0]["accuracy"]))
        if self._asked.is_set() and round < self.experiment.settings.rounds:
            raise Paused(f"stopped after round {round}: run it again to go on from there")
