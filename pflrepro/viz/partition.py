"""Pictures of artefacts that show partitions: clients x classes as bubbles, class shares as bars."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

from pflrepro.data.picture import COLOUR, bubbles, draw
from pflrepro.style import new_figure, style
from pflrepro.viz.captions import caption

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pflrepro.papers.partitions import Panel, PartitionResult

POOLED = "#7F7F7F"


def partition_bubbles(result: PartitionResult) -> Figure:
    """The partitions of an artefact: one with a legend of sizes, several as panels, each with bubbles of its own scale."""
    known = result.drawn
    head = f"{result.artefact.title}\n{caption(result)}"
    if len(result.panels) == 1:
        return bubbles(known[0].counts, head)
    across = min(4, len(result.panels))
    down = math.ceil(len(result.panels) / across)
    with style():
        figure = new_figure(3.4 * across, 0.7 + 3.4 * down)
        panels = figure.subplots(down, across, squeeze=False)
        for place, panel in enumerate(panels.flat):
            if place < len(result.panels):
                _titled(panel, result.panels[place])
            else:
                panel.set_visible(False)
        figure.suptitle(f"{head}; area in proportion to the samples, a scale a panel", x=0.01, ha="left")
    return figure


def _titled(panel: Axes, drawn: Panel) -> None:
    """One panel of several; where the data are not at hand, the reason in its place."""
    panel.set_title(drawn.column.label)
    if drawn.counts is None:
        panel.set(xticks=[], yticks=[])
        panel.text(0.5, 0.5, textwrap.fill(drawn.lacking, 32), ha="center", va="center", transform=panel.transAxes)
        return
    panel.set_title(f"{drawn.column.label}\nlargest bubble {drawn.counts.max():,} samples")
    draw(panel, drawn.counts)


def bars(result: PartitionResult) -> Figure:
    """Share of each class, all clients together and selected clients beside them: from the nearest to the farthest distribution."""
    from pflrepro.papers.partitions import shares

    percent = shares(result.drawn[0])
    names = [textwrap.shorten(str(name), 32, placeholder="...") for name in percent.index]
    with style():
        figure = new_figure(2.4 + 1.9 * len(percent.columns), 1.5 + 0.26 * len(names))
        panels = figure.subplots(1, len(percent.columns), sharex=True, sharey=True, squeeze=False)[0]
        for panel, column in zip(panels, percent.columns, strict=True):
            values = percent[column].to_numpy()
            panel.barh(range(len(names)), values, color=POOLED if panel is panels[0] else COLOUR, height=0.7)
            for place, value in enumerate(values):
                if value > 0:
                    panel.text(value + 1.5, place, f"{value:.1f}" if value >= 0.05 else "<0.1", va="center", fontsize=7)
            panel.set_title(column)
            panel.set_xlabel("samples (%)")
            panel.set_xlim(0, 118)
            panel.set_xticks([0, 50, 100])
        panels[0].set_yticks(range(len(names)), names)
        panels[0].invert_yaxis()
        note = "in brackets: total variation to all"
        figure.suptitle(f"{result.artefact.title}\n{caption(result)}; {note}", x=0.01, ha="left")
    return figure
