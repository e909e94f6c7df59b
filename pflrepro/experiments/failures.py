"""What goes wrong while a run is trained, in one line that says which method, which seeds, which round, and where in its code."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from pflrepro.errors import RunFailed, UserError
from pflrepro.experiments.config import Experiment
from pflrepro.simulation.failing import place_of, without_result


class Failures:
    """Turns what goes wrong inside the engine into a `RunFailed`; gives a place to say when it began and which simulation it is."""

    def __init__(self, experiment: Experiment, seeds: Sequence[int]) -> None:
        self.experiment, self.name = experiment, name_of(experiment, seeds)
        self.where: dict[str, Any] = {"started": time.monotonic()}

    def __enter__(self) -> dict[str, Any]:
        return self.where

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if not isinstance(error, Exception) or isinstance(error, (UserError, RunFailed)):
            return
        simulation = self.where.get("simulation")
        when = "before its first round" if simulation is None else f"in round {simulation.round + 1}"
        reason = " ".join(str(error).split()) or "no message"
        method = self.experiment.method()
        place, whose = place_of(error, method), without_result(error, method)
        raise RunFailed(f"{self.name} failed {when}{place}: {type(error).__name__}: {reason}{whose}") from error


def name_of(experiment: Experiment, seeds: Sequence[int]) -> str:
    """What is trained, for a message."""
    numbers = ", ".join(map(str, seeds))
    return f"{experiment.algorithm} on {experiment.data.dataset} ({'seeds' if len(seeds) > 1 else 'seed'} {numbers})"
