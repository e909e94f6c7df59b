"""Lines in panels: curves over rounds or seconds, and measures over a setting."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from pflrepro.errors import UserError
from pflrepro.style import GREY, style
from pflrepro.viz.looks import Look
from pflrepro.viz.panels import filled, legend, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MANY = 6  # lines beyond which a single panel is as wide as a page
MARKS = 6  # markers along a curve
LONG = 10  # tests from which on a curve's axis leaves out its first ascent
MARGIN = 10.0  # percent points below the poorest line's best


@dataclass(frozen=True, eq=False)
class Line:
    """A curve; NaN leaves a gap.

    Attributes:
        x, y, spread: float64 [E].
        published: float64 [E], printed beside y, drawn dashed.
    """

    label: str
    x: np.ndarray
    y: np.ndarray
    look: Look
    spread: np.ndarray | None = None
    published: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class LinePanel:
    """One panel.

    Attributes:
        zoom: the y axis of long curves shows where they end, not how they rise.
        log: x in powers of ten.
    """

    title: str
    xlabel: str
    ylabel: str
    lines: tuple[Line, ...]
    zoom: bool = False
    log: bool = False


def line_figure(drawn: Sequence[LinePanel], measured: bool = False, across: int = 3, wide: bool = False) -> Figure:
    """The panels with one legend.

    `UserError` without a line.

    Args:
        measured: x are single settings, every one marked, with whiskers in place of a band.
        wide: a single panel is as wide as a page, and higher: for a screen.
    """
    labels = list(dict.fromkeys(line.label for panel in drawn for line in panel.lines))
    if not labels:
        raise UserError("there is no curve to draw")
    height = 2.8 if wide and len(drawn) == 1 else 2.1
    wide = wide or len(labels) > MANY
    titles, above = filled([panel.title for panel in drawn], across, wide)
    with style():
        figure, axes = panels(len(drawn), height + above, labels, across, wide)
        for axis, panel, title in zip(axes, drawn, titles, strict=True):
            # The first line of a panel is plain where its colour tells it from the others.
            inks = [line.look.ink for line in panel.lines]
            for place, line in enumerate(panel.lines):
                marked = place > 0 or inks.count(inks[0]) > 1
                _draw(axis, line, place, len(panel.lines), measured, marked)
            axis.set(title=title, xlabel=panel.xlabel, ylabel=textwrap.fill(panel.ylabel, 24))
            if panel.log:
                axis.set_xscale("log")
            elif panel.xlabel == "round":
                axis.xaxis.get_major_locator().set_params(integer=True)
            if measured:
                _ticks(axis, panel)
            if panel.zoom:
                axis.set_ylim(*window(panel.lines))
            if any(line.published is not None for line in panel.lines):
                axis.plot([], [], "--", color=GREY, lw=0.8, label="published")
        legend(figure, axes)
    return figure


def _draw(axis: Axes, line: Line, place: int, count: int, measured: bool, marked: bool) -> None:
    spread = np.zeros_like(line.y) if line.spread is None else np.nan_to_num(line.spread)
    if measured:
        bars = {"yerr": spread, "capsize": 2, "elinewidth": 0.8} if spread.any() else {"yerr": None}
        axis.errorbar(line.x, line.y, marker=line.look.marker, label=line.label, **line.look.line, **bars)
    else:
        step = max(1, len(line.x) // MARKS)
        # Each line has its markers at other places: they can be told apart in grey.
        marks = {"marker": line.look.marker, "markevery": (place * step // count, step)} if marked else {}
        axis.plot(line.x, line.y, label=line.label, **line.look.line, **marks)
        if spread.any():
            band = {"color": line.look.ink, "alpha": 0.15, "lw": 0}
            axis.fill_between(line.x, line.y - spread, line.y + spread, **band)
    if line.published is not None:
        axis.plot(line.x, line.published, "--", color=line.look.ink, lw=0.8, label="_published")


def _ticks(axis: Axes, panel: LinePanel) -> None:
    """A tick at every setting, where they are few."""
    from matplotlib.ticker import NullLocator

    x = np.unique(np.concatenate([line.x for line in panel.lines]))
    if len(x) <= 8:
        axis.xaxis.set_minor_locator(NullLocator())
        axis.set_xticks(x, [f"{value:g}" for value in x])


def window(lines: Sequence[Line]) -> tuple[float | None, float | None]:
    """The ends of the y axis: from below the poorest line's best, or where it ends, where the curves are long, to above all.

    Example, lines that reach 50 and 80 in 10 tests:
        >>> x = np.arange(10.0)
        >>> window([Line("a", x, 50 * x / 9, None), Line("b", x, 80 * x / 9, None)])
        (40.0, 82.0)

    and one that falls from 41 to 18:
        >>> window([Line("a", x, 41 - 23 * x / 9, None), Line("b", x, 80 * x / 9, None)])[0]
        8.0
    """
    known = [line for line in lines if np.isfinite(line.y).any()]
    if not known or max(len(line.x) for line in known) < LONG:
        return None, None
    levels = [line.published for line in known if line.published is not None and np.isfinite(line.published).any()]
    ends = [float(np.nanmax(values)) for values in [*(line.y for line in known), *levels]]
    lasts = [float(line.y[np.isfinite(line.y)][-1]) for line in known]  # a method that collapses stays in view
    low = max(0.0, min(*ends, *lasts) - MARGIN)
    return low, max(ends) + 0.05 * (max(ends) - low)


def at_common_rounds(rounds: Sequence[np.ndarray], *curves: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Of each of `curves`, one array [E_s] a seed, what it has at the rounds that all seeds were tested after: [S, E].

    Where one seed ends before another, a mean over those left would jump to the level of those that go on.

    Example:
        >>> at_common_rounds([np.array([0, 1, 2]), np.array([0, 2])], [np.array([1, 5, 9]), np.array([2, 8])])[0].tolist()
        [[1, 9], [2, 8]]
    """
    common = reduce(np.intersect1d, rounds)
    places = [np.isin(tested, common) for tested in rounds]
    return [np.array([each[there] for each, there in zip(curve, places, strict=True)]) for curve in curves]


def smoothed(values: np.ndarray, width: int) -> np.ndarray:
    """The mean of `width` values around each, of fewer at the ends; NaN stays NaN and counts nowhere.

    Example:
        >>> smoothed(np.array([1.0, 3.0, 5.0, 5.0]), 3).tolist()
        [2.0, 3.0, 4.333333333333333, 5.0]
    """
    if width < 1 or width % 2 == 0:
        raise UserError(f"a curve is smoothed over an odd number of tests, 1 at least, not {width}")
    there, ones = np.isfinite(values), np.ones(width)
    total = np.convolve(np.where(there, values, 0.0), ones)[width // 2 : width // 2 + len(values)]
    count = np.convolve(there.astype(float), ones)[width // 2 : width // 2 + len(values)]
    return np.where(there, total / np.maximum(count, 1), np.nan)


def mean_and_spread(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and population standard deviation over seeds [S, E] -> [E], over those that have a value; NaN where none has."""
    there = np.isfinite(values)
    count, safe = there.sum(0), np.maximum(there.sum(0), 1)
    mean = np.where(there, values, 0.0).sum(0) / safe
    spread = np.sqrt((np.where(there, values - mean, 0.0) ** 2).sum(0) / safe)
    return np.where(count > 0, mean, np.nan), np.where(count > 0, spread, np.nan)
