"""The spread of a measure over clients, by the corruption of their images: box plots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pflrepro.data.datasets import DATASETS
from pflrepro.errors import UserError
from pflrepro.experiments.config import DataConfig
from pflrepro.papers.views.rows import axis
from pflrepro.papers.views.view import Shown

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Groups = dict[str, np.ndarray]


def by_corruption(data: DataConfig) -> list[str]:
    """The corruption of each client's images, `clean` for those without [FDA Figure 2]."""
    from pflrepro.data.shifts import corruptions

    pairs = corruptions(DATASETS[data.dataset].shift, data.clients)
    return [kind.replace("-", " ") if kind else "clean" for kind, _ in pairs]


@dataclass(frozen=True)
class Spread(Shown):
    """The values a client of cells, one panel a cell, one box the clients with a corruption, all seeds together.

    Attributes:
        places: (row key, column key) of each panel; their measures have one value for every client.
    """

    places: tuple[tuple[str, str], ...]

    def panels(self, study: Any) -> dict[tuple[str, str], Groups]:
        """Place -> label -> values, in the order in which the labels first come; a place without a run is left out."""
        found: dict[tuple[str, str], Groups] = {}
        for place in self.places:
            groups: dict[str, list[np.ndarray]] = {}
            for seed, value in study.cells[place].values.items():
                labels = np.asarray(by_corruption(study.cells[place].runs[seed].experiment.data))
                if value.clients is None or len(value.clients) != len(labels):
                    given = "none" if value.clients is None else len(value.clients)
                    measure = study.cells[place].measure.name
                    raise UserError(f"{measure} has no value for each of {len(labels)} clients, but {given}")
                for label in dict.fromkeys(labels.tolist()):
                    there = (labels == label) & ~np.isnan(value.clients)
                    groups.setdefault(label, []).append(value.clients[there])
            if groups:
                found[place] = {label: np.concatenate(parts) for label, parts in groups.items()}
        return found

    def title(self, study: Any, place: tuple[str, str]) -> str:
        """What a panel is called: row and column, as far as several are shown."""
        row, column = study.artefact.row(place[0]).label, study.artefact.column(place[1]).label
        several = [len(set(names)) > 1 for names in zip(*self.places, strict=True)]
        return (
            ": ".join(name for name, differs in zip((row, column), several, strict=True) if differs)
            or f"{row}: {column}"
        )

    def frame(self, study: Any) -> pd.DataFrame:
        """One line a client and seed."""
        import pandas as pd

        lines = [
            {"row": place[0], "column": place[1], "group": label, "value": float(value)}
            for place, groups in self.panels(study).items()
            for label, values in groups.items()
            for value in values
        ]
        return pd.DataFrame(lines)

    def table(self, study: Any) -> pd.DataFrame | None:
        """Median and quartiles of each group, the lowest median first."""
        import pandas as pd

        lines = [
            {"panel": self.title(study, place), "group": label, "clients": str(len(values))}
            | dict(zip(("lower quartile", "median", "upper quartile"), map("{:.3f}".format, quartiles), strict=True))
            for place, groups in self.panels(study).items()
            for label, values in sorted(groups.items(), key=lambda item: float(np.median(item[1])))
            for quartiles in [np.quantile(values, [0.25, 0.5, 0.75])]
        ]
        return pd.DataFrame(lines) if lines else None

    def figures(self, study: Any) -> dict[str, Figure]:
        from pflrepro.viz.spread import boxes

        panels = self.panels(study)
        if not panels:
            return {}
        measure = study.cells[next(iter(panels))].measure
        named = {self.title(study, place): groups for place, groups in panels.items()}
        return {"": boxes(named, axis(measure.title, measure.unit))}

    def notes(self, study: Any) -> list[str]:
        missing = [self.title(study, place) for place in self.places if not study.cells[place].values]
        said = (
            "boxes: median and quartiles over clients, whiskers to the farthest client within 1.5 times their distance"
        )
        return [said, *([f"not run: {'; '.join(missing)}"] if missing else [])]
