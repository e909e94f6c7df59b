"""What can go wrong, in one line.

A `UserError` is a mistake of the caller: the command line prints its message and exits with 2. A `RunFailed` is a run that
started and broke: exit code 1; `Stopped` is no mistake: exit code 75. Everything else is a bug of ours and may show its traceback.
"""

from __future__ import annotations

import difflib
import math
import numbers
import os
import traceback
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

MOST_CLASSES = 100_000  # where there are fewer samples


def traceback_wanted() -> bool:
    """Whether the traceback behind an error message is asked for, by PFLREPRO_TRACEBACK=1."""
    return os.environ.get("PFLREPRO_TRACEBACK", "") not in ("", "0")


class UserError(Exception):
    """A user's mistake; the message is one line that names the wrong value and the valid ones.

    A notebook shows that line alone; with PFLREPRO_TRACEBACK=1 it shows where it was raised as well, as the command line does.
    """

    def _render_traceback_(self) -> list[str]:
        """What IPython shows of it."""
        if traceback_wanted():
            return traceback.format_exception(self)
        return [f"{type(self).__name__}: {self}"]


class MissingData(UserError):
    """A data set is not in the data root; the message says how to get it and what works offline."""


class CorruptFile(UserError):
    """A file on disk is not what it should be; the message names the file and what to do."""


class OtherVersion(UserError):
    """A file on disk is of another version of the package, which can read it; it is left as it is."""


class RunFailed(Exception):
    """A run broke after it started; the message names the method, round and client where they are known."""


class Stopped(SystemExit):
    """The process was asked to end, and what it had trained is saved; exit code 75, by which a scheduler may start it again."""

    CODE = 75  # EX_TEMPFAIL of sysexits.h: try again

    def __init__(self) -> None:
        super().__init__(self.CODE)


class Paused(RunFailed):
    """A run was asked to stop between two rounds: what it has is kept, and the same call goes on from there."""


def unknown(kind: str, name: str, valid: Iterable[str], besides: str = "") -> UserError:
    """The error for a name that is not registered: lists the valid names, the nearest first, behind what may be meant `besides`.

    Example:
        >>> str(unknown("data set", "fmnst", ["digits", "fmnist", "mnist"]))
        "unknown data set 'fmnst'; valid: fmnist, mnist, digits"
    """
    names = sorted(valid)
    nearest = difflib.get_close_matches(str(name), names, n=max(len(names), 1), cutoff=0.0)
    said = f" ({besides})" if besides else ""
    return UserError(f"unknown {kind} {name!r}{said}; valid: {', '.join(nearest or names) or '(none)'}")


def check_word(name: str, value: Any, valid: Iterable[str]) -> Any:
    """Return `value` if it is one of `valid`, else raise the error of `unknown`."""
    names = tuple(valid)
    if not isinstance(value, str) or value not in names:
        raise unknown(name, value, names)
    return value


def is_several(value: Any) -> bool:
    """Whether something can be gone through and is no text: a list, a generator, a column of a data frame, but no single number.

    Example:
        >>> is_several([1]), is_several("one"), is_several(range(2)), is_several(1)
        (True, False, True, False)
    """
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes)) and getattr(value, "ndim", 1) > 0


def as_floats(values: Any, what: str = "values") -> np.ndarray:
    """Numbers as float64; `UserError` for what are none, such as a run in place of its history."""
    import numpy as np

    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise UserError(f"{what} must be numbers, not {in_short(values)}") from None


def check_range(
    name: str,
    value: Any,
    low: float | None = None,
    high: float | None = None,
    *,
    open_low: bool = False,
    open_high: bool = False,
    integer: bool = False,
) -> Any:
    """Return `value` if it is a finite number in [low, high] (without an open end), else raise `UserError` with the range."""
    value, kind = plain(value), "a whole number" if integer else "a number"
    numeric = isinstance(value, (int, float)) and not isinstance(value, bool) and _finite(value)
    whole = not integer or (numeric and float(value).is_integer())
    above = low is None or (numeric and (value > low if open_low else value >= low))
    below = high is None or (numeric and (value < high if open_high else value <= high))
    if numeric and whole and above and below:
        return int(value) if integer else value
    raise UserError(f"{name} must be {kind}{bounded(low, high, open_low, open_high)}, not {value!r}")


def refuse_ids(largest: int, samples: int) -> None:
    """`UserError` for a largest label that is rather an id: arrays of so many classes would take all memory."""
    if largest >= max(samples, MOST_CLASSES):
        raise UserError(
            f"labels count from 0: the largest of {samples} is {largest}, which would be {largest + 1:,} classes"
        )


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float is as large as
        return False


def at_line(file: str, line: int) -> str:
    """` at my_module.py:12`, as a message names a line of the user's code: from the current folder where it lies in there."""
    near = os.path.relpath(file) if os.path.isabs(file) else file  # a cell of a notebook may have no path
    return f" at {file if near.startswith(os.pardir) else near}:{line}"


def plain(value: Any) -> Any:
    """A number of numpy as Python's own, anything else as it is."""
    return value.item() if isinstance(value, numbers.Real) and hasattr(value, "item") else value


def in_short(value: Any, most: int = 80) -> str:
    """A value as a message names it: in one line, cut off where it is long.

    Example:
        >>> in_short([1, 2]), in_short(list(range(1000)), most=8)
        ('[1, 2]', '[0, 1, 2 ...')
    """
    text = " ".join(repr(value).split())
    return text if len(text) <= most else f"{text[:most]} ..."


def bounded(
    low: float | None = None, high: float | None = None, open_low: bool = False, open_high: bool = False
) -> str:
    """What follows `a number` where it lies in [low, high], without an open end.

    Example:
        >>> bounded(0, 1, open_low=True), bounded()
        (' > 0 and <= 1', '')
    """
    lower = "" if low is None else f" {'>' if open_low else '>='} {_written(low)}"
    upper = "" if high is None else f"{' and' if lower else ''} {'<' if open_high else '<='} {_written(high)}"
    return lower + upper


def _written(bound: float) -> str:
    return f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"
