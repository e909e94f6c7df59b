"""What a study found: its cells, with the published numbers beside ours, and a verdict each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pflrepro.errors import UserError
from pflrepro.experiments.runs import Runs
from pflrepro.markup import facts
from pflrepro.metrics.intervals import over_seeds, over_weighted_clients
from pflrepro.papers.artefact import FIDELITIES, SAME, STAND_IN, Artefact, Column, Row
from pflrepro.papers.claims import Sample
from pflrepro.papers.judging import BROKEN, KEPT, RISING, UNDECIDED, Outcome
from pflrepro.papers.measures import Measure, Taken, Value
from pflrepro.papers.numbers import PublishedNumber
from pflrepro.papers.texts import mean_and_spread, number, span

if TYPE_CHECKING:
    from pflrepro.experiments.result import Run

WITHIN, DIFFERS, UNPUBLISHED, NOT_RUN = "within tolerance", "differs", "no published number", "not run"
UNJUDGED, NO_NUMBER, NOT_MEASURED = "not judged", "no number", "not measured"
ABSENT = frozenset((NOT_RUN, NOT_MEASURED))  # nothing has been found out about such a cell
EQUAL = "equal to the reference"  # of what is counted, see `papers.shown_partitions`
VERDICTS = {
    WITHIN: "the difference is at most the tolerance",
    f"ordering {KEPT}": "a test shows at least one claim about this cell, none reversed",
    f"ordering {UNDECIDED}": "no test decides a claim about this cell, which does not mean equal: few seeds or clients tell little",
    f"ordering {RISING}": "a curve behind it still rises at the end of its rounds and may turn it: neither kept nor broken",
    f"ordering {BROKEN}": "a test shows at least one claim about this cell reversed",
    DIFFERS: "outside the tolerance at the paper's setting, and no claim could be checked",
    UNJUDGED: "less than the paper's setting or other data, and no claim to check",
    UNPUBLISHED: "nothing printed, and no claim to check",
    STAND_IN: "small stand-in: not comparable with the paper",
    NO_NUMBER: "was run, but has no number, such as a threshold that was never reached",
    NOT_MEASURED: "was trained, and its models were not looked at yet",
    NOT_RUN: "no finished run",
}
# Marks behind a number, so that a verdict is read without colours.
MARKS = {
    WITHIN: "≈",
    f"ordering {KEPT}": "✓",
    f"ordering {UNDECIDED}": "?",
    f"ordering {RISING}": "↗",
    f"ordering {BROKEN}": "✗",
    DIFFERS: "≠",
}
# In front of a word that stands alone: of a verdict, or of how a claim came out.
_BEFORE = MARKS | {word: MARKS[f"ordering {word}"] for word in (KEPT, UNDECIDED, RISING, BROKEN)}
_BEFORE |= {EQUAL: "="} | dict.fromkeys(ABSENT, "–")
FRAME_COLUMNS = (
    *("artefact", "row", "method", "column", "measure", "unit", "dataset", "model"),
    *("published", "published_std", "source", "ours", "spread", "over_clients", "low", "high", "interval"),
    *("difference", "tolerance", "n", "scale", "fidelity", "rounds", "rule", "verdict", "reason", "runs"),
)


def marked(word: str) -> str:
    """A verdict, or how a claim came out, behind its mark, so that it is read without colours.

    Example:
        >>> marked(NOT_RUN), marked(KEPT), marked(STAND_IN)
        ('– not run', '✓ kept', 'stand-in')
    """
    return f"{_BEFORE.get(word, '')} {word}".lstrip()


Key = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Cell:
    """One cell: what is printed, what was measured, one value a seed.

    Attributes:
        values: seed -> value.
        runs: seed -> run.
        reason: why nothing, or less than asked for, is there, and which runs diverged.
        rising: see `papers.claims`.
    """

    row: Row
    column: Column
    measure: Measure
    fidelity: str
    printed: PublishedNumber | None
    values: Mapping[int, Value] = field(default_factory=dict)
    runs: Mapping[int, Run] = field(default_factory=dict)
    reason: str = ""
    rising: bool = False

    def __repr__(self) -> str:
        unit = f" {self.measure.unit}" if self.measure.unit else ""
        seeds = f"{unit} of {span([len(self.runs)], 'run')}"
        ours = self._said(self.ours, self.spread) + seeds if self.runs else "not run"
        printed = self.published_text or "none"
        return f"Cell({self.row.label}, {self.column.setting.label}: published {printed}, {self._whose} {ours})"

    def _repr_html_(self) -> str:
        low, high, kind = self.interval()
        over = ", ± over seeds" if len(self.numbers) > 1 else ""
        rows = {
            "published": f"{self.published_text or 'none'} ({_source(self.printed)})",
            self._whose: self._said(self.ours, self.spread) + over if self.runs else "not run",
            "95 % interval": "" if math.isnan(low) else f"{number(low)} to {number(high)} ({kind})",
            "fidelity": FIDELITIES[self.fidelity],
            "why not all": self.reason,
        }
        unit = f" ({self.measure.unit})" if self.measure.unit else ""
        title = f"{self.row.label}, {self.column.setting.label}: {self.measure.title}{unit}"
        runs = Runs(self.runs.values())
        return facts(title, rows) + (runs._repr_html_() if runs else "")

    @property
    def _whose(self) -> str:
        """What our number is called."""
        return "a stand-in" if self.fidelity == STAND_IN else "ours"

    def _said(self, mean: float, spread: float) -> str:
        return mean_and_spread(mean, spread, self.digits) or "none"

    @property
    def digits(self) -> int:
        """Decimals that are shown."""
        return self.measure.digits if self.column.digits is None else self.column.digits

    @property
    def spread_digits(self) -> int:
        """Decimals of a printed spread."""
        return self.digits if self.measure.spread_digits is None else self.measure.spread_digits

    @property
    def key(self) -> tuple[str, str]:
        return self.row.key, self.column.key

    @property
    def numbers(self) -> np.ndarray:
        """The finite values, one a seed."""
        found = np.array([value.number for value in self.values.values()], np.float64)
        return found[np.isfinite(found)]

    @property
    def ours(self) -> float:
        """The mean over seeds; NaN where nothing was measured."""
        return float(self.numbers.mean()) if len(self.numbers) else math.nan

    @property
    def spread(self) -> float:
        """The population standard deviation over seeds; NaN with fewer than two."""
        return float(self.numbers.std()) if len(self.numbers) > 1 else math.nan

    @property
    def over_clients(self) -> float:
        """The unbiased standard deviation over clients, mean over seeds: what pFedFDA prints in brackets; NaN without such values."""
        found = [value.counting[0] for value in self.values.values() if value.each.endswith("clients")]
        each = [clients.std(ddof=1) for clients in found if len(clients) > 1]
        return float(np.mean(each)) if each else math.nan

    def spread_over(self, what: str) -> float:
        """The spread that compares with a printed one over `trials` or `clients`, see `Artefact.spread`."""
        return self.over_clients if what == "clients" else self.spread

    @property
    def published(self) -> float:
        """The printed number in our unit; NaN where none is printed."""
        return math.nan if self.printed is None else self.printed.value * self.measure.printed

    @property
    def published_text(self) -> str:
        """The printed number with its spread, in the digits of print; nothing where none is printed."""
        return mean_and_spread(self.published, self.published_std, self.digits, self.spread_digits)

    @property
    def published_std(self) -> float:
        return math.nan if self.printed is None else self.printed.std * self.measure.printed

    @property
    def compared(self) -> bool:
        """Whether its level is compared with the printed one: of a time another machine's is not, nor what others are relative to."""
        reference = (self.row.key, "") in self.measure.beside
        return (
            self.fidelity == SAME
            and not math.isnan(self.published)
            and not self.measure.absolute_time
            and not reference
        )

    @property
    def rounds(self) -> int:
        return max((run.rounds for run in self.runs.values()), default=0)

    @property
    def rule(self) -> str:
        """What is taken from the run's curve, in words."""
        return self.measure.rule_of(self.column.method(self.row))

    @property
    def taken(self) -> Taken | None:
        """How the numbers come from the runs' curves; None of what is no accuracy of a curve."""
        return self.measure.taken_of(self.column.method(self.row))

    def interval(self) -> tuple[float, float, str]:
        """(low, high, what it is): 95 %, over seeds, with one seed over clients where the measure has values a client; NaN without."""
        return self._interval

    @cached_property
    def _interval(self) -> tuple[float, float, str]:
        """Once: page, picture and csv show it, and a bootstrap takes some milliseconds."""
        if len(self.numbers) > 1:
            found = over_seeds(self.numbers)
            return *self._bounded(found.low, found.high), f"{found.method}, {len(self.numbers)} seeds"
        value = next((each for each in self.values.values() if math.isfinite(each.number)), None)
        if value is None or not value.sampled:
            return math.nan, math.nan, ""
        found = over_weighted_clients(*value.counting)
        return *self._bounded(found.low, found.high), f"bootstrap, {found.n} {value.each}"

    def _bounded(self, low: float, high: float) -> tuple[float, float]:
        least, most = self.measure.bounds
        return max(low, least), min(high, most)

    def sample(self) -> Sample:
        """The cell as claims are judged by it."""
        finite = {seed: value for seed, value in self.values.items() if math.isfinite(value.number)}
        numbers = {seed: value.number for seed, value in finite.items()}
        clients = {s: (v.clients, v.weights) for s, v in finite.items() if v.clients is not None}
        each = next((value.each for value in finite.values()), "clients")
        of_the_best = self.taken is not None and self.taken.rule.which == "best"
        diverged = any(self.runs[seed].diverged for seed in finite)
        return Sample(numbers, clients, self.rising, each, only_rises=of_the_best, diverged=diverged)

    def tolerance(self, artefact: Artefact) -> float:
        """Two standard errors of the difference of means, at least the artefact's: 2 sqrt(v_p / trials + v_o / n).

        v: sample variances over trials and seeds, one that is unknown taken from the other side. A spread s that is printed over N
        clients says nothing of other trials: there the least is that between means over two draws of N clients, 2 sqrt(2 / N) s.
        """
        n, trials = len(self.numbers), artefact.trials
        own = self.spread**2 * n / (n - 1) if n > 1 else math.nan
        over_trials = artefact.spread == "trials" and trials > 1
        printed = self.published_std**2 * trials / (trials - 1) if over_trials else math.nan
        own, printed = (printed if math.isnan(own) else own), (own if math.isnan(printed) else printed)
        least = artefact.tolerance
        if artefact.spread == "clients" and not math.isnan(self.published_std):
            least = 2.0 * math.sqrt(2.0 / self.column.setting.clients) * self.published_std
        if math.isnan(own) or not n:
            return least
        return max(least, 2.0 * math.sqrt(printed / max(trials, 1) + own / n))

    def verdict(self, artefact: Artefact, outcomes: Sequence[Outcome]) -> str:
        """One of `VERDICTS`; `outcomes`: of all claims."""
        if not self.values:
            return NOT_MEASURED if self.runs else NOT_RUN
        if self.fidelity == STAND_IN:
            return STAND_IN
        if not len(self.numbers):
            return NO_NUMBER
        known = not math.isnan(self.published)
        if self.compared and abs(self.ours - self.published) <= self.tolerance(artefact):
            return WITHIN
        words = {each.outcome for each in outcomes if self.key in each.places}
        worst = next((word for word in (BROKEN, RISING, KEPT, UNDECIDED) if word in words), None)
        if worst is not None:
            return f"ordering {worst}"
        return DIFFERS if self.compared else UNJUDGED if known else UNPUBLISHED

    def line(self, artefact: Artefact, scale: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
        """The cell as a line of the frame (`FRAME_COLUMNS`)."""
        low, high, interval = self.interval()
        run = next(iter(self.runs.values()), None)
        known = not math.isnan(self.published) and self.fidelity != STAND_IN
        return {
            "artefact": artefact.id,
            "row": self.row.label,
            "method": self.column.method(self.row),
            "column": artefact.name_of(self.column),
            "measure": self.measure.title,
            "unit": self.measure.unit,
            "dataset": self.column.setting.dataset if run is None else run.experiment.data.dataset,
            "model": self.column.setting.model if run is None else run.experiment.model,
            "published": self.published,
            "published_std": self.published_std,
            "source": _source(self.printed),
            "ours": self.ours,
            "spread": self.spread,
            "over_clients": self.over_clients,
            "low": low,
            "high": high,
            "interval": interval,
            "difference": self.ours - self.published if known else math.nan,
            "tolerance": self.tolerance(artefact) if self.compared else math.nan,
            "n": len(self.numbers),
            "scale": scale,
            "fidelity": self.fidelity,
            "rounds": self.rounds,
            "rule": self.rule,
            "verdict": self.verdict(artefact, outcomes),
            "reason": self.reason,
            "runs": " ".join(run.id for run in self.runs.values()),
        }


def _source(printed: PublishedNumber | None) -> str:
    if printed is None:
        return "no published number"
    if math.isnan(printed.value):
        return f"{printed.source}: {printed.note or 'not printed'}"
    spread = f"; spread from {printed.std_source}" if printed.std_source not in ("", printed.source) else ""
    return printed.source + spread


class NoCell(UserError, KeyError):
    """There is no cell of that row and column; a `KeyError` too, as a mapping's."""

    __str__ = Exception.__str__  # a `KeyError`'s is the repr of its message


class Cells(dict[Key, Cell]):
    """Cells by row and column key."""

    def __missing__(self, key: Any) -> Cell:
        rows, columns = (", ".join(dict.fromkeys(names)) for names in zip(*self, strict=True)) if self else ("", "")
        raise NoCell(f"no cell {key!r}; rows: {rows or '(none)'}; columns: {columns or '(none)'}")
