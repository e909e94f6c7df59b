"""Selection rules: named functions from an accuracy curve to one number, and to the evaluations it comes from.

The papers print the maximum over rounds on the test set, which is optimistic (no validation split); the other rules are ours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pflrepro.errors import UserError, as_floats, unknown


@dataclass(frozen=True)
class Selected:
    """A selected value and the places (indices into the curve) that it is the mean of; `float(selected)` is the value."""

    value: float
    places: tuple[int, ...]

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True)
class Rule:
    """A selection rule: the mean of `count` evaluations, the `best` ones or the `last` ones (all, if there are fewer)."""

    name: str
    title: str
    which: Literal["best", "last"]
    count: int = 1

    def __call__(self, curve: Any) -> Selected:
        """The selected value; ties go to the earlier evaluation. `UserError` for an empty curve or one with NaN."""
        values = as_floats(curve, "the values of a curve")
        if values.ndim != 1 or not len(values) or np.isnan(values).any():
            raise UserError(
                f"{self.name} needs a curve with at least one value and no NaN, not {int(np.isnan(values).sum())} NaN "
                f"in the shape {list(values.shape)}"
            )
        if self.which == "last":
            places = np.arange(len(values))[-self.count :]
        else:
            places = np.sort(np.argsort(-values, kind="stable")[: self.count])
        return Selected(float(values[places].mean()), tuple(places.tolist()))


RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule("best_round", "maximum over rounds, on the test splits (as the papers do)", "best"),
        Rule("last_round", "last round", "last"),
        Rule("mean_last_10", "mean of the last 10 evaluations", "last", 10),
        Rule("mean_best_5", "mean of the 5 best evaluations", "best", 5),
    )
}
_COUNTED = re.compile(r"mean_(last|best)_([1-9][0-9]{0,5})")


def check_rule(name: str) -> Rule:
    """The rule called `name`, also `mean_last_K` and `mean_best_K` for any whole number K >= 1; `UserError` for another name.

    Example:
        >>> check_rule("mean_last_3")([0.9, 0.25, 0.5, 0.75]).value
        0.5
    """
    text = name if isinstance(name, str) else ""
    if text in RULES:
        return RULES[text]
    counted = _COUNTED.fullmatch(text)
    if counted is None:
        forms = ("best_round", "last_round", "mean_last_K", "mean_best_K")
        raise UserError(f"{unknown('selection rule', name, forms)} (K: a whole number, such as mean_last_10)")
    which, count = counted.groups()
    return Rule(name, f"mean of the {count} {which} evaluations", which, int(count))


def check_enough(rule: Rule, tests: int) -> None:
    """`UserError` for a rule that takes the mean of more tests than there are, so that its name would not be true."""
    if rule.count > tests:
        raise UserError(f"{rule.name} is a mean of {rule.count} tests, and there are {tests}; K may be 1 to {tests}")


def select(rule: str | Rule, curve: Any) -> Selected:
    """What `rule` takes from a curve.

    Example:
        >>> select("best_round", [0.1, 0.9, 0.5])
        Selected(value=0.9, places=(1,))
    """
    return (rule if isinstance(rule, Rule) else check_rule(rule))(curve)
