"""What is put into a notebook's cell besides the value of its last line, such as one line of progress that changes in place."""

from __future__ import annotations

import sys
import time
from html import escape
from typing import Any

QUIET = 0.25  # seconds between two updates of a line: a notebook keeps up with a few in a second
BAR = 24  # characters


def attached() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def display(parts: dict[str, str], **how: Any) -> Any:
    """Put one output with these media types into the cell."""
    from IPython.display import display as show

    return show(parts, raw=True, **how)


class ProgressLine:
    """A progress bar in a cell, called like tqdm's: one line of HTML that is updated in place and stays as a summary.

    It needs no widgets, so that it is there in every front end, and in the file that is saved.
    """

    def __init__(self, total: int, unit: str = "round") -> None:
        self.total, self.n, self.initial, self.unit = total, 0, 0, unit
        self._label = self._more = ""
        self._started = self._shown = time.monotonic()
        self._handle = display(self._parts(), display_id=True)

    def set_description_str(self, text: str, refresh: bool = True) -> None:
        self._label = text

    def set_postfix_str(self, text: str, refresh: bool = True) -> None:
        self._more = text

    def update(self, steps: int = 1) -> None:
        """So many more are done; shown if the last update was a while ago."""
        self.n += steps
        if time.monotonic() - self._shown >= QUIET:
            self.refresh()

    def refresh(self) -> None:
        """Show how far it is."""
        self._shown = time.monotonic()
        self._handle.update(self._parts(), raw=True)

    def close(self) -> None:
        """The line as it stays."""
        self.refresh()

    def _parts(self) -> dict[str, str]:
        share = self.n / self.total if self.total else 1.0
        full = min(round(share * BAR), BAR)
        bar = "█" * full + "░" * (BAR - full)
        said = f"{self.n:,} of {self.total:,} {self.unit}s"
        text = ", ".join(filter(None, (said, self._label, self._more, self._pace())))
        html = f'<div style="white-space:nowrap"><code>{bar}</code> {escape(text)}</div>'
        return {"text/html": html, "text/plain": f"{bar} {text}"}

    def _pace(self) -> str:
        """How long it took, or how much longer at the pace of this call's own rounds it takes."""
        seconds, own = time.monotonic() - self._started, self.n - self.initial
        if not own:
            return ""
        if self.n >= self.total:
            return f"{duration(seconds)}"
        return f"{duration(seconds)}, about {duration(seconds / own * (self.total - self.n))} to go"


def duration(seconds: float) -> str:
    """Seconds as people read them.

    Example:
        >>> duration(0.42), duration(59.6), duration(75), duration(7300)
        ('0.4 s', '1 min 0 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
