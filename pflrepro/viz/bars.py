"""Bars: numbers of a table, and the share of every class."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pflrepro.errors import UserError
from pflrepro.style import BLACK, BLUE, GREY, style
from pflrepro.viz.dots import NumberPanel, whisker
from pflrepro.viz.panels import filled, legend, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACROSS = 5  # panels of shares beside each other
TITLES = 80  # characters of all their titles on a line


def bar_figure(drawn: Sequence[NumberPanel], strong: Collection[str] = ()) -> Figure:
    """One panel each, a bar a row from the top, its number behind it; pale and hatched: less than the paper's setting; a dashed line
    across: printed; "not run" where there is neither. Bars begin at zero. `UserError` without a panel."""
    most = max((len(panel.numbers) for panel in drawn), default=0)
    printed = any(not math.isnan(each.published) for panel in drawn for each in panel.numbers)
    with style():
        titles, above = filled([panel.title for panel in drawn], across=2)
        xlabels, below = filled([panel.xlabel for panel in drawn], across=2)
        figure, axes = panels(len(drawn), 0.7 + 0.2 * most + above + below, ["published"] if printed else [], 2)
        for axis, panel, title, xlabel in zip(axes, drawn, titles, xlabels, strict=True):
            ends = [0.0]
            for place, each in enumerate(panel.numbers):
                spread = 0.0 if math.isnan(each.spread) else each.spread
                fill = {"color": each.look.ink} if each.full else {"fc": "white", "ec": each.look.ink, "hatch": "////"}
                if not math.isnan(each.ours):
                    axis.barh(place, each.ours, height=0.7, label=f"_{each.row}", **fill)
                    axis.errorbar(each.ours, place, xerr=whisker(spread), color=BLACK, capsize=2, elinewidth=0.8)
                    end = np.nanmax([each.ours + spread, each.published])
                    text = f"{each.ours:,.0f}" if abs(each.ours) >= 1000 else f"{each.ours:.3g}"
                    axis.annotate(text, (max(end, 0.0), place), (4, 0), **_BESIDE)
                    ends += [each.ours - spread, end]
                elif math.isnan(each.published):
                    axis.annotate("not run", (0.0, place), (4, 0), color=GREY, **_BESIDE)
                if not math.isnan(each.published):
                    axis.plot([each.published] * 2, [place - 0.45, place + 0.45], "--", color=BLACK, lw=1, label="_")
                    ends.append(each.published)
            axis.set_yticks(range(len(panel.numbers)), [each.row for each in panel.numbers])
            for label in axis.get_yticklabels():
                label.set_fontweight("bold" if label.get_text() in strong else "normal")
            axis.set(title=title, xlabel=xlabel, xlim=(1.18 * min(ends), 1.18 * max(ends) or -0.18 * min(ends) or 1.0))
            axis.grid(axis="y", visible=False)
            axis.set_ylim(len(panel.numbers) - 0.5, -0.5)
        if printed:
            axes[0].plot([], [], "--", color=BLACK, lw=1, label="published")
            axes[0].plot([], [], "s", color=GREY, label="ours")
        legend(figure, axes)
    return figure


_BESIDE = {"textcoords": "offset points", "va": "center", "fontsize": 7}


def share_figure(
    columns: Mapping[str, np.ndarray], names: Sequence[str], xlabel: str, compared: bool = False
) -> Figure:
    """Percent of every class, one panel a title.

    `UserError` where the lengths differ.

    Args:
        columns: title -> [C] percent, NaN where there is none.
        names: of the C classes.
        compared: whether the first is grey, as what the others are compared with.
    """
    from matplotlib.ticker import MaxNLocator

    if not columns or any(np.shape(values) != (len(names),) for values in columns.values()):
        shapes = [list(np.shape(values)) for values in columns.values()]
        raise UserError(f"shares are one number a class, of {len(names)} classes, not of the shapes {shapes}")
    shown = [textwrap.shorten(str(name), 32, placeholder="...") for name in names]
    size = min(7.0, 0.6 + 0.17 * len(names))
    most = max(float(np.nan_to_num(values).max()) for values in columns.values()) or 1.0
    with style():
        figure, axes = panels(len(columns), size, across=ACROSS, wide=True, sharex=True, sharey=True)
        for axis, (title, values) in zip(axes, columns.items(), strict=True):
            axis.barh(range(len(shown)), values, color=GREY if compared and axis is axes[0] else BLUE, height=0.7)
            for place, value in enumerate(values):
                if value > 0:
                    axis.annotate(f"{value:.1f}" if value >= 0.05 else "<0.1", (value, place), (3, 0), **_BESIDE)
            axis.set(title=textwrap.fill(title, TITLES // len(axes)), xlabel=xlabel, xlim=(0, 1.45 * most))
            axis.xaxis.set_major_locator(MaxNLocator(3))
            axis.grid(axis="y", visible=False)
        axes[0].set_yticks(range(len(shown)), shown)
        axes[0].set_ylim(len(shown) - 0.5, -0.5)
    return figure
