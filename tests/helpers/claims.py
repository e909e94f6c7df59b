"""Hand-made samples and grids for the tests of claims."""

from __future__ import annotations

import numpy as np

from pflrepro.papers.claims import Claim, Grid, Sample
from pflrepro.papers.judging import Outcome, judge

SAMPLES = np.array([10.0, 30.0, 60.0])
GOOD, MIDDLE, POOR = (72.0, 82.3, 61.9, 92.1), (71.0, 81.1, 61.2, 90.8), (70.0, 80.0, 60.0, 90.0)


def cell(*values: float, seeds: tuple[int, ...] = (), weights: np.ndarray | None = None, **curve: bool):
    """A cell with these values; each client has the cell's own, if weights are given."""
    numbers = dict(zip(seeds or range(len(values)), values, strict=True))
    each = {} if weights is None else {s: (np.full(len(weights), v), weights) for s, v in numbers.items()}
    return Sample(numbers, each, **curve)


def of_clients(*values: float, weights: np.ndarray, seed: int = 0) -> Sample:
    """A cell of one seed, whose clients have these values."""
    each = np.array(values)
    return Sample({seed: float(np.average(each, weights=weights))}, {seed: (each, weights)})


def grid(lower: tuple[str, ...] = (), **cells: Sample) -> Grid:
    """A cell is named `a_x`: row and column; `lower`: columns where less is better."""
    places = {tuple(name.split("_")): sample for name, sample in cells.items()}
    rows, columns = (tuple(dict.fromkeys(place[axis] for place in places)) for axis in (0, 1))
    labels = {name: name.upper() for name in (*rows, *columns)}
    return Grid(rows, columns, places, frozenset(place for place in places if place[1] in lower), labels)


def one(claim: Claim, board: Grid) -> Outcome:
    (found,) = judge([claim], board)
    return found
