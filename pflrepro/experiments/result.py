"""A finished run: what its folder holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pflrepro.errors import UserError, check_range
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.history import History, answer
from pflrepro.markup import facts
from pflrepro.metrics.accuracy import pooled, pooled_after
from pflrepro.metrics.divergence import Divergence, divergence
from pflrepro.metrics.selection import select
from pflrepro.notebook import duration

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Moment = str | int  # "best", "last", or a round


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run, as far as it was asked for.

    Attributes:
        id: of the run, whatever its length.
        experiment: what was asked for; read from the store, it lacks the folder of a partition's file.
        identity: all that decides its numbers.
        history: arrays by name, see `pflrepro.experiments.history`.
        environment: what it was made with, see `pflrepro.experiments.environment`.
        folder: where it lies, or the file of a run that is kept without states.
    """

    id: str
    experiment: Experiment
    identity: Mapping[str, Any]
    history: History
    environment: Mapping[str, Any]
    folder: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "history", History(self.history))

    def answering(self, experiment: Experiment) -> Run | None:
        """The run as far as `experiment` asks for it; None where it is too short for that, or was tested too rarely."""
        history = answer(self.history, experiment.settings)
        if history is None:
            return None
        return replace(self, experiment=experiment, history=history)

    def has_more_than(self, other: Run) -> bool:
        """Whether it has all that another run of this identity has, and more; or, where neither has all of the other, more rounds."""
        mine, others = (set(each.history["round"].tolist()) for each in (self, other))
        return mine > others or (not mine <= others and self.rounds > other.rounds)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the data."""
        return self.identity["fingerprint"]

    @property
    def rounds(self) -> int:
        """The last tested round; less than the experiment's where the run stopped early."""
        return int(self.history["round"][-1])

    def round_of(self, moment: Moment) -> int:
        """The round of a moment: `best`, the first with the largest pooled accuracy, `last`, or a tested round itself.

        `UserError` for a round that was not tested, or another word.
        """
        tested = self.history["round"]
        if isinstance(moment, str):
            if moment in ("best", "last"):
                return int(tested[np.argmax(self.curve)] if moment == "best" else tested[-1])
            raise UserError(
                f"unknown moment {moment!r}; valid: best, last, or a tested round such as {int(tested[-1])}"
            )
        check_range("moment", moment, 0, int(tested[-1]), integer=True)
        if moment not in tested:
            near = sorted(tested.tolist(), key=lambda each: abs(each - moment))[:3]
            raise UserError(f"the run was not tested after round {moment}; the nearest that were: {near}")
        return int(moment)

    @cached_property
    def curve(self) -> np.ndarray:
        """Test accuracy pooled over clients, before the next local training, as a fraction, one value a test."""
        return pooled(self.history)

    @cached_property
    def curve_after_training(self) -> np.ndarray:
        """The same right after local training; NaN before anyone has trained."""
        return pooled_after(self.history)

    @cached_property
    def diverged(self) -> Divergence | None:
        """When and at which clients training came apart, if it did: see `pflrepro.metrics.divergence`."""
        return divergence(self.history)

    def accuracy(self, rule: str = "best_round") -> float:
        """The number that a selection rule takes from the curve, as a fraction."""
        return float(select(rule, self.curve))

    @property
    def seconds(self) -> float:
        """What its rounds and tests took, as recorded; seeds of one launch share its time."""
        return float(self.history["seconds"].sum() + self.history["seconds_evaluation"].sum())

    def frame(self) -> pd.DataFrame:
        """One line a test, with the columns of `History.tests`; `history.frame()` has one a test and client."""
        import pandas as pd

        return pd.DataFrame(self.history.tests())

    @property
    def command(self) -> str:
        """The command that makes this run again."""
        return self.experiment.command

    def plot(self, ax: Axes | None = None) -> Axes:
        """Test accuracy over rounds, before and after local training; with `+validation` of the partition that on held-out samples."""
        ax = self.history.plot(ax, self.experiment.data.measured)
        ax.set_title(self._title())
        return ax

    def _title(self) -> str:
        experiment = self.experiment
        return (
            f"{experiment.algorithm} on {experiment.data.dataset}, {experiment.data.partition}, seed {experiment.seed}"
        )

    def __repr__(self) -> str:
        apart = f", {self.diverged}" if self.diverged else ""
        reached = f"{100 * self.accuracy():.2f} % (best_round) after {self.rounds} rounds"
        return f"Run({self._title()}: {reached}{apart}, id {self.id})"

    def _repr_html_(self) -> str:
        measured = self.experiment.data.measured
        rows = {
            f"{measured}, best round": f"{100 * self.accuracy():.2f} %",
            f"{measured}, last round": f"{100 * self.accuracy('last_round'):.2f} %",
            "rounds": f"{self.rounds} ({duration(self.seconds)})",
            "backend, device": f"{self.environment.get('backend', '?')}, {self.environment.get('device', '?')}",
            "run": self.id,
        } | ({"diverged": str(self.diverged)} if self.diverged else {})
        return facts(self._title(), rows)
