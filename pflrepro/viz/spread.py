"""Values a client in groups, as box plots."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from pflrepro.errors import UserError
from pflrepro.style import new_figure, style

BOX, MEDIAN = "#0072B2", "#D55E00"


def boxes(panels: Mapping[str, Mapping[str, np.ndarray]], axis: str) -> Figure:
    """One panel beside the other, one box a group (left to right as given) with all its values as marks behind it.

    Args:
        panels: name -> group -> values [n].
        axis: what the values are. Groups of all panels share one list of names.
    """
    names = list(dict.fromkeys(group for groups in panels.values() for group in groups))
    if not names:
        raise UserError("there is no group of values to draw")
    with style():
        figure = new_figure(1.2 + len(panels) * (0.8 + 0.38 * len(names)), 3.8)
        row = figure.subplots(1, len(panels), squeeze=False, sharey=True, sharex=True)[0]
        for panel, (name, groups) in zip(row, panels.items(), strict=True):
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
        row[0].set_ylabel(axis)
    return figure
