"""The pieces that the page of the score card is made of, as HTML: tables, verdicts, small curves."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from pflrepro.experiments.runs import Runs
from pflrepro.papers.judging import BROKEN, KEPT, RISING, UNDECIDED
from pflrepro.papers.result import DIFFERS, EQUAL, NOT_RUN, WITHIN, marked
from pflrepro.papers.texts import mean_and_spread

if TYPE_CHECKING:
    from pflrepro.experiments.result import Run

POINTS = 80  # of a drawn curve, at most
TONES = {  # a verdict's colour, beside its mark
    **dict.fromkeys((KEPT, f"ordering {KEPT}", WITHIN, EQUAL), "good"),
    **dict.fromkeys((BROKEN, f"ordering {BROKEN}", DIFFERS), "bad"),
    **dict.fromkeys((UNDECIDED, RISING, f"ordering {UNDECIDED}", f"ordering {RISING}"), "open"),
    NOT_RUN: "none",
}
_MINUS = str.maketrans("-", "\u2212")
_NUMBER = re.compile(r"(&lt; )?[+\u2212]?\d[\d.,]*( (\u00b1|to) \u2212?[\d.,]+)?( <small>.*</small>)?")


def table(head: Sequence[str], lines: Iterable[Sequence[str]], kind: str = "") -> str:
    """A table of HTML texts without its empty columns; a column stands to the right where all its texts are numbers."""
    columns = [(name, texts) for name, texts in zip(head, zip(*lines, strict=True), strict=True) if any(texts)]
    kinds = [_kind(texts) for _, texts in columns]
    top = "".join(f"<th{kind}>{name}</th>" for (name, _), kind in zip(columns, kinds, strict=True))
    rows = zip(*(texts for _, texts in columns), strict=True)
    cells = (zip(row, kinds, strict=True) for row in rows)
    body = "".join(f"<tr>{''.join(f'<td{kind}>{text}</td>' for text, kind in row)}</tr>" for row in cells)
    return f'<div class="wide"><table class="{kind}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _kind(texts: Sequence[str]) -> str:
    given = [text for text in texts if text]
    return ' class="number"' if given and all(map(_NUMBER.fullmatch, given)) else ""


def verdict(word: str, title: str = "") -> str:
    """A verdict behind its mark, in its colour; `title`: what it means."""
    said = f' title="{escape(title)}"' if title else ""
    return f'<span class="{TONES.get(word, "plain")}"{said}>{escape(marked(word))}</span>'


def details(summary: str, content: str, open: bool = False) -> str:
    """What can be folded away."""
    return f"<details{' open' if open else ''}><summary>{summary}</summary>{content}</details>"


def link(address: str, text: str) -> str:
    """A link; `text` is HTML."""
    return f'<a href="{escape(address)}">{text}</a>'


def small(text: str) -> str:
    """What stands beside a text, smaller; nothing for nothing."""
    return f" <small>{escape(text)}</small>" if text else ""


def value(mean: float, spread: float = math.nan, sign: bool = False) -> str:
    """A number with its spread: whole ones from 1,000 on without decimals, those below 0.1 with four, others with two."""
    if math.isnan(mean):
        return ""
    whole = abs(mean) >= 1000 and mean == round(mean)
    digits = 0 if whole else 4 if mean and abs(round(mean, 2)) < 0.1 else 2
    plus = "+" if sign and mean > 0 else ""
    return plus + mean_and_spread(mean, spread, digits).translate(_MINUS)


def as_printed(mean: float, spread: float) -> str:
    """A published number with its spread, with no digit that is not printed: `11.4 ± 4`."""
    if math.isnan(mean):
        return ""
    return " ± ".join(f"{each:.10g}" for each in (mean, spread) if not math.isnan(each)).translate(_MINUS)


def curve(runs: Sequence[Run], width: int, height: int, rounds: float = math.inf) -> str:
    """The accuracies of runs over `rounds`, one line a run, in a small picture from their smallest to their largest; or nothing."""
    if not runs:
        return ""
    shown = [run.history["round"] <= rounds for run in runs]
    tested = [run.history["round"][there] for run, there in zip(runs, shown, strict=True)]
    curves = [run.curve[there] for run, there in zip(runs, shown, strict=True)]
    every = np.concatenate(curves)
    low, high, last = float(np.nanmin(every)), float(np.nanmax(every)), max(int(each[-1]) for each in tested)
    lines = []
    for at, values in zip(tested, curves, strict=True):
        places = np.unique(np.linspace(0, len(values) - 1, POINTS).astype(int))
        x = 1 + (width - 2) * at[places] / max(last, 1)
        y = height - 1 - (height - 2) * (values[places] - low) / ((high - low) or 1.0)
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True) if math.isfinite(b))
        lines.append(f'<polyline points="{points}"/>')
    said = f"{Runs(runs).measured} from {100 * low:.1f} to {100 * high:.1f} % over {last} rounds"
    size = f'width="{width}" height="{height}"'
    return f'<svg class="curve" {size} role="img" aria-label="{said}"><title>{said}</title>{"".join(lines)}</svg>'
