"""The checks that every method passes, callable on a method of one's own.

    from pflrepro import conformance
    conformance.report("my_module:MyMethod", {"strength": 0.5})  # a table of all checks
    conformance.check("my_module:MyMethod", {"strength": 0.5})  # the same for a test: an error where one fails

A check is a small function of a `Subject` (a method on one network, with its runs so far) that raises `AssertionError`; `CHECKS`
names them all. The federation is made up, five clients of 3 to 30 samples with absent classes, so that a whole suite takes about
a second on the small network. What a check demands is exact unless its docstring states a tolerance.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from pflrepro.algorithms.contract import Method
from pflrepro.conformance.checks import CHECKS
from pflrepro.conformance.subject import Subject, federation
from pflrepro.errors import UserError
from pflrepro.markup import records
from pflrepro.simulation.failing import without_result

__all__ = ["CHECKS", "Report", "Result", "Subject", "check", "federation", "report"]

PASSED, FAILED, NOT_APPLICABLE = "passed", "failed", "not applicable"
MARKS = {PASSED: "✓", FAILED: "✗", NOT_APPLICABLE: "–"}


@dataclass(frozen=True)
class Result:
    """One check's outcome: `passed`, `failed` or `not applicable`, the latter two with the reason."""

    check: str
    outcome: str
    seconds: float
    reason: str = ""


class Report(list[Result]):
    """What came of all checks, as a list that shows itself. name: the method and network."""

    def __init__(self, name: str, results: Iterable[Result] = ()) -> None:
        super().__init__(results)
        self.name = name

    @property
    def failed(self) -> list[Result]:
        """The checks that failed."""
        return [result for result in self if result.outcome == FAILED]

    @property
    def counts(self) -> str:
        """How many checks came out how, in words."""
        counts = Counter(result.outcome for result in self)
        return f"{self.name}: {', '.join(f'{count} {outcome}' for outcome, count in counts.items())}"

    def __repr__(self) -> str:
        told = (f"  {MARKS[each.outcome]} {each.check}: {each.reason}" for each in self if each.reason)
        return "\n".join([f"Report({self.counts})", *told])

    def _repr_html_(self) -> str:
        lines = [
            {
                "": MARKS[each.outcome],
                "check": each.check.replace("_", " "),
                "what it demands": (CHECKS[each.check].__doc__ or "").split("\n")[0],
                "outcome": each.outcome,
                "why": each.reason,
            }
            for each in self
        ]
        return f"<p>{escape(self.counts)}</p>{records(lines)}"


def report(
    method: str | type[Method] | Method, options: Mapping[str, Any] | None = None, model: str = "mlp", **declared: Any
) -> Report:
    """Run every check on a method and tell what came of each, also where one fails; see `check`.

    Example:
        >>> report("fedavg").failed
        []
    """
    subject = Subject(method, options, model, **declared)
    made, results = subject.method(), Report(str(subject))  # a wrong name or option is refused here, not a line a check
    for name, function in CHECKS.items():
        if name in subject.without:
            results.append(Result(name, NOT_APPLICABLE, 0.0, subject.without[name]))
            continue
        started, reason = time.perf_counter(), ""
        try:
            function(subject)
        except (AssertionError, UserError) as error:
            reason = str(error) or "it does not hold"
        except Exception as error:  # a method that breaks fails the check, and the next one may tell more
            reason = f"{type(error).__name__}: {error}{without_result(error, made)}"
        results.append(Result(name, FAILED if reason else PASSED, time.perf_counter() - started, reason))
    return results


def check(
    method: str | type[Method] | Method, options: Mapping[str, Any] | None = None, model: str = "mlp", **declared: Any
) -> Report:
    """Run every check on a method; `declared` are the exceptions that `Subject` takes (zero_rate, moves, without).

    Raises `AssertionError` that names each failed check, the entry and the size of the difference.

    Example:
        >>> {result.outcome for result in check("fedavg")}
        {'passed'}
    """
    results = report(method, options, model, **declared)
    if results.failed:
        told = "; ".join(f"{each.check}: {each.reason}" for each in results.failed)
        raise AssertionError(f"{results.name} fails {len(results.failed)} of {len(CHECKS)} checks: {told}")
    return results
