"""The checks that every method passes, callable on a method of one's own.

    from pflrepro import conformance
    conformance.check("my_module:MyMethod", {"strength": 0.5})

A check is a small function of a `Subject` (a method on one network, with its runs so far) that raises `AssertionError`; `CHECKS`
names them all. The federation is made up, five clients of 3 to 30 samples with absent classes, so that a whole suite takes about
a second on the small network. What a check demands is exact unless its docstring states a tolerance.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pflrepro.algorithms.contract import Method
from pflrepro.conformance.checks import CHECKS
from pflrepro.conformance.subject import Subject, federation
from pflrepro.errors import UserError

__all__ = ["CHECKS", "Result", "Subject", "check", "federation"]


@dataclass(frozen=True)
class Result:
    """One check's outcome: `passed`, or `not applicable` with the reason given."""

    check: str
    outcome: str
    seconds: float
    reason: str = ""


def check(
    method: str | type[Method] | Method, options: Mapping[str, Any] | None = None, model: str = "mlp", **declared: Any
) -> list[Result]:
    """Run every check on a method; `declared` are the exceptions that `Subject` takes (zero_rate, moves, without).

    Raises `AssertionError` that names each failed check, the entry and the size of the difference.

    Example:
        >>> {result.outcome for result in check("fedavg")}
        {'passed'}
    """
    subject = Subject(method, options, model, **declared)
    results, failures = [], []
    for name, function in CHECKS.items():
        if name in subject.without:
            results.append(Result(name, "not applicable", 0.0, subject.without[name]))
            continue
        started = time.perf_counter()
        try:
            function(subject)
        except UserError:
            raise
        except AssertionError as error:
            failures.append(f"{name}: {error}")
        except Exception as error:  # a method that breaks fails the check, and the next one may tell more
            failures.append(f"{name}: {type(error).__name__}: {error}")
        results.append(Result(name, "passed", time.perf_counter() - started))
    if failures:
        raise AssertionError(f"{subject} fails {len(failures)} of {len(CHECKS)} checks: " + "; ".join(failures))
    return results
