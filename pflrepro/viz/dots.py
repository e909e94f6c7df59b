"""Numbers of a table as dots: ours beside the printed ones, one panel a column, one line a row."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pflrepro.errors import UserError
from pflrepro.style import GREY, style
from pflrepro.viz.looks import Look
from pflrepro.viz.panels import LABEL, filled, legend, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OURS, LESS, PRINTED = "ours", "ours, less than the paper's setting", "published"
INTERVAL = "95 % interval"
PALE = {"linewidth": 3.0, "alpha": 0.3}


@dataclass(frozen=True)
class Number:
    """What stands in one cell: ours and printed, NaN where there is none; their spreads; whether ours is at the paper's setting.

    Attributes:
        interval: (low, high) of ours where it has no spread, as of one seed.
    """

    row: str
    look: Look
    ours: float = math.nan
    spread: float = math.nan
    published: float = math.nan
    published_spread: float = math.nan
    full: bool = True
    interval: tuple[float, float] = (math.nan, math.nan)


@dataclass(frozen=True)
class NumberPanel:
    """The numbers of one column.

    Attributes:
        xlabel: the measure and its unit.
        unit: of the numbers; "": that of this label alone.
    """

    title: str
    xlabel: str
    numbers: tuple[Number, ...]
    unit: str = ""


def dot_figure(
    drawn: Sequence[NumberPanel], rows: Sequence[str], strong: Collection[str] = (), less: str = LESS
) -> Figure:
    """The panels; rows from the top as given, the labels of `strong` in bold. Filled: ours; hollow: ours at less than the paper's
    setting, which the legend calls `less`; grey bars: printed. Whiskers are spreads, pale lines intervals. Panels of one unit have
    one range, unless that shrinks one to less than half. `UserError` without a panel."""
    places = {row: len(rows) - 1 - place for place, row in enumerate(rows)}
    long = max(map(len, rows), default=0) > LABEL
    titles, above = filled([panel.title for panel in drawn], wide=long)
    xlabels, below = filled([panel.xlabel for panel in drawn], wide=long)
    with style():
        height = 0.75 + 0.15 * len(rows) + above + below
        figure, axes = panels(len(drawn), height, [OURS, less, PRINTED, INTERVAL], wide=long, sharey=True)
        for axis, panel, title, xlabel in zip(axes, drawn, titles, xlabels, strict=True):
            for number in panel.numbers:
                if number.row not in places:
                    raise UserError(f"a number of {number.row!r}, which is none of the rows: {', '.join(rows)}")
                _draw(axis, number, places[number.row])
            axis.set(title=title, xlabel=xlabel, ylim=(-0.6, len(rows) - 0.4))
            axis.grid(axis="y", visible=False)
            axis.margins(x=0.08)
            axis.set_yticks(list(places.values()), list(places))
            for label in axis.get_yticklabels():
                label.set_fontweight("bold" if label.get_text() in strong else "normal")
        _share(dict(zip(axes, (panel.unit or panel.xlabel for panel in drawn), strict=True)))
        _keys(axes[0], drawn, less)
        legend(figure, axes, least=1 if any(not each.full for panel in drawn for each in panel.numbers) else 2)
    return figure


def _share(units: Mapping[Axes, str]) -> None:
    """One range for the panels of one unit, so that they can be compared, where none gets too narrow to be read."""
    for unit in set(units.values()):
        alike = [axis for axis, its in units.items() if its == unit]
        ends = [axis.get_xlim() for axis in alike]
        low, high = min(end[0] for end in ends), max(end[1] for end in ends)
        if high - low <= 2 * min(end[1] - end[0] for end in ends):
            for axis in alike:
                axis.set_xlim(low, high)


def _draw(axis: Axes, number: Number, place: int) -> None:
    if not math.isnan(number.published):
        spread = 0.0 if math.isnan(number.published_spread) else number.published_spread
        how = {"marker": "|", "ms": 8, "mew": 1.4, "color": GREY, "elinewidth": 3.0, "alpha": 0.7}
        axis.errorbar(number.published, place, xerr=spread, ls="none", label=f"_{PRINTED}", zorder=2, **how)
    if not math.isnan(number.ours):
        ink, spread = (
            number.look.colour,
            whisker(number.spread),
        )  # not muted: the row has its name, thin lines must be seen
        how = {"fmt": number.look.marker, "color": ink, "mfc": ink if number.full else "white", "ms": 4.5, "mew": 0.8}
        if not math.isnan(number.interval[0]):
            axis.hlines(place, *number.interval, color=ink, capstyle="butt", zorder=1, **PALE)
        axis.errorbar(number.ours, place, xerr=spread, capsize=2, elinewidth=0.8, label="_ours", zorder=3, **how)


def whisker(spread: float) -> float | None:
    """The length of an error bar; None, no bar, where there is no spread, as of one seed."""
    return spread if spread > 0 else None


def _keys(axis: Axes, drawn: Sequence[NumberPanel], less: str) -> None:
    """Entries of the legend for what occurs."""
    numbers = [number for panel in drawn for number in panel.numbers]
    for label, fill, there in (
        (OURS, "black", any(not math.isnan(each.ours) and each.full for each in numbers)),
        (less, "white", any(not math.isnan(each.ours) and not each.full for each in numbers)),
    ):
        if there:
            axis.plot([], [], "o", ms=4.5, mew=0.8, color="black", mfc=fill, label=label)
    if any(not math.isnan(each.published) for each in numbers):
        axis.plot([], [], "|", ms=8, mew=1.4, color=GREY, label=PRINTED)
    if any(not math.isnan(each.interval[0]) for each in numbers):
        axis.plot([], [], color="black", label=INTERVAL, **PALE)
