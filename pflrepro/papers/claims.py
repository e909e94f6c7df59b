"""What a paper claims of its numbers, as data: a claim is one or more contrasts, weighted sums of cells that must be above zero.

Row a above row b, for example, is +1 and -1. `papers.judging` tests them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

Place = tuple[str, str]  # row key, column key


@dataclass(frozen=True)
class Sample:
    """The values of one cell: seed -> number; seed -> (a number a client, its weight) where there are such; whether it still rises.

    Attributes:
        each: what these are, where not clients.
        only_rises: whether more rounds can only raise the numbers, as those of the best round.
        diverged: whether training came apart in a run behind it, so that it says nothing of what more rounds would have come to.
    """

    numbers: Mapping[int, float]
    clients: Mapping[int, tuple[np.ndarray, np.ndarray]]
    rising: bool = False
    each: str = "clients"
    only_rises: bool = False
    diverged: bool = False


@dataclass(frozen=True)
class Contrast:
    """A weighted sum of cells that is claimed to be above zero.

    Attributes:
        said: the claim in words.
    """

    said: str
    weights: tuple[tuple[Place, float], ...]
    column: str

    @property
    def places(self) -> tuple[Place, ...]:
        return tuple(place for place, _ in self.weights)


@dataclass(frozen=True)
class Claim:
    """A claim: `form` says which contrasts it is made of.

    Attributes:
        rows: row keys.
        columns: keys (None: all of the artefact).
        source: the paper's section.
        more: what the form needs besides (`points`, `k`).
    """

    form: str
    rows: tuple[str, ...]
    columns: tuple[str, ...] | None = None
    source: str = ""
    more: tuple[tuple[str, float], ...] = ()

    @property
    def said(self) -> str:
        """The claim as a sentence over row and column keys."""
        form, rows, more = self.form, self.rows, {name: f"{value:g}" for name, value in self.more}
        along = "" if not self.columns else f" from {self.columns[0]} to {self.columns[-1]}"
        words = {
            "above": "{} is better than {}",
            "best": "{} is better than every other row",
            "top": "{} is among the best {k}",
            "gain_grows": "the lead of {} over {} grows" + along,
            "wider": "the lead of {} over {} is wider than that of {} over {}",
            "rises": f"it rises from {rows[0]} to {rows[-1]}",
            "falls": f"it falls from {rows[0]} to {rows[-1]}",
            "rises_across": "{} rises" + along,
            "falls_across": "{} falls" + along,
            "peaks": "it is larger at {1} than at {0} and {2}",
            "within": "{} and {} differ by less than {points}",
        }[form].format(*rows, **more)
        return (
            words
            if along and along in words
            else f"{words} in {', '.join(self.columns) if self.columns else 'every column'}"
        )

    def __repr__(self) -> str:
        return f"Claim({self.said}{f' [{self.source}]' if self.source else ''})"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.said)}{f' <i>{escape(self.source)}</i>' if self.source else ''}</p>"


def _claim(form: str, rows: Sequence[str], columns: Sequence[str] | None, source: str, **more: float) -> Claim:
    return Claim(form, tuple(rows), None if columns is None else tuple(columns), source, tuple(more.items()))


def above(better: str, worse: str, columns: Sequence[str] | None = None, source: str = "") -> Claim:
    """Row `better` is better than row `worse` (larger, or smaller where less is better), in each column."""
    return _claim("above", (better, worse), columns, source)


def best(row: str, columns: Sequence[str] | None = None, source: str = "") -> Claim:
    """The row is better than every other row of the artefact, in each column."""
    return _claim("best", (row,), columns, source)


def top(row: str, k: int, columns: Sequence[str] | None = None, source: str = "") -> Claim:
    """The row is among the `k` best, in each column: all others but at most `k` - 1 are worse."""
    return _claim("top", (row,), columns, source, k=k)


def gain_grows(better: str, worse: str, along: Sequence[str], source: str = "") -> Claim:
    """The lead of `better` over `worse` is larger in the last of the columns `along` than in the first."""
    return _claim("gain_grows", (better, worse), along, source)


def wider(lead: tuple[str, str], other: tuple[str, str], source: str = "") -> Claim:
    """The lead of the first row over the second is larger in `lead` than in `other`, in every column."""
    return _claim("wider", (*lead, *other), None, source)


def rises(rows: Sequence[str], columns: Sequence[str] | None = None, source: str = "") -> Claim:
    """The measure rises along the rows: the line fitted over their order is higher at its end than at its start, in each column."""
    return _claim("rises", rows, columns, source)


def falls(rows: Sequence[str], columns: Sequence[str] | None = None, source: str = "") -> Claim:
    """The measure falls along the rows."""
    return _claim("falls", rows, columns, source)


def rises_across(row: str, along: Sequence[str], source: str = "") -> Claim:
    """The row's measure is larger in the last of the columns `along` than in the first."""
    return _claim("rises_across", (row,), along, source)


def falls_across(row: str, along: Sequence[str], source: str = "") -> Claim:
    """The row's measure is smaller in the last of the columns `along` than in the first."""
    return _claim("falls_across", (row,), along, source)


def peaks(rows: Sequence[str], at: str, columns: Sequence[str] | None = None, source: str = "") -> Claim:
    """Along the rows the measure is larger at row `at`, which lies inside, than at either end."""
    return _claim("peaks", (rows[0], at, rows[-1]), columns, source)


def within(one: str, other: str, points: float, columns: Sequence[str] | None = None, source: str = "") -> Claim:
    """The two rows differ by less than `points` of the measure's unit: both bounds are tested, and the nearer one decides."""
    return _claim("within", (one, other), columns, source, points=points)


@dataclass(frozen=True)
class Grid:
    """What claims are judged by: the rows and columns of an artefact, what was measured, and the direction of each column.

    Attributes:
        lower: the cells where less is better.
        labels: row or column key -> as printed.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    samples: Mapping[Place, Sample]
    lower: frozenset[Place]
    labels: Mapping[str, str]


def contrasts(claim: Claim, grid: Grid) -> list[tuple[Contrast, float]]:
    """The contrasts of a claim whose cells were all measured, each with what it must exceed (0, or minus the points of `within`)."""
    columns = grid.columns if claim.columns is None else claim.columns
    name = grid.labels.__getitem__
    found: list[tuple[Contrast, float]] = []

    def add(said: str, column: str, weights: list[tuple[Place, float]], bound: float = 0.0) -> None:
        if all(place in grid.samples for place, _ in weights):
            found.append((Contrast(said, tuple(weights), column), bound))

    def pair(one: str, other: str, column: str) -> list[tuple[Place, float]]:
        sign = -1.0 if (one, column) in grid.lower else 1.0
        return [((one, column), sign), ((other, column), -sign)]

    def better(one: str, other: str, column: str) -> None:
        word = "<" if (one, column) in grid.lower else ">"
        add(f"{name(one)} {word} {name(other)}", column, pair(one, other, column))

    if claim.form in ("gain_grows", "rises_across", "falls_across"):
        first, last = columns[0], columns[-1]
        if claim.form == "gain_grows":
            one, other = claim.rows
            flipped = [(place, -weight) for place, weight in pair(one, other, first)]
            said = f"lead of {name(one)} over {name(other)} grows from {name(first)} to {name(last)}"
            add(said, last, pair(one, other, last) + flipped)
            return found
        sign = 1.0 if claim.form == "rises_across" else -1.0
        word = "rises" if sign > 0 else "falls"
        said = f"{name(claim.rows[0])} {word} from {name(first)} to {name(last)}"
        add(said, last, [((claim.rows[0], last), sign), ((claim.rows[0], first), -sign)])
        return found
    for column in columns:
        if claim.form == "above":
            better(*claim.rows, column)
        elif claim.form in ("best", "top"):
            for other in grid.rows:
                if other != claim.rows[0]:
                    better(claim.rows[0], other, column)
        elif claim.form == "wider":
            one, other, third, fourth = claim.rows
            said = f"lead of {name(one)} over {name(other)} is wider than of {name(third)} over {name(fourth)}"
            add(said, column, pair(one, other, column) + pair(fourth, third, column))
        elif claim.form in ("rises", "falls"):
            measured = [row for row in claim.rows if (row, column) in grid.samples]
            if len(measured) > 1:
                slope = np.arange(len(measured)) - (len(measured) - 1) / 2
                slope *= (len(slope) - 1) / (slope**2).sum() * (1 if claim.form == "rises" else -1)
                said = f"{claim.form} from {name(measured[0])} to {name(measured[-1])}"
                weights = [((row, column), float(w)) for row, w in zip(measured, slope, strict=True)]
                add(said, column, [pair for pair in weights if pair[1]])  # the middle one of an odd number says nothing
        elif claim.form == "peaks":
            low, peak, high = claim.rows
            for end in (low, high):
                add(f"{name(peak)} > {name(end)}", column, [((peak, column), 1.0), ((end, column), -1.0)])
        elif claim.form == "within":
            points = dict(claim.more)["points"]
            for one, other in (claim.rows, claim.rows[::-1]):
                said = f"{name(one)} > {name(other)}, less {points:g}"
                add(said, column, [((one, column), 1.0), ((other, column), -1.0)], -points)
    return found
