"""One progress bar over all rounds of a call; silent where nobody watches."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from pflrepro.experiments.callbacks import Callback
from pflrepro.experiments.identity import Job
from pflrepro.experiments.result import Run
from pflrepro.notebook import ProgressLine, attached


class Progress(Callback):
    """Rounds done of all that are to be run. Shown on a terminal and in a notebook, else silent; a context manager."""

    def __init__(self, shown: bool = True) -> None:
        self.bar: Any = None
        self._wanted = shown
        self._place = 0  # of the pack that runs
        self._length = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()

    @property
    def shown(self) -> bool:
        return self.bar is not None

    def expect(self, rounds: int, unit: str = "round", done: int = 0) -> None:
        """That many rounds, or what else the unit says, are to be run in all, of which some are `done`; the bar appears."""
        if self._wanted and rounds:
            self.bar = _bar(rounds, unit)
        if self.bar is not None and done:
            self.bar.initial = done
            self.to(done)

    def label(self, text: str, at_once: bool = False) -> None:
        """What stands before the bar; shown with the next step, or `at_once`."""
        if self.bar is not None:
            self.bar.set_description_str(text, refresh=False)
            if at_once:
                self.bar.refresh()

    def start(self, jobs: Sequence[Job], round: int) -> None:
        """The next pack of runs; what is done of it already counts as done."""
        experiment, seeds = jobs[0].experiment, [job.experiment.seed for job in jobs]
        many = f"{len(seeds)} seeds" if len(seeds) > 1 else f"seed {seeds[0]}"
        self._place, self._length = 0, experiment.settings.rounds
        on = f", on from round {round}" if round else ""
        self.label(f"{experiment.algorithm} on {experiment.data.dataset}, {many}{on}")
        if self.bar is not None:
            self.bar.set_postfix_str("", refresh=False)
            self.bar.initial += round
            self.bar.total = max(self.bar.total, self.bar.n + self._length)  # seeds at other rounds go on apart
            self.to(round)

    def round(self, round: int, scores: Sequence[Mapping[str, float]]) -> None:
        """So many rounds of the pack are done; with its accuracy, the mean over its runs."""
        if self.bar is not None and scores:
            mean = sum(line["accuracy"] for line in scores) / len(scores)
            self.bar.set_postfix_str(f"accuracy {100 * mean:.1f} %", refresh=False)
        if round > self._place:
            self.to(round)

    def to(self, done: int) -> None:
        """So many are done."""
        step, self._place = done - self._place, done
        if self.bar is not None:
            self.bar.update(step)

    def end(self, runs: Sequence[Run]) -> None:
        """The pack is done, perhaps before its last round: the rest of its rounds is not to come."""
        if self.bar is not None:
            self.bar.total -= self._length - self._place
            self.bar.refresh()


def _bar(count: int, unit: str) -> Any:
    if attached():
        return ProgressLine(count, unit)
    if not sys.stderr.isatty():
        return None
    from tqdm import tqdm

    return tqdm(unit=unit, total=count, dynamic_ncols=True)
