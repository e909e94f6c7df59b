"""One progress bar over all rounds of a call; silent where nobody watches."""

from __future__ import annotations

import sys
from typing import Any

from pflrepro.notebook import ProgressLine, attached


class Progress:
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

    def expect(self, rounds: int, unit: str = "round") -> None:
        """That many rounds, or what else the unit says, are to be run in all; the bar appears."""
        if self._wanted and rounds:
            self.bar = _bar(rounds, unit)

    def label(self, text: str) -> None:
        """What stands before the bar."""
        if self.bar is not None:
            self.bar.set_description_str(text, refresh=False)

    def start(self, label: str, rounds: int, done: int) -> None:
        """The next pack of runs: its name, its rounds, how many of these are done already."""
        self._place, self._length = 0, rounds
        self.label(label)
        if self.bar is not None:
            self.bar.set_postfix_str("", refresh=False)
            self.bar.initial += done
            self.to(done)

    def to(self, done: int, accuracy: float | None = None) -> None:
        """The pack has done that many rounds; `accuracy` as a fraction."""
        step, self._place = done - self._place, done
        if self.bar is not None:
            if accuracy is not None:
                self.bar.set_postfix_str(f"accuracy {100 * accuracy:.1f} %", refresh=False)
            self.bar.update(step)

    def end(self) -> None:
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
