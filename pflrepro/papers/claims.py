"""What a paper claims of its numbers, as data, and the test that each claim comes down to.

A claim is one or more contrasts: weighted sums of cells that must be above zero (row a above row b: +1 and -1). Each is tested on
what was run, two-sided, by one paired test: with two seeds or more Student's t over the seeds that all cells have (the same seed means
the same start and batch orders, so what they have in common cancels; where the differences are equal in all seeds, sign flips over
seeds); with one seed, sign flips over clients, where the measure has a value a client (of two rows that look at other clients of one
run, clients dealt anew to the two groups). A contrast is kept or broken by its own p < 0.05, else undecided, which does not mean
equal: three seeds have little power. Holm's p over all claims of the artefact stands beside it.

*Still rising*: at fewer rounds than the paper's, a run whose best round lies in its last tenth, the last fifth of the rounds being
better on average than the fifth before, is an unfinished curve; an ordering that involves one is neither kept nor broken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape

import numpy as np

from pflrepro.metrics.comparison import holm, of_two_groups, paired

ALPHA = 0.05
EQUAL = 1e-9
KEPT, BROKEN, UNDECIDED, RISING = "kept", "broken", "undecided", "still rising"
Place = tuple[str, str]  # row key, column key


@dataclass(frozen=True)
class Sample:
    """The values of one cell: seed -> number; seed -> (a number a client, its weight) where there are such; whether it still rises.

    Attributes:
        each: what these are, where not clients.
    """

    numbers: Mapping[int, float]
    clients: Mapping[int, tuple[np.ndarray, np.ndarray]]
    rising: bool = False
    each: str = "clients"


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
class Outcome:
    """How one contrast came out: its size in the measure's unit and standard error over seeds, the test, p, and what follows.

    Attributes:
        difference: positive as claimed.
        adjusted: p after Holm's correction over the claims of the artefact.
        places: the cells.
    """

    said: str
    column: str
    places: tuple[Place, ...]
    difference: float
    error: float
    test: str
    p: float
    outcome: str
    source: str
    adjusted: float = math.nan

    def __repr__(self) -> str:
        test = f"{self.test}, p = {self.p:.2g}" if not math.isnan(self.p) else self.test
        return f"Outcome({self.outcome}: {self.said} in {self.column} by {self.difference:+.2f}; {test})"

    @property
    def firm(self) -> bool:
        """Whether the decision also stands after Holm's correction."""
        return self.adjusted < ALPHA


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
    """The two rows differ by less than `points` of the measure's unit: both bounds are tested."""
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
                add(said, column, [((row, column), float(w)) for row, w in zip(measured, slope, strict=True)])
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


def judge(claims: Sequence[Claim], grid: Grid) -> list[Outcome]:
    """Every claim whose cells were measured, tested and decided, with Holm's p over all of them."""
    found: list[Outcome] = []
    for claim in claims:
        tested = [_test(contrast, bound, grid, claim.source) for contrast, bound in contrasts(claim, grid)]
        found += _merged(claim, tested, grid) if claim.form == "top" else tested
    adjusted = holm([each.p for each in found]).tolist() if found else []
    return [replace(each, adjusted=p) for each, p in zip(found, adjusted, strict=True)]


def _merged(claim: Claim, tested: list[Outcome], grid: Grid) -> list[Outcome]:
    """One outcome a column for `top`: that of the `k`-th strongest rival, so kept where all but `k` - 1 are shown to be worse.

    Broken where `k` rivals are shown to be better. With fewer than `k` rivals there is nothing to test; one that was not run may be
    the strongest, so that it is not shown to be worse.
    """
    k, merged = int(dict(claim.more)["k"]), []
    rivals = len(grid.rows) - 1
    for column in dict.fromkeys(each.column for each in tested):
        mine = sorted((each for each in tested if each.column == column), key=_strength)
        if len(mine) < k:
            continue
        outcome = RISING if any(each.outcome == RISING for each in mine) else mine[k - 1].outcome
        places = tuple(place for place in mine[0].places if place[0] == claim.rows[0])  # of rivals it says nothing
        rival = next(row for row, _ in mine[k - 1].places if row != claim.rows[0])
        said = f"{grid.labels[claim.rows[0]]} among the best {k} (rival: {grid.labels[rival]})"
        made = replace(mine[k - 1], said=said, outcome=outcome, places=places)
        better = sum(each.outcome == KEPT for each in mine)
        if outcome == KEPT and better <= rivals - k:
            test = f"none: {rivals - len(mine)} of {rivals} rivals not run"
            made = replace(made, outcome=UNDECIDED, test=test, p=math.nan)
        merged.append(made)
    return merged


def _strength(outcome: Outcome) -> tuple[float, float]:
    """Orders rivals, the strongest first: by the test, from -1, shown to be better, to 1, shown to be worse; then by the difference."""
    shown = 0.0 if math.isnan(outcome.p) else math.copysign(1.0 - outcome.p, outcome.difference)
    return shown, outcome.difference


def _test(contrast: Contrast, bound: float, grid: Grid, source: str) -> Outcome:
    samples = [(grid.samples[place], weight) for place, weight in contrast.weights]
    seeds = sorted(set.intersection(*(set(sample.numbers) for sample, _ in samples)))
    values = np.array([sum(w * sample.numbers[seed] for sample, w in samples) for seed in seeds]) - bound
    error = float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan
    if len(values) > 1:
        p, test = _over_seeds(values)
    elif len(values) == 1:
        p, test = _over_clients(samples, seeds[0], bound)
    else:
        values = np.array([sum(w * np.mean(list(sample.numbers.values())) for sample, w in samples)]) - bound
        p, test = math.nan, "none: no common seed"
    difference = float(values.mean())
    outcome = UNDECIDED if not p < ALPHA else KEPT if difference > 0 else BROKEN
    if any(sample.rising for sample, _ in samples):
        outcome = RISING
    return Outcome(contrast.said, contrast.column, contrast.places, difference + bound, error, test, p, outcome, source)


def _over_seeds(values: np.ndarray) -> tuple[float, str]:
    count = len(values)
    if np.ptp(values) < EQUAL:
        p = paired(values, np.zeros(count), "permutation").p if abs(values).max() > EQUAL else 1.0
        return p, _flips(count, "seeds")
    return paired(values, np.zeros(count), "t").p, f"paired t over {count} seeds"


def _over_clients(samples: Sequence[tuple[Sample, float]], seed: int, bound: float) -> tuple[float, str]:
    """Sign flips of the clients' contrasts, each weighted as it counts in the number."""
    found = [sample.clients.get(seed) for sample, _ in samples]
    if any(each is None for each in found):
        return math.nan, "none: one seed, and not a mean over clients"
    weights, each = found[0][1], samples[0][0].each
    kinds = [sample.each for sample, _ in samples]
    if len(kinds) == 2 == len(set(kinds)):
        one, other = (w * values for (values, _), (_, w) in zip(found, samples, strict=True))
        return of_two_groups(one, bound - other), f"{len(one)} {kinds[0]} and {len(other)} {kinds[1]}, dealt anew"
    if not all(np.array_equal(weights, other[1]) for other in found):
        return math.nan, "none: one seed, and other clients"
    contrast = sum(w * each[0] for each, (_, w) in zip(found, samples, strict=True)) - bound
    p = paired(weights * contrast, np.zeros(len(weights)), "permutation").p
    return p, _flips(len(weights), each)


def _flips(count: int, each: str) -> str:
    """The test in words; where too few are flipped for any p to decide, the least that there can be."""
    least = 2.0 ** (1 - count)
    return f"sign flips over {count} {each}{'' if least < ALPHA else f', which cannot give a p below {least:.2g}'}"


@dataclass(frozen=True)
class Counts:
    """How some claims came out; `firm`: of those kept or broken, the ones that also stand after Holm's correction.

    Example:
        >>> str(Counts({KEPT: 3, UNDECIDED: 1}, 1, 4))
        "3 kept, 1 undecided; 1 also after Holm's correction; with 4 tests about 0.2 would be decided by chance if nothing differed"
    """

    outcomes: Mapping[str, int]
    firm: int = 0
    tests: int = 0

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> Counts:
        words = [each.outcome for each in outcomes]
        decided = [each for each in outcomes if each.outcome in (KEPT, BROKEN)]
        counts = {word: words.count(word) for word in (KEPT, BROKEN, UNDECIDED, RISING) if word in words}
        return cls(counts, sum(each.firm for each in decided), sum(not math.isnan(each.p) for each in outcomes))

    @property
    def by_chance(self) -> float:
        """How many of the tests would be decided if nothing differed."""
        return round(ALPHA * self.tests, 4)

    def __str__(self) -> str:
        counted = ", ".join(f"{count} {word}" for word, count in self.outcomes.items())
        if not self.tests:
            return counted or "none checked"
        tests = f"{self.tests} test{'' if self.tests == 1 else 's'}"
        chance = f"with {tests} about {self.by_chance:.2g} would be decided by chance if nothing differed"
        return f"{counted}; {self.firm} also after Holm's correction; {chance}"
