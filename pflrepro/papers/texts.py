"""Numbers and tables as texts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


def number(value: float, digits: int = 2, sign: bool = False) -> str:
    """A number with fixed digits, empty for NaN."""
    return "" if math.isnan(value) else f"{value:{'+' if sign else ''},.{digits}f}"


def mean_and_spread(mean: float, spread: float, digits: int = 2) -> str:
    """`97.69 ± 0.05`; only the mean where the spread is unknown (a single seed, or none printed)."""
    if math.isnan(mean):
        return ""
    return number(mean, digits) + ("" if math.isnan(spread) else f" ± {number(spread, digits)}")


def probability(p: float) -> str:
    """A p value with two digits, empty for NaN.

    Example:
        >>> probability(0.0312), probability(0.5), probability(2e-5), probability(float("nan"))
        ('0.031', '0.5', '< 0.0001', '')
    """
    if math.isnan(p):
        return ""
    return "< 0.0001" if p < 1e-4 else f"{p:.2g}"


def span(low: float, high: float, word: str) -> str:
    """`1 seed`, `3 seeds`, `2 to 3 seeds`."""
    low, high = int(low), int(high)
    if low == high:
        return f"{low:,} {word}{'' if low == 1 else 's'}"
    return f"{low:,} to {high:,} {word}s"


def markdown(frame: pd.DataFrame) -> str:
    """A data frame of texts as a markdown table; the index is left out."""
    header = [str(name) for name in frame.columns]
    lines = [header, ["---"] * len(header), *([str(value) for value in line] for line in frame.itertuples(index=False))]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"
