"""What pictures of several panels share: their size in print, and one legend below them."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pflrepro.errors import UserError
from pflrepro.style import COLUMN, PAGE, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LAST = ("published",)  # entries of a legend behind all others
TICKS = 6  # of an axis, at most
CHARACTER = 0.054  # inches of a character of the legend
LEGEND_LINE = 0.17  # inches
LABEL = 25  # characters of a line above or below one of three panels
LABEL_LINE = 0.13  # inches


def panels(
    count: int, height: float, labels: Sequence[str] = (), across: int = 3, wide: bool = False, **share: object
) -> tuple[Figure, list[Axes]]:
    """A figure with `count` panels, each `height` inches high, and room for a legend of `labels`.

    One panel is a column of text wide (`wide`: a page), several are a page wide, at most `across` beside each other, four in a square.
    """
    if count < 1:
        raise UserError("there is nothing to draw: no panel")
    across, width = _grid(count, across, wide)
    down = math.ceil(count / across)
    below = LEGEND_LINE * math.ceil(len(labels) / _columns(labels, width)) if labels else 0.0
    figure = new_figure(width, down * height + below)
    made = list(figure.subplots(down, across, squeeze=False, **share).flat)
    for panel in made[count:]:
        panel.remove()
    for panel in made[:count]:
        # Ticks whose number does not depend on a panel's size: the layout would leave room for others than are drawn.
        panel.locator_params(nbins=TICKS, steps=(1, 2, 5, 10))
    return figure, made[:count]


def filled(texts: Sequence[str], across: int = 3, wide: bool = False) -> tuple[list[str], float]:
    """Titles or labels of `panels`, one each, in lines that fit, and the inches that their further lines take."""
    beside, width = _grid(len(texts), across, wide)
    found = [textwrap.fill(text, int(3 * LABEL * width / PAGE / beside)) for text in texts]
    return found, LABEL_LINE * max((text.count("\n") for text in found), default=0)


def _grid(count: int, across: int, wide: bool) -> tuple[int, float]:
    """How many of `count` panels stand beside each other, and the figure's width in inches."""
    beside = 2 if count == 4 and across == 3 else max(1, min(across, count))
    return beside, PAGE if wide or count > 1 else COLUMN


def legend(figure: Figure, drawn: Sequence[Axes], least: int = 2) -> None:
    """One entry a label, those of all panels, below them; none where there are fewer than `least`."""
    found: dict[str, object] = {}
    for panel in drawn:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if len(found) >= least:
        found |= {label: found.pop(label) for label in LAST if label in found}
        columns = _columns(list(found), figure.get_figwidth())
        figure.legend(found.values(), found, loc="outside lower center", ncols=columns, columnspacing=1.2)


def _columns(labels: Sequence[str], width: float) -> int:
    return max(1, min(len(labels), int(width / (CHARACTER * (max(map(len, labels)) + 6)))))
