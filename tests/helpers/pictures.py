"""What every printed picture keeps to."""

from __future__ import annotations

import itertools
from typing import Any

from matplotlib.figure import Figure
from matplotlib.text import Text

from pflrepro.style import COLUMN, PAGE, style

LEAST = 7.0  # points of type


def check_print(figure: Figure) -> None:
    """As wide as a column or a page, no title, no type below 7 points, nothing cut, no ticks over each other, nor titles or labels."""
    assert figure.get_figwidth() in (COLUMN, PAGE)
    assert figure.get_suptitle() == ""
    with style():
        figure.draw_without_rendering()
    page = figure.bbox.padded(1.5)
    for text in figure.findobj(Text):
        if text.get_visible() and text.get_text().strip():
            assert text.get_fontsize() >= LEAST, text
    beside = [text for panel in figure.axes for text in (panel._left_title, panel.xaxis.label) if text.get_text()]
    for one, other in itertools.combinations(beside, 2):
        assert not one.get_window_extent().overlaps(other.get_window_extent()), (one.get_text(), other.get_text())
    for panel in figure.axes:
        assert panel.get_tightbbox().xmin >= page.xmin and panel.get_tightbbox().xmax <= page.xmax
        for axis in (panel.xaxis, panel.yaxis):
            low, high = sorted(axis.get_view_interval())
            shown = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
            boxes = [tick.label1.get_window_extent() for tick in shown if tick.label1.get_visible()]
            assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2)), (
                axis.get_label_text()
            )
        titles = [panel.title, panel._left_title, *([panel.yaxis.label] if panel.get_ylabel() else [])]
        boxes = [title.get_window_extent() for title in titles if title.get_text()]
        assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2)), panel.get_ylabel()


def panel_title(panel: Any) -> str:
    return panel.get_title(loc="left")


def labels(figure: Figure) -> list[str]:
    """The entries of the legend."""
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def lines(panel: Any) -> dict[str, Any]:
    """Label -> the line of a panel, without what only stands in the legend."""
    return {line.get_label(): line for line in panel.lines if len(line.get_xdata())}
