"""Numbers and tables as texts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

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
    """A data frame of texts as a markdown table; the index is left out, the levels of its header stand in one line."""
    header = _flat([_levels(name) for name in frame.columns])
    lines = [header, ["---"] * len(header), *([str(value) for value in line] for line in frame.itertuples(index=False))]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def html(frame: pd.DataFrame, titles: Mapping[str, str] | None = None) -> str:
    """A data frame of texts as an HTML table that takes its colours from the page; the index is left out.

    Each level of the header is a line, equal neighbours are one cell; numbers stand to the right. `**x**` is bold, `<u>x</u>`
    underlined.

    Args:
        titles: what a mark at the end of a text means, shown over it.
    """
    header = [_levels(name) for name in frame.columns]
    lines = [[str(text) for text in line] for line in frame.itertuples(index=False)]
    aligns = [_align([line[place] for line in lines]) for place in range(len(header))]
    head = "".join(f"<tr>{_head_line(header, level, aligns)}</tr>" for level in range(len(header[0]) if header else 0))
    cells = [[_td(text, align, titles or {}) for text, align in zip(line, aligns, strict=True)] for line in lines]
    body = "".join(f"<tr>{''.join(line)}</tr>" for line in cells)
    table = f'<table style="border-collapse:collapse"><thead>{head}</thead><tbody>{body}</tbody></table>'
    return f'<div style="overflow-x:auto">{table}</div>'


def _align(texts: Sequence[str]) -> str:
    return "right" if all(map(_NUMBER.match, filter(None, texts))) else "left"


_NUMBER = re.compile(r"(\*\*|<u>|< )?[+-]?[\d.]|none|unknown")


def _levels(name: Any) -> tuple[str, ...]:
    return tuple(map(str, name)) if isinstance(name, tuple) else (str(name),)


def _flat(header: Sequence[tuple[str, ...]]) -> list[str]:
    """`group: label, published`, and of a neighbour below the same only its last level."""
    found, above = [], None
    for *upper, last in header:
        said = ": ".join(filter(None, upper))
        found.append(last if upper == above or not said else f"{said}, {last}" if last else said)
        above = upper
    return found


def _head_line(header: Sequence[tuple[str, ...]], level: int, aligns: Sequence[str]) -> str:
    """The cells of one line of the header: neighbours with the same names down to it are one."""
    cells, place, last = [], 0, level == len(header[0]) - 1
    for names, group in groupby(header, key=lambda names: names[: level + 1]):
        width = len(list(group))
        align = aligns[place] if last else "center"
        rule = ";border-bottom:1px solid" if names[-1] or last else ""
        cells.append(f'<th colspan="{width}" style="text-align:{align}{rule}">{_inline(names[-1])}</th>')
        place += width
    return "".join(cells)


def _td(text: str, align: str, titles: Mapping[str, str]) -> str:
    body, gap, mark = text.rpartition(" ")
    if gap and mark in titles:
        shown = f'{_inline(body)} <span title="{escape(titles[mark])}">{escape(mark)}</span>'
    else:
        shown = _inline(text)
    return f'<td style="text-align:{align};white-space:nowrap">{shown}</td>'


def _inline(text: str) -> str:
    bold = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", escape(text))
    return re.sub(r"&lt;u&gt;(.+?)&lt;/u&gt;", r"<u>\1</u>", bold)
