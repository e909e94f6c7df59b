"""When a number of ours agrees with a printed one, and when the ordering a paper claims is kept."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pflrepro.papers.artefact import Artefact, Scale

WITHIN = "within tolerance"
KEPT = "ordering kept"
UNDECIDED = "ordering undecided"
BROKEN = "ordering broken"
DIFFERS = "differs"
UNPUBLISHED = "no published number"
EQUAL = "equal to the reference"
STAND_IN = "stand-in"
NOT_RUN = "not run"
VERDICTS = {
    WITHIN: "the difference is at most the tolerance",
    KEPT: "outside the tolerance (or nothing printed), but every claimed ordering that could be checked holds or is "
    "undecided",
    UNDECIDED: "outside the tolerance (or nothing printed), and all checked orderings are smaller than twice their "
    "standard error",
    BROKEN: "outside the tolerance (or nothing printed), and a claimed ordering is reversed by more than twice its "
    "standard error (with a single seed: at all)",
    DIFFERS: "outside the tolerance, and no claimed ordering could be checked",
    UNPUBLISHED: "nothing printed and no claimed ordering to check",
    EQUAL: "counts of a partition: equal to the shipped reference (the paper prints a picture only)",
    STAND_IN: "small stand-in data: not comparable with the paper",
    NOT_RUN: "no finished run in the store",
}


@dataclass(frozen=True)
class Measured:
    """Our number of one cell: mean and population standard deviation of the selected values over `n` seeds."""

    mean: float
    spread: float
    n: int

    @property
    def standard_error(self) -> float:
        """sqrt(sample variance / n) = spread / sqrt(n - 1); NaN for a single seed, whose spread is unknown."""
        return self.spread / math.sqrt(self.n - 1) if self.n > 1 else math.nan


@dataclass(frozen=True)
class ClaimOutcome:
    """One claimed ordering in one column: ours(better) - ours(worse), its standard error, and what follows."""

    column: str
    better: str
    worse: str
    difference: float
    error: float
    outcome: str
    source: str


def tolerance(published_std: float, ours: Measured, trials: int, least: float) -> float:
    """Two standard errors of the difference of means, at least `least` points.

    2 sqrt(v_p / trials + v_o / n), v the sample variances (from the population standard deviations that are printed and shown:
    v = s^2 n / (n - 1)). A variance that is unknown (ours with one seed, a printed number without spread) is taken from the
    other side; if both are unknown only `least` counts.
    """
    printed = published_std**2 * trials / (trials - 1) if trials > 1 else math.nan
    own = ours.spread**2 * ours.n / (ours.n - 1) if ours.n > 1 else math.nan
    printed, own = (own if math.isnan(printed) else printed), (printed if math.isnan(own) else own)
    if math.isnan(printed):
        return least
    return max(least, 2.0 * math.sqrt(printed / max(trials, 1) + own / ours.n))


def check_claims(artefact: Artefact, measured: dict[tuple[str, str], Measured]) -> list[ClaimOutcome]:
    """Every claim in every column where both rows were run. Keys of `measured`: (algorithm, column key).

    With spreads on both sides a difference below two standard errors is undecided; with a single seed the sign of the
    difference decides, and the error is NaN.
    """
    labels = {row.algorithm: row.label for row in artefact.rows}
    outcomes = []
    for column in artefact.columns:
        for claim in artefact.claims:
            if claim.columns is not None and column.key not in claim.columns:
                continue
            better, worse = (measured.get((name, column.key)) for name in (claim.better, claim.worse))
            if better is None or worse is None:
                continue
            difference = better.mean - worse.mean
            error = math.hypot(better.standard_error, worse.standard_error)
            outcome = "kept" if difference > 0 else "broken"
            if difference == 0 or (not math.isnan(error) and abs(difference) <= 2 * error):
                outcome = "undecided"
            outcomes.append(
                ClaimOutcome(
                    column.key, labels[claim.better], labels[claim.worse], difference, error, outcome, claim.source
                )
            )
    return outcomes


def judge(
    difference: float,
    allowed: float,
    stand_in: bool,
    measured: Measured | None,
    claims: list[ClaimOutcome],
    printed: bool,
) -> str:
    """The verdict of one cell; `claims` are the outcomes that involve it."""
    if measured is None:
        return NOT_RUN
    if stand_in:
        return STAND_IN
    if printed and abs(difference) <= allowed:
        return WITHIN
    found = {claim.outcome for claim in claims}
    if "broken" in found:
        return BROKEN
    if "kept" in found:
        return KEPT
    if "undecided" in found:
        return UNDECIDED
    return DIFFERS if printed else UNPUBLISHED


def is_stand_in(scale: Scale) -> bool:
    """Whether the scale runs small stand-ins instead of the artefact's own columns."""
    return bool(scale.stand_ins)
