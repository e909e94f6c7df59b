"""Ends of a run that nobody asked for, at a round of one's choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Killed(BaseException):
    """As abrupt as a signal: nothing in the package catches it."""


def break_in_round(number: int, error: BaseException) -> Callable[[Any], None]:
    """What a fake engine takes as `before_step`: it raises `error` in the round behind this number of rounds."""

    def before_step(simulation: Any) -> None:
        if simulation.round == number:
            raise error

    return before_step
