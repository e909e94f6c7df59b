"""What the papers read from a finished run: its curves in percent and what the selection rule takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from pflrepro.experiments.store import Run


@dataclass(frozen=True)
class Curves:
    """The curves of one cell, one row a seed, in percent; runs that stopped early end in NaN.

    `rounds` int64 [E]; `before`, `after` float64 [S, E]: test accuracy pooled over clients before the next local
    training, and right after local training (NaN at round 0 and where the method has none).
    """

    rounds: np.ndarray
    before: np.ndarray
    after: np.ndarray


def accuracy_curve(history: Mapping[str, Any], after: bool = False) -> np.ndarray:
    """Test accuracy in percent, pooled over clients (correct / test samples), one value an evaluation, float64 [E]."""
    from pflrepro.metrics import accuracy

    return 100.0 * (accuracy.pooled_after(history) if after else accuracy.pooled(history))


@dataclass(frozen=True, eq=False)
class Trials:
    """What the selection rule takes from the runs of one cell, one entry a seed.

    `values` float64 [S]: pooled test accuracy in percent. `correct`: a seed's correct predictions a client, float64 [N], at the
    selected evaluation (their mean, where the rule takes several); `samples`: a seed's test samples a client, int64 [N].
    """

    seeds: tuple[int, ...]
    values: np.ndarray
    correct: tuple[np.ndarray, ...]
    samples: tuple[np.ndarray, ...]

    def at(self, seeds: Sequence[int]) -> np.ndarray:
        """The values of these seeds, in their order, float64 [len(seeds)]."""
        return self.values[[self.seeds.index(seed) for seed in seeds]]


def trials(runs: Sequence[Run], rule: str) -> Trials:
    """The selected numbers of a cell's runs."""
    import numpy as np

    from pflrepro.metrics.selection import select

    chosen = [select(rule, accuracy_curve(run.history)) for run in runs]
    return Trials(
        seeds=tuple(run.experiment.seed for run in runs),
        values=np.array([choice.value for choice in chosen]),
        correct=tuple(
            np.asarray(run.history["correct"], np.float64)[list(choice.places)].mean(0)
            for run, choice in zip(runs, chosen, strict=True)
        ),
        samples=tuple(np.asarray(run.history["test_samples"]) for run in runs),
    )


def rounds_done(run: Run) -> int:
    """Rounds of training behind the run's last evaluation."""
    return int(run.history["round"][-1])


def curves(runs: list[Run]) -> Curves:
    """The curves of the runs of one cell, padded with NaN to the longest."""
    import numpy as np

    length = max(len(run.history["round"]) for run in runs)
    longest = next(run for run in runs if len(run.history["round"]) == length)

    def padded(after: bool) -> np.ndarray:
        stack = np.full((len(runs), length), np.nan)
        for place, run in enumerate(runs):
            values = accuracy_curve(run.history, after)
            stack[place, : len(values)] = values
        return stack

    return Curves(np.asarray(longest.history["round"]), padded(False), padded(True))
