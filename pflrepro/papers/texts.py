"""Numbers and tables as texts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pflrepro.markup import levels, table

if TYPE_CHECKING:
    import pandas as pd


def number(value: float, digits: int = 2, sign: bool = False) -> str:
    """A number with fixed digits, empty for NaN.

    Example, in which nothing is left of a minus:
        >>> number(1234.567), number(-0.001), number(0.5, 1, sign=True)
        ('1,234.57', '0.00', '+0.5')
    """
    return "" if math.isnan(value) else f"{value:{'+' if sign else ''}z,.{digits}f}"


def mean_and_spread(mean: float, spread: float, digits: int = 2, spread_digits: int | None = None) -> str:
    """`97.69 ± 0.05`; only the mean where the spread is unknown (a single seed, or none printed)."""
    if math.isnan(mean):
        return ""
    behind = digits if spread_digits is None else spread_digits
    return number(mean, digits) + ("" if math.isnan(spread) else f" ± {number(spread, behind)}")


def probability(p: float) -> str:
    """A p value with two digits, empty for NaN.

    Example:
        >>> probability(0.0312), probability(0.5), probability(2e-5), probability(float("nan"))
        ('0.031', '0.5', '< 0.0001', '')
        >>> probability(0.0497)  # not rounded to the 0.05 that decides
        '0.0497'
    """
    if math.isnan(p):
        return ""
    digits = next(digits for digits in range(2, 18) if p >= 0.05 or f"{p:.{digits}g}" != "0.05")
    return "< 0.0001" if p < 1e-4 else f"{p:.{digits}g}"


def span(counts: Iterable[int], word: str) -> str:
    """From the least of the counts to the largest: `1 seed`, `3 seeds`, `2 to 3 seeds`."""
    known = list(counts)
    low, high = min(known), max(known)
    if low == high:
        return f"{low:,} {word}{'' if low == 1 else 's'}"
    return f"{low:,} to {high:,} {word}s"


def markdown(frame: pd.DataFrame) -> str:
    """A data frame of texts as a markdown table; the index is left out, the levels of its header stand in one line."""
    header = _flat([levels(name) for name in frame.columns])
    lines = [header, ["---"] * len(header), *([str(value) for value in line] for line in frame.itertuples(index=False))]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def html(frame: pd.DataFrame, titles: Mapping[str, str] | None = None) -> str:
    """A data frame of texts as an HTML table, see `pflrepro.markup.table`; the index is left out."""
    return table([levels(name) for name in frame.columns], frame.itertuples(index=False), titles)


def _flat(header: Sequence[tuple[str, ...]]) -> list[str]:
    """`group: label, published`, and of a neighbour below the same only its last level."""
    found, above = [], None
    for *upper, last in header:
        said = ": ".join(filter(None, upper))
        found.append(last if upper == above or not said else f"{said}, {last}" if last else said)
        above = upper
    return found
