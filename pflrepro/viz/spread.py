"""Values a client in groups, as box plots."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from pflrepro.errors import UserError
from pflrepro.style import BLUE, VERMILION, style
from pflrepro.viz.panels import panels

BOX, MEDIAN = BLUE, VERMILION


def boxes(drawn: Mapping[str, Mapping[str, np.ndarray]], axis: str) -> Figure:
    """One panel below the other, one box a group (left to right as given) with all its values as marks behind it; a page wide.

    Args:
        drawn: panel -> group -> values [n].
        axis: what the values are. Groups of all panels share one list of names.
    """
    names = list(dict.fromkeys(group for groups in drawn.values() for group in groups))
    if not names:
        raise UserError("there is no group of values to draw")
    with style():
        figure, axes = panels(len(drawn), 2.5, across=1, wide=True, sharey=True)
        for panel, (name, groups) in zip(axes, drawn.items(), strict=True):
            places = [names.index(group) for group in groups]
            look = {"color": BOX, "lw": 1.0}
            for place, values in zip(places, groups.values(), strict=True):
                panel.plot(np.full(len(values), place), values, "_", color=BOX, alpha=0.35, ms=9)
            looks = dict.fromkeys(("boxprops", "whiskerprops", "capprops"), look)
            looks["medianprops"] = {"color": MEDIAN, "lw": 1.6}
            panel.boxplot(list(groups.values()), positions=places, widths=0.6, showfliers=False, **looks)
            panel.set_title(name)
            panel.set_xticks(range(len(names)), names, rotation=40, ha="right", rotation_mode="anchor")
            panel.set_xlim(-0.6, len(names) - 0.4)
            panel.set_ylabel(textwrap.fill(axis, 30))
    return figure
