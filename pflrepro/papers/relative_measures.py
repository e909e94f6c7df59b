"""Measures of a run beside the run of another row or column with the same seed: gains, ratios, means over columns."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from pflrepro.algorithms.registry import about
from pflrepro.metrics import accuracy
from pflrepro.papers.measures import ACCURACY, LOCAL_SECONDS, SECONDS, Evidence, Measure, Value


def gain_over(row: str = "", measure: Measure = ACCURACY, column: str = "") -> Measure:
    """The difference of a measure to that of another row, or of the same row in another column, seed by seed."""

    def of(evidence: Evidence) -> Value:
        mine, other = measure.of(evidence), _beside(evidence, row, measure, column)
        if other is None:
            return Value(float("nan"))
        alike = _in_pairs(mine, other)
        clients = mine.clients - other.clients if alike else None
        return Value(mine.number - other.number, clients, mine.weights if alike else None, mine.each)

    title = f"gain in {measure.title} over {row or column}"
    name = f"{measure.name}-over-{row or column}"
    facts = {"bounds": (-math.inf, math.inf), "beside": ((row, column),), "taken": None}
    return replace(measure, name=name, title=title, of=of, **facts)


def ratio_to(row: str, measure: Measure = SECONDS) -> Measure:
    """A measure divided by that of another row, seed by seed; what both have a round, in pairs, as it counts in that ratio."""

    def of(evidence: Evidence) -> Value:
        other, found = _beside(evidence, row, measure), measure.of(evidence)
        if other is None:
            return Value(float("nan"))
        number = found.number / other.number
        if not _in_pairs(found, other):
            return Value(number)
        # sum w x / sum w y is the mean of x / y with weights w y, also of rounds that are drawn again
        return replace(
            found, number=number, clients=found.clients / other.clients, weights=found.weights * other.clients
        )

    title = f"{measure.title}, relative to {about(row).title}"
    name = f"{measure.name}-to-{row}"
    facts = {"unit": "times", "bounds": (0.0, math.inf), "beside": ((row, ""),), "absolute_time": False, "taken": None}
    return replace(measure, name=name, title=title, of=of, **facts)


def overhead_over(row: str) -> Measure:
    """What the clients' seconds a round are more than those of another row, in percent of them."""
    ratio = ratio_to(row, LOCAL_SECONDS)

    def of(evidence: Evidence) -> Value:
        return Value(100.0 * (ratio.of(evidence).number - 1.0))

    title = f"{LOCAL_SECONDS.title}, more than {row}"
    bounds = (-100.0, math.inf)
    return replace(ratio, name=f"{LOCAL_SECONDS.name}-overhead-over-{row}", title=title, of=of, unit="%", bounds=bounds)


def mean_over(columns: tuple[str, ...], measure: Measure) -> Measure:
    """The mean of a measure over several columns of the row; NaN where one of them was not run."""

    def of(evidence: Evidence) -> Value:
        found = [evidence.beside(column=column) for column in columns]
        if any(each is None for each in found):
            return Value(float("nan"))
        return Value(float(np.mean([measure.of(each).number for each in found if each is not None])))

    beside = tuple((row, column) for column in columns for row in ("", *(row for row, _ in measure.beside)))
    title = f"mean {measure.title}"
    return replace(measure, name=f"mean-{measure.name}", title=title, of=of, beside=beside, taken=None)


def accuracy_in_time_of(row: str) -> Measure:
    """Mean of the five best tests, plain mean over clients, within the seconds of training that another row's whole run took."""

    def of(evidence: Evidence) -> Value:
        other = evidence.beside(row)
        if other is None:
            return Value(float("nan"))
        history = evidence.history
        # Summed alike: by `sum`, in another order, the other row's own last test would lie beyond its end.
        within = np.cumsum(history["seconds"]) <= np.cumsum(other.history["seconds"])[-1]
        best = np.sort(accuracy.mean_over_clients(history)[within])[-5:]
        return Value(100.0 * float(best.mean()))

    title = f"test accuracy in the time that {row} takes"
    return Measure(f"accuracy-in-time-of-{row}", title, of, metric="", rule="five best tests, plain mean over clients")


def _in_pairs(one: Value, other: Value) -> bool:
    """Whether both have values of the same clients, or rounds, by their weights."""
    return one.clients is not None and np.array_equal(one.weights, other.weights)


def _beside(evidence: Evidence, row: str, measure: Measure, column: str = "") -> Value | None:
    """Of the cell of another row or column; "": the evidence's own."""
    place = {name: key for name, key in (("row", row), ("column", column)) if key}
    other = evidence.beside(**place)
    return None if other is None else measure.of(other)
