"""Claims compared with what the papers print."""

from __future__ import annotations

import math
from typing import Any

from pflrepro.papers.claims import Contrast, Grid, Sample, contrasts


def claimed(study: Any) -> list[tuple[Contrast, float]]:
    """Every contrast of an artefact's claims whose cells are all printed, with its size in print above what it must exceed."""
    values = {place: cell.published for place, cell in study.cells.items() if not math.isnan(cell.published)}
    samples = {place: Sample("", {0: value}, {}) for place, value in values.items()}
    lower = frozenset(place for place, cell in study.cells.items() if cell.measure.better == "lower")
    artefact = study.artefact
    labels = {each.key: each.label for each in (*artefact.rows, *artefact.columns)}
    grid = Grid(artefact.row_keys, artefact.column_keys, samples, lower, labels)
    found = [pair for claim in artefact.claims for pair in contrasts(claim, grid)]
    return [(each, sum(weight * values[place] for place, weight in each.weights) - bound) for each, bound in found]
