"""What a view is: a way to show the cells of a study, or what else an artefact is made of.

A view answers five questions, each of which may have no answer: its table (a data frame of texts, ready to read; its header may have
levels), its figures by name, what is written to its csv, what is judged of it besides the cells, and what a reader must know. It is
asked with the study; it trains nothing. In a text `**x**` is bold and `<u>x</u>` underlined, see `pflrepro.papers.texts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


class View(Protocol):
    """A way to show a study. `study` is a `pflrepro.papers.studies.Study`, which knows views by this protocol alone.

    Attributes:
        name: of its csv and, where it has a single picture, of that; "": the main one.
        of_cells: whether it shows cells' numbers, so that a reader must know by what rule they are taken from a run's curve.
    """

    name: str
    of_cells: bool

    def table(self, study: Any) -> pd.DataFrame | None:
        """The table, as texts."""
        ...

    def figures(self, study: Any) -> dict[str, Figure]:
        """The pictures by name, the main one under ""."""
        ...

    def frame(self, study: Any) -> pd.DataFrame | None:
        """What goes into the csv, as numbers; None: the cells."""
        ...

    def judged(self, study: Any) -> list[dict[str, Any]]:
        """What it shows besides the cells, as lines of their frame (`pflrepro.papers.result.FRAME_COLUMNS`)."""
        ...

    def notes(self, study: Any) -> list[str]:
        """Sentences for the page beside it."""
        ...


class Shown:
    """A view that shows nothing; others override what they have."""

    name = ""
    of_cells = True

    def table(self, study: Any) -> pd.DataFrame | None:
        return None

    def figures(self, study: Any) -> dict[str, Figure]:
        return {}

    def frame(self, study: Any) -> pd.DataFrame | None:
        return None

    def judged(self, study: Any) -> list[dict[str, Any]]:
        return []

    def notes(self, study: Any) -> list[str]:
        return []
