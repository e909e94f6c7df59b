"""A measure at every layer of a row's models, one line a group of columns, such as before and after local training."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pflrepro.papers.views.rows import cell, chosen, whose
from pflrepro.papers.views.view import Shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Layers(Shown):
    """Description lengths over layers.

    Attributes:
        row: key.
        columns: keys; the groups of these columns are the lines, their labels the layers.
    """

    row: str
    columns: tuple[str, ...]
    name: str = "layers"

    def figures(self, study: Any) -> dict[str, Figure]:
        """Nothing where nothing was run."""
        from pflrepro.viz.mdl import by_layer

        row, lengths, named = study.artefact.row(self.row), {}, {}
        for column in chosen(study, "column", self.columns):
            found = cell(study, row, column)
            if found is not None and not math.isnan(found.ours):
                lengths.setdefault(column.group, {})[study.artefact.column(column.key).label] = found.ours
                named[whose(study, column)] = None
        title = "; ".join(each for each in named if each != "ours")  # the lines are groups, the layers labels
        return {self.name: by_layer(lengths, title)} if lengths else {}
