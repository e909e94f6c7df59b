"""Several partitions in one picture: clients x classes, as discs or as maps."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pflrepro.data.picture import bubbles, draw
from pflrepro.style import style
from pflrepro.viz.panels import panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def count_figure(drawn: Sequence[tuple[str, np.ndarray | None, str]]) -> Figure:
    """One panel a partition: (label, counts [clients, classes], why there are none); a single one has a legend of sizes.

    Every panel has a scale of its own, its largest count stands in its title.
    """
    if len(drawn) == 1 and drawn[0][1] is not None:
        return bubbles(drawn[0][1])
    with style():
        figure, axes = panels(len(drawn), 2.0)
        for axis, (label, counts, _) in zip(axes, drawn, strict=True):
            axis.set_title(label + ("" if counts is None else f"\nlargest {counts.max():,} samples"))
            axis.set(xlabel="client", ylabel="class")
        figure.draw_without_rendering()  # discs are as large as the panels that the labels leave
        for axis, (_, counts, lacking) in zip(axes, drawn, strict=True):
            if counts is None:
                axis.set(xticks=[], yticks=[])
                axis.text(0.5, 0.5, textwrap.fill(lacking, 28), ha="center", va="center", transform=axis.transAxes)
            else:
                draw(axis, counts)
    return figure
