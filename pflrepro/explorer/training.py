"""A run that is trained in a thread of its own, so that a notebook stays usable, and that can be stopped between two rounds."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

from pflrepro.errors import Paused, RunFailed, UserError
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.result import Run
from pflrepro.experiments.run import run
from pflrepro.metrics.accuracy import pooled
from pflrepro.simulation.simulation import Simulation

LOOK_EVERY = 0.3  # seconds between looks at what is training: its curve is stacked anew each time


class Training:
    """Trains an experiment in the background; `how`: arguments of `pflrepro.run`.

    round: done so far. rounds, curve: what was tested so far, with its pooled accuracy. run: the finished run, else None.
    message: how it ended, where that is not a finished run; stopped: whether that was asked for.
    """

    def __init__(self, experiment: Experiment, **how: Any) -> None:
        self.experiment, self.message, self.stopped = experiment, "", False
        self.run: Run | None = None
        self.round, self.rounds, self.curve = 0, np.zeros(0, np.int64), np.zeros(0)
        self._how, self._asked = how, threading.Event()
        self._looked = 0.0
        self._thread = threading.Thread(target=self._train, name="pflrepro training", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """Ask it to stop before its next round; what it has then is in the store, and the same experiment goes on from there."""
        self._asked.set()

    def wait(self) -> None:
        """Return when it has ended."""
        self._thread.join()

    def _train(self) -> None:
        try:
            self.run = run(self.experiment, progress=False, simulate=self._engine, **self._how)
        except Paused as paused:
            self.message, self.stopped = str(paused), True
        except (UserError, RunFailed) as error:
            self.message = str(error)
        except Exception as error:  # a thread's traceback would be seen by nobody
            self.message = f"{type(error).__name__}: {' '.join(str(error).split())}"

    def _engine(self, *arguments: Any, **named: Any) -> Simulation:
        return _Watched(self, *arguments, **named)

    def before_round(self, simulation: Simulation) -> None:
        """Raise `Paused` if that was asked for."""
        if self._asked.is_set():
            raise Paused(f"stopped behind round {simulation.round}: run it again to go on from there")

    def after_round(self, simulation: Simulation) -> None:
        """Note how far it is."""
        self.round = simulation.round
        if time.monotonic() - self._looked >= LOOK_EVERY:
            history = simulation.history(0)
            self.rounds, self.curve = history["round"], pooled(history)
            self._looked = time.monotonic()


class _Watched(Simulation):
    """The engine, with somebody who looks on."""

    def __init__(self, watcher: Training, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._watcher = watcher

    def step(self) -> None:
        self._watcher.before_round(self)
        super().step()
        self._watcher.after_round(self)
