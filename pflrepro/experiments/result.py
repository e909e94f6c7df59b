"""A finished run: what its folder holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pflrepro.experiments.config import Experiment

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run.

    folder: where it lies. config: content of `config.json` (`experiment`, `identity`). history: arrays by name, see
    `pflrepro.experiments.history`. environment: what it was made with, see `pflrepro.experiments.environment`.
    """

    folder: Path
    config: Mapping[str, Any]
    history: Mapping[str, np.ndarray]
    environment: Mapping[str, Any]

    @property
    def id(self) -> str:
        return self.folder.name

    @cached_property
    def experiment(self) -> Experiment:
        """What was run; the folder of a partition's file is not recorded."""
        return Experiment.from_dict(self.config["experiment"], recorded=True)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the data."""
        return self.config["identity"]["data"]

    @property
    def rounds(self) -> int:
        """The last evaluated round; less than the experiment's where the run stopped early."""
        return int(self.history["round"][-1])

    @cached_property
    def curve(self) -> np.ndarray:
        """Test accuracy pooled over clients, before the next local training, as a fraction, one value an evaluation."""
        from pflrepro.metrics.accuracy import pooled

        return pooled(self.history)

    @cached_property
    def curve_after_training(self) -> np.ndarray:
        """The same right after local training; NaN before anyone has trained."""
        from pflrepro.metrics.accuracy import pooled_after

        return pooled_after(self.history)

    def accuracy(self, rule: str = "best_round") -> float:
        """The number that a selection rule takes from the curve, as a fraction."""
        from pflrepro.metrics.selection import select

        return float(select(rule, self.curve))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Test accuracy over rounds, before and after local training."""
        import matplotlib.pyplot as plt
        import numpy as np

        ax = plt.subplots()[1] if ax is None else ax
        ax.plot(self.history["round"], 100 * self.curve, label="before local training")
        if not np.isnan(self.curve_after_training).all():
            ax.plot(self.history["round"], 100 * self.curve_after_training, label="after local training")
        ax.set(xlabel="round", ylabel="test accuracy (%)", title=self._title())
        ax.legend()
        return ax

    def _title(self) -> str:
        experiment = self.experiment
        return (
            f"{experiment.algorithm} on {experiment.data.dataset}, {experiment.data.partition}, seed {experiment.seed}"
        )

    def __repr__(self) -> str:
        return (
            f"Run({self._title()}: {100 * self.accuracy():.2f} % (best_round) after {self.rounds} rounds, id {self.id})"
        )

    def _repr_html_(self) -> str:
        seconds = float(self.history["seconds"].sum() + self.history["seconds_evaluation"].sum())
        rows = {
            "test accuracy, best round": f"{100 * self.accuracy():.2f} %",
            "test accuracy, last round": f"{100 * self.accuracy('last_round'):.2f} %",
            "rounds": f"{self.rounds} ({seconds:.3g} s)",
            "backend, device": f"{self.environment.get('backend', '?')}, {self.environment.get('device', '?')}",
            "run": self.id,
        }
        body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows.items())
        return f"<table><caption>{escape(self._title())}</caption>{body}</table>"
