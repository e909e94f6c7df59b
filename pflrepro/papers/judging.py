"""How claims come out: the test that each comes down to, and what follows from it.

Each contrast is tested on what was run, two-sided, by one paired test: with two seeds or more Student's t over the seeds that all cells
have (the same seed means the same start and batch orders, so what they have in common cancels; where the differences are equal in all
seeds, sign flips over seeds); with one seed, sign flips over clients, where the measure has a value a client (of two rows that look at
other clients of one run, clients dealt anew to the two groups). It is kept or broken by its own p < 0.05, else undecided, which does
not mean equal: three seeds have little power. A claim of several contrasts (`top`, `within`) has one p. Holm's p over all claims of the
artefact stands beside it.

*Still rising*: at fewer rounds than the paper's, a run whose best round lies in the last fifth of its rounds, which is better on
average than the fifth before, is an unfinished curve; an ordering that it may turn is neither kept nor broken. It may not
where the number is a best round's, which more rounds can only raise, and raising it widens the difference: who is behind when its own
curve is at its end stays behind one that still rises. A training that came apart counts with what it reached; the test names it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pflrepro.metrics.comparison import TURNS, holm, of_two_groups, one_number, paired
from pflrepro.papers.claims import Claim, Contrast, Grid, Place, Sample, contrasts

ALPHA = 0.05
KEPT, BROKEN, UNDECIDED, RISING = "kept", "broken", "undecided", "still rising"
# Of some 600 pairs of committed runs of one method with two seeds, tested so over their clients after the last round, one of six has
# p < 0.05 (CIFAR-100 a quarter, digits one of seven): clients share the luck of their run.
ONE_SEED = "a test over clients knows nothing of another seed: two seeds of one method give p < 0.05 in one of six committed pairs"


@dataclass(frozen=True)
class Outcome:
    """How a claim came out in a column: its size in the measure's unit and standard error over seeds, the test, p, and what follows.

    Attributes:
        difference: positive as claimed; of `within` the distance of the two rows.
        adjusted: p after Holm's correction over the claims of the artefact.
        least: the smallest p that the test can give; 1 for a claim that holds where nothing differs.
        over: what the test is over, such as `seeds` or, with one of them, `clients`; "" without a test.
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
    least: float = 0.0
    over: str = ""

    def __repr__(self) -> str:
        test = f"{self.test}, p = {self.p:.2g}" if not math.isnan(self.p) else self.test
        return f"Outcome({self.outcome}: {self.said} in {self.column} by {self.difference:+.2f}; {test})"

    @property
    def firm(self) -> bool:
        """Whether the decision also stands after Holm's correction."""
        return self.adjusted < ALPHA

    @property
    def chance(self) -> float:
        """The probability that it is decided where nothing differs: the largest p below 0.05 that the test can give; 0 without one.

        Known of tests over seeds alone (`ONE_SEED`): 0 of others.
        """
        if math.isnan(self.p) or self.outcome == RISING or self.over != "seeds":
            return 0.0
        return (math.ceil(ALPHA / self.least) - 1) * self.least if self.least else ALPHA


def judge(claims: Sequence[Claim], grid: Grid) -> list[Outcome]:
    """Every claim whose cells were measured, tested and decided, with Holm's p over all of them."""
    found: list[Outcome] = []
    for claim in claims:
        tested = [_test(contrast, bound, grid, claim.source) for contrast, bound in contrasts(claim, grid)]
        merge = _MERGED.get(claim.form)
        for column in dict.fromkeys(each.column for each in tested):
            mine = [each for each in tested if each.column == column]
            found += merge(claim, mine, grid) if merge else mine
    adjusted = holm([each.p for each in found]).tolist() if found else []
    return [replace(each, adjusted=p) for each, p in zip(found, adjusted, strict=True)]


def _top(claim: Claim, tested: list[Outcome], grid: Grid) -> list[Outcome]:
    """One outcome for `top`: of the `k`-th strongest of m rivals, so kept where all but `k` - 1 are shown to be worse.

    Broken where `k` rivals are shown to be better. The rival is picked after a look at the tests, so p is multiplied with how many
    may be picked wrongly: `k` that are not worse, or m - `k` + 1 that are not better (partial conjunction: Benjamini and Heller
    2008). With fewer than `k` rivals there is nothing to test; one that was not run may be the strongest, so that it is not shown
    to be worse.
    """
    k, mine, rivals = int(dict(claim.more)["k"]), sorted(tested, key=_strength), len(grid.rows) - 1
    if len(mine) < k:
        return []
    found = mine[k - 1]
    picked = k if found.difference > 0 else len(mine) - k + 1
    p = found.p if math.isnan(found.p) else min(1.0, found.p * picked)
    least = min(1.0, found.least * picked)
    outcome = _decided(p, found.difference)
    shown = {KEPT: mine[k - 1 :], BROKEN: mine[:k]}.get(outcome, mine)  # by these; the others may come out as they will
    outcome = RISING if any(each.outcome == RISING for each in shown) else outcome
    own = tuple(place for place in found.places if place[0] == claim.rows[0])  # of rivals it says nothing
    rival = next(row for row, _ in found.places if row != claim.rows[0])
    said = f"{grid.labels[claim.rows[0]]} among the best {k} (rival: {grid.labels[rival]})"
    test = found.test if picked == 1 or math.isnan(p) else f"{found.test}, times {picked} for the choice"
    made = replace(found, said=said, outcome=outcome, places=own, p=p, least=least, test=test)
    if outcome == KEPT and len(mine) < rivals:
        test = f"none: {rivals - len(mine)} of {rivals} rivals not run"
        made = replace(made, outcome=UNDECIDED, test=test, p=math.nan)
    return [made]


def _within(claim: Claim, tested: list[Outcome], grid: Grid) -> list[Outcome]:
    """One outcome for `within`: of the nearer bound, so kept where both are; its difference is that of the two rows, without a sign."""
    if len(tested) < 2:
        return []
    nearer = min(tested, key=_strength)
    one, other = (grid.labels[row] for row in claim.rows)
    bound = dict(claim.more)["points"]
    said = f"{one} and {other} differ by less than {bound:g}"
    outcome = RISING if nearer.outcome == KEPT and any(each.outcome == RISING for each in tested) else nearer.outcome
    return [replace(nearer, said=said, difference=abs(bound - nearer.difference), outcome=outcome, least=1.0)]


_MERGED: Mapping[str, Callable[[Claim, list[Outcome], Grid], list[Outcome]]] = {"top": _top, "within": _within}


def _strength(outcome: Outcome) -> tuple[float, float]:
    """Orders by the test, from -1, shown to be against the claim, to 1, shown to be for it; then by the difference."""
    shown = 0.0 if math.isnan(outcome.p) else math.copysign(1.0 - outcome.p, outcome.difference)
    return shown, outcome.difference


def _decided(p: float, difference: float) -> str:
    return UNDECIDED if not p < ALPHA else KEPT if difference > 0 else BROKEN


def _widens(sample: Sample, weight: float, difference: float) -> bool:
    """Whether more rounds of what still rises can only widen the difference."""
    return sample.only_rises and weight * difference > 0


@dataclass(frozen=True)
class _Tested:
    """A test in words, its p, the least p that it can give, and what it is over."""

    said: str
    p: float = math.nan
    least: float = 0.0
    over: str = ""


def _test(contrast: Contrast, bound: float, grid: Grid, source: str) -> Outcome:
    samples = [(grid.samples[place], weight) for place, weight in contrast.weights]
    seeds = sorted(set.intersection(*(set(sample.numbers) for sample, _ in samples)))
    chosen = seeds or [None]
    numbers = [(np.array([_number(sample, seed) for seed in chosen]), weight) for sample, weight in samples]
    for_it, against = _sides(numbers, bound)
    values = for_it - against
    error = float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan
    if len(seeds) > 1:
        tested = _over_seeds(for_it, against)
    elif seeds:
        tested = _over_clients(samples, seeds[0], bound)
    else:
        tested = _Tested("none: no common seed")
    difference = float(values.mean())
    outcome, said = _decided(tested.p, difference), tested.said
    rising = [(sample, weight) for sample, weight in samples if sample.rising]
    if rising and outcome != UNDECIDED and all(_widens(*each, difference) for each in rising):
        said += "; what still rises widens it"
    elif rising:
        outcome = RISING
    apart = [grid.labels[place[0]] for place in contrast.places if grid.samples[place].diverged]
    said += "".join(f"; {label} diverged" for label in dict.fromkeys(apart))
    facts = (said, tested.p, outcome, source)
    more = {"least": tested.least, "over": tested.over}
    return Outcome(contrast.said, contrast.column, contrast.places, difference, error, *facts, **more)


def _number(sample: Sample, seed: int | None) -> float:
    """Of a seed; without one the mean of all."""
    return float(np.mean(list(sample.numbers.values()))) if seed is None else sample.numbers[seed]


def _sides(parts: Sequence[tuple[np.ndarray, float]], bound: float) -> tuple[np.ndarray, np.ndarray]:
    """What counts for the claim and what against it, so that a difference of rounding is seen to be one; the bound is against it."""
    for_it = sum(weight * values for values, weight in parts if weight > 0)
    against = sum(-weight * values for values, weight in parts if weight < 0)
    return np.asarray(for_it), np.asarray(against + bound)


def _over_seeds(for_it: np.ndarray, against: np.ndarray) -> _Tested:
    found = paired(for_it, against, "t")
    if found.test == "permutation":
        return _flips(found.p, len(for_it), found.unequal, "seeds")
    return _Tested(f"paired t over {len(for_it)} seeds", found.p, over="seeds")


def _over_clients(samples: Sequence[tuple[Sample, float]], seed: int, bound: float) -> _Tested:
    """Sign flips of the clients' contrasts, each weighted as it counts in the number."""
    found = [sample.clients.get(seed) for sample, _ in samples]
    if any(each is None for each in found):
        return _Tested("none: one seed, and not a mean over clients")
    weights, each = found[0][1], samples[0][0].each
    kinds = [sample.each for sample, _ in samples]
    if TURNS in kinds:
        return _Tested(f"none: one seed, and {TURNS}")
    parts = [(values, weight) for (values, _), (_, weight) in zip(found, samples, strict=True)]
    if len(kinds) == 2 == len(set(kinds)):
        (one, first), (other, second) = ((values[~np.isnan(values)], weight) for values, weight in parts)
        said = f"{len(one)} {kinds[0]} and {len(other)} {kinds[1]}, dealt anew"
        p = of_two_groups(first * one, bound - second * other)
        extreme = 2 if len(one) == len(other) else 1  # of all ways to deal; groups of one size may change places
        return _Tested(said, p, extreme / math.comb(len(one) + len(other), len(one)), "clients")
    if not all(np.array_equal(weights, other[1]) for other in found):
        return _Tested("none: one seed, and other clients")
    for_it, against = _sides(parts, bound)
    if each.endswith("clients") and all(one_number(values) for values, _ in parts):
        return _Tested(f"none: one seed, and one number for all {each}")
    compared = paired(weights * for_it, weights * against, "permutation")
    return _flips(compared.p, compared.pairs, compared.unequal, each)


def _flips(p: float, count: int, unequal: int, each: str) -> _Tested:
    """Sign flips; where too few of the pairs differ for any p to decide, the least that there can be is said."""
    least = 2.0 ** (1 - max(unequal, 1))
    differ = "" if unequal == count else f", of which {unequal} differ"
    cannot = "" if least < ALPHA else f"{differ}, which cannot give a p below {least:.2g}"
    return _Tested(f"sign flips over {count} {each}{cannot}", p, least, each)


@dataclass(frozen=True)
class Counts:
    """How some claims came out.

    Attributes:
        firm: of those kept or broken, the ones that also stand after Holm's correction.
        tests: how many were tested.
        chance: how many of the tests over seeds would decide if nothing differed.
        over_clients: how many of the tests are over clients of one seed.

    Example:
        >>> str(Counts({KEPT: 3, UNDECIDED: 1}, 1, 4, 0.2))
        "3 kept, 1 undecided; 1 also after Holm's correction; by chance about 0.2 would be decided if nothing differed"
    """

    outcomes: Mapping[str, int]
    firm: int = 0
    tests: int = 0
    chance: float = 0.0
    over_clients: int = 0

    @classmethod
    def of(cls, outcomes: Sequence[Outcome]) -> Counts:
        words = [each.outcome for each in outcomes]
        decided = [each for each in outcomes if each.outcome in (KEPT, BROKEN)]
        counts = {word: words.count(word) for word in (KEPT, BROKEN, UNDECIDED, RISING) if word in words}
        tests = [each for each in outcomes if not math.isnan(each.p)]
        firm, chance = sum(each.firm for each in decided), sum(each.chance for each in outcomes)
        return cls(counts, firm, len(tests), chance, sum(each.over.endswith("clients") for each in tests))

    def __str__(self) -> str:
        said = [", ".join(f"{count} {word}" for word, count in self.outcomes.items()) or "none checked"]
        if self.outcomes.keys() & {KEPT, BROKEN}:
            said.append(f"{self.firm} also after Holm's correction")
        if self.chance:
            of = " of those over seeds" if self.over_clients else ""
            said.append(f"by chance about {self.chance:.2g}{of} would be decided if nothing differed")
        if self.over_clients:
            said.append(ONE_SEED)
        return "; ".join(said)
