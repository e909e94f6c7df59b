"""Numbers and claims of an artefact as the papers print them, and what a cell of it trains."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from pflrepro.experiments.config import Experiment
from pflrepro.papers.claims import Contrast, Grid, Sample, contrasts


def claimed(study: Any) -> list[tuple[Contrast, float]]:
    """Every contrast of an artefact's claims whose cells are all printed, with its size in print above what it must exceed."""
    values = {place: cell.published for place, cell in study.cells.items() if not math.isnan(cell.published)}
    samples = {place: Sample({0: value}, {}) for place, value in values.items()}
    lower = frozenset(place for place, cell in study.cells.items() if cell.measure.better == "lower")
    artefact = study.artefact
    labels = {each.key: each.label for each in (*artefact.rows, *artefact.columns)}
    grid = Grid(artefact.row_keys, artefact.column_keys, samples, lower, labels)
    found = [pair for claim in artefact.claims for pair in contrasts(claim, grid)]
    return [(each, sum(weight * values[place] for place, weight in each.weights) - bound) for each, bound in found]


def number(at: Callable[[str], Any], id: str, row: str, column: str) -> tuple[Any, Any]:
    """What the paper prints in a cell, and its spread, nearly; `at`: from an id to its study."""
    found = at(id).cells[row, column]
    return pytest.approx(found.published), pytest.approx(found.published_std, nan_ok=True)


def experiment(study: Any, row: str, column: str) -> Experiment:
    """The first seed's experiment of a cell."""
    return study.experiments(study.artefact.row(row), study.artefact.column(column))[0]
