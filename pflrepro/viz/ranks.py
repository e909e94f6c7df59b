"""The critical-difference picture: mean ranks on a line, methods that do not differ significantly joined by a bar (Demšar 2006)."""

from __future__ import annotations

import textwrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pflrepro.metrics.ranks import Ranks
from pflrepro.style import new_figure, style

INK, BAR = "#222222", "#D55E00"
ROW = 0.24  # inches a line of labels
WIDTH = 7.2  # inches
CHARACTERS = int(13 * WIDTH)  # of the caption on a line


def critical_difference(ranks: Ranks, title: str = "") -> Figure:
    """Mean ranks from 1 (left, the best) to k; each method with its label, the better half on the left.

    Above the axis the critical difference, below it a bar over every group of methods within it (`ranks.groups`). The caption names the
    data sets, Friedman's p, and what was left out for missing cells. Where Friedman's p is above alpha the bars are not warranted.
    """
    lines = (len(ranks.methods) + 1) // 2
    with style():
        figure = new_figure(WIDTH, 1.5 + 0.14 * len(ranks.groups) + ROW * lines)
        panel = figure.subplots()
        _axis(panel, ranks)
        lowest = _bars(panel, ranks)
        _labels(panel, ranks, lowest)
        text = [line for part in (title, _caption(ranks)) for line in textwrap.wrap(part, CHARACTERS)]
        figure.suptitle("\n".join(text), x=0.01, ha="left")
    return figure


def _axis(panel: Axes, ranks: Ranks) -> None:
    """The line of ranks at height 0, and above it the length of the critical difference."""
    k = len(ranks.methods)
    panel.axis("off")
    panel.set_xlim(1 - 0.35 * (k - 1), k + 0.35 * (k - 1))
    panel.plot([1, k], [0, 0], color=INK, lw=1.2, label="ranks")
    for rank in range(1, k + 1):
        panel.plot([rank, rank], [0, 0.25], color=INK, lw=1.0)
        if k <= 15 or rank == 1 or rank % 5 == 0:  # more numbers would run into each other
            panel.text(rank, 0.4, str(rank), ha="center", va="bottom")
    length = min(ranks.critical_difference, k - 1)
    panel.plot([1, 1 + length], [1.7, 1.7], color=BAR, lw=1.6, marker="|", label="critical difference")
    longer = "" if length == ranks.critical_difference else " (longer than the axis)"
    panel.text(1, 1.9, f"critical difference {ranks.critical_difference:.2f}{longer}", color=BAR, va="bottom")


def _bars(panel: Axes, ranks: Ranks) -> float:
    """The bars of the groups; how deep they reach."""
    where = dict(zip(ranks.methods, ranks.mean.tolist(), strict=True))
    margin = 0.012 * (len(ranks.methods) - 1)
    depth = -0.35
    for group in ranks.groups:
        ends = [where[method] for method in group]
        panel.plot([min(ends) - margin, max(ends) + margin], [depth, depth], color=BAR, lw=3.0, label="group")
        depth -= 0.45
    return depth


def _labels(panel: Axes, ranks: Ranks, lowest: float) -> None:
    """A line from each mean rank down and out to the method's name."""
    k = len(ranks.methods)
    order = sorted(range(k), key=lambda i: (ranks.mean[i], i))
    half = (k + 1) // 2
    left, right = 1 - 0.04 * (k - 1), k + 0.04 * (k - 1)
    for place, i in enumerate(order):
        on_left = place < half
        depth = lowest - 0.55 - (place if on_left else k - 1 - place)
        x, edge = float(ranks.mean[i]), left if on_left else right
        panel.plot([x, x, edge], [0, depth, depth], color=INK, lw=0.8, label=ranks.methods[i])
        text = f"{ranks.methods[i]}  {x:.2f}" if on_left else f"{x:.2f}  {ranks.methods[i]}"
        panel.text(edge, depth, f"{text} " if on_left else f" {text}", ha="right" if on_left else "left", va="center")
    panel.set_ylim(lowest - 0.55 - half, 2.9)


def _caption(ranks: Ranks) -> str:
    told = [f"mean ranks over {len(ranks.datasets)} {ranks.blocks}; Friedman p = {ranks.p:.2g}"]
    if ranks.p > ranks.alpha:
        told.append(f"no significant difference at {ranks.alpha:g}")
    dropped = [*ranks.dropped_methods, *ranks.dropped_datasets]
    if dropped:
        told.append("left out for missing cells: " + ", ".join(dropped))
    return "; ".join(told)
