"""How far the cells of a study are measured, where that takes long: a bar from the first one on whose models must be looked at."""

from __future__ import annotations

from pflrepro.experiments.progress import Progress


class Measuring:
    """A bar over cells. What was measured before is read in no time, and shows none; a context manager.

    Args:
        cells: so many in all.
        shown: False: silent.
    """

    def __init__(self, cells: int, shown: bool = True) -> None:
        self._progress, self._cells, self._done = Progress(shown), cells, 0

    def __enter__(self) -> Measuring:
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.__exit__()

    def begin(self, what: str) -> None:
        """Models are about to be looked at, for this."""
        if not self._progress.shown:
            self._progress.expect(self._cells, "cell", self._done)
        self._progress.label(f"measuring {what}", at_once=True)

    def next(self) -> None:
        """A cell is done."""
        self._done += 1
        if self._progress.shown:
            self._progress.to(self._done)
