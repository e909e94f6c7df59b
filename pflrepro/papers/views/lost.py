"""Tables whose numbers no source has: their lines, as far as they are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pflrepro.papers.numbers import published
from pflrepro.papers.result import UNPUBLISHED
from pflrepro.papers.views.exact import line
from pflrepro.papers.views.view import Shown

if TYPE_CHECKING:
    import pandas as pd

LOST = "numbers not at hand"


@dataclass(frozen=True)
class Lost(Shown):
    """The lines of the artefact's sources, each without a number."""

    def _printed(self, study: Any) -> pd.DataFrame:
        import pandas as pd

        return pd.concat([published(source) for source in study.artefact.sources], ignore_index=True)

    def table(self, study: Any) -> pd.DataFrame:
        """One line a cell that is known to have been printed."""
        lines = self._printed(study)[["method", "setting", "dataset", "model"]]
        return lines.assign(published=LOST)

    def frame(self, study: Any) -> pd.DataFrame:
        """The published lines themselves."""
        return self._printed(study)

    def judged(self, study: Any) -> list[dict[str, Any]]:
        """One line of the frame of cells each."""
        return [
            line(
                study,
                row=found.method,
                method=found.method,
                column=found.setting,
                measure=found.metric,
                dataset=found.dataset,
                model=found.model,
                published=found.value,
                source=", ".join(study.artefact.sources),
                verdict=UNPUBLISHED,
                reason=LOST,
            )
            for found in self._printed(study).itertuples(index=False)
        ]

    def notes(self, study: Any) -> list[str]:
        return [f"{LOST}: {note}." for note in dict.fromkeys(self._printed(study)["note"])]
