"""Numbers that are exact because nothing is trained for them: equal to what is printed, or not; true, or not."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pflrepro.papers.counted import counted
from pflrepro.papers.judging import BROKEN, KEPT
from pflrepro.papers.result import FRAME_COLUMNS, marked
from pflrepro.papers.views.view import Shown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_NONE: dict[str, Any] = dict.fromkeys(
    ("published", "published_std", "ours", "spread", "low", "high", "difference", "tolerance"), math.nan
)


def line(study: Any, **known: Any) -> dict[str, Any]:
    """A line of `papers.result.FRAME_COLUMNS` of a number without a run; `known`: what is not empty."""
    fixed = {"artefact": study.artefact.id, "scale": study.scale.name, "n": 0, "rounds": 0}
    return dict.fromkeys(FRAME_COLUMNS, "") | _NONE | fixed | known


@dataclass(frozen=True)
class Check:
    """A statement that is true or not.

    Attributes:
        detail: the numbers behind it.
    """

    said: str
    holds: bool
    detail: str


@dataclass(frozen=True, eq=False)
class Found:
    """What was computed: numbers by name, one column each, and the statements about them."""

    frame: pd.DataFrame
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class Exact(Shown):
    """What a function computes without training.

    Attributes:
        compute: gives it; it is asked several times and should remember.
        draw: its pictures by name, the main one under "".
    """

    compute: Callable[[], Found]
    draw: Callable[[], Mapping[str, Figure]]

    def table(self, study: Any) -> pd.DataFrame:
        """One line a statement."""
        import pandas as pd

        lines = [(check.said, check.detail, marked(_word(check))) for check in self.compute().checks]
        return pd.DataFrame(lines, columns=["statement", "numbers", "outcome"])

    def figures(self, study: Any) -> dict[str, Figure]:
        return dict(self.draw())

    def frame(self, study: Any) -> pd.DataFrame:
        """The numbers."""
        return self.compute().frame

    def judged(self, study: Any) -> list[dict[str, Any]]:
        """One line of the frame of cells a statement."""
        key = f"{study.artefact.id} {self.compute.__qualname__}"
        told = counted(key, lambda: [(check.said, check.holds, check.detail) for check in self.compute().checks])
        return [
            line(study, row=check.said, measure="statement", n=1, verdict=_word(check), reason=check.detail)
            for check in (Check(*each) for each in told)
        ]


def _word(check: Check) -> str:
    return KEPT if check.holds else BROKEN
