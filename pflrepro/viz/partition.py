"""Pictures and pages of partitions: clients x classes as bubbles, class shares as bars, sizes and counts as a notebook shows them."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from pflrepro.errors import UserError
from pflrepro.viz.captions import caption
from pflrepro.viz.style import new_figure, style

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pflrepro.papers.partitions import Panel, PartitionResult

COLOUR = "#0072B2"
POOLED = "#7F7F7F"
LARGEST = 260.0  # area of the largest bubble in square points
SMALLEST = 6.0  # the same where clients and classes are many
MOST_VECTORS = 500  # bubbles beyond which a panel is drawn as pixels in a pdf
ROWS, CLASSES = 100, 10  # clients and classes of a client that a page lists


def bubbles(counts: np.ndarray, title: str = "") -> Figure:
    """One bubble a client and class, its area proportional to the samples.

    `counts`: integers [clients, classes], at least one positive.
    """
    counts = _checked(counts)
    clients, labels = counts.shape
    with style():
        figure = new_figure(min(10.0, 2.4 + 0.36 * max(clients, 8)), min(9.0, 1.6 + 0.32 * max(labels, 5)))
        panel = figure.subplots()
        area = _draw(panel, counts)
        if title:
            figure.suptitle(title, x=0.01, ha="left")
        for example in _examples(int(counts.max())):
            panel.scatter([], [], s=example * area, color=COLOUR, alpha=0.8, lw=0, label=f"{example:,}")
        figure.legend(loc="outside right center", title="samples", labelspacing=1.4)
    return figure


def plot_counts(counts: np.ndarray, ax: Axes | None = None, title: str = "") -> Axes:
    """The bubbles of `counts` [clients, classes] on `ax`, or on new axes of pyplot, which a notebook shows at once."""
    counts = _checked(counts)
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(constrained_layout=True)[1]
    _draw(ax, counts)
    ax.set_title(f"{title}{': ' if title else ''}largest bubble {counts.max():,} samples")
    return ax


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
    _draw(panel, drawn.counts)


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


def _checked(counts: np.ndarray) -> np.ndarray:
    import numpy as np

    counts = np.asarray(counts)
    if counts.ndim != 2 or counts.size == 0 or counts.min() < 0 or counts.max() <= 0:
        raise UserError(
            f"counts must be a table [clients, classes] of samples, some positive; got the shape {counts.shape}"
        )
    return counts


def _draw(panel: Axes, counts: np.ndarray) -> float:
    """The bubbles and their axes; returns a sample's area in square points.

    The largest bubble is somewhat wider than the spacing of clients and classes (their geometric mean), within bounds, so that 20
    clients x 200 classes stay readable.
    """
    import numpy as np

    clients, labels = counts.shape
    client, label = np.nonzero(counts)
    box, points = panel.get_window_extent(), 72 / panel.figure.dpi
    width, height = box.width * points, box.height * points
    area = min(LARGEST, max(SMALLEST, 2 * width * height / (clients * labels))) / counts.max()
    many = len(client) > MOST_VECTORS
    sizes = counts[client, label] * area
    # A thin white edge parts bubbles that overlap; the smallest would vanish under it.
    edges = {"edgecolors": "white", "linewidths": np.minimum(0.5, 0.05 * np.sqrt(sizes))}
    panel.scatter(client, label, s=sizes, color=COLOUR, alpha=0.8, rasterized=many, **edges)
    panel.set_xlabel("client")
    panel.set_ylabel("class")
    panel.set_xlim(-0.8, clients - 0.2)
    panel.set_ylim(-0.8, labels - 0.2)
    if clients <= 30:
        panel.set_xticks(range(0, clients, 1 if clients * 16 <= width else 5))
    if labels <= 30:
        panel.set_yticks(range(labels))
    return area


def _examples(largest: int) -> list[int]:
    """Up to three round numbers for the size legend: about the largest, a half and a tenth of it."""
    found = []
    for share in (1.0, 0.5, 0.1):
        value = largest * share
        digits = 10 ** max(len(str(int(value))) - 1, 0)
        rounded = int(value // digits * digits)
        if rounded and rounded not in found:
            found.append(rounded)
    return found


# ---- pages -------------------------------------------------------------------------------------------------------------------


def counts_html(title: str, counts: np.ndarray, sizes: Mapping[str, Sequence[int]]) -> str:
    """A partition as a notebook shows it: sizes, classes a client, heterogeneity, and a line a client (the first 100).

    `counts`: samples [clients, classes]; `sizes`: part ("training", "test") -> samples of each client.
    """
    import numpy as np

    from pflrepro.data.heterogeneity import heterogeneity, total_variation

    counts = np.asarray(counts)
    each, held, distances = counts.sum(1), (counts > 0).sum(1), total_variation(counts)
    known = distances[~np.isnan(distances)]
    parts = {name: np.asarray(values) for name, values in sizes.items() if np.sum(values)}
    rows = {
        "clients, classes": f"{len(counts):,}, {counts.shape[1]:,}",
        "samples": f"{each.sum():,} ({', '.join(f'{values.sum():,} {name}' for name, values in parts.items())})",
        "samples a client": f"{each.min():,} to {each.max():,}, median {np.median(each):,.0f}",
        "classes a client": f"{held.min()} to {held.max()}, mean {held.mean():.1f}",
    }
    if len(known):
        rows["total variation"] = f"mean {heterogeneity(counts):.3f} ({known.min():.3f} to {known.max():.3f})"
    body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows.items())
    return f"<table><caption>{escape(title)}</caption>{body}</table>{_clients_html(counts, parts, distances)}"


def _clients_html(counts: np.ndarray, parts: Mapping[str, np.ndarray], distances: np.ndarray) -> str:
    header = "".join(f"<th>{escape(name)}</th>" for name in ("client", *parts, "total variation", "class: samples"))
    lines = []
    for client, row in enumerate(counts[:ROWS]):
        distance = "" if math.isnan(distances[client]) else f"{distances[client]:.3f}"
        values = (str(client), *(f"{part[client]:,}" for part in parts.values()), distance, _classes(row))
        lines.append("<tr>" + "".join(f"<td>{value}</td>" for value in values) + "</tr>")
    more = f"<p>and {len(counts) - ROWS:,} more clients</p>" if len(counts) > ROWS else ""
    return (
        f"<details{' open' if len(counts) <= 20 else ''}><summary>clients</summary>"
        f"<table><tr>{header}</tr>{''.join(lines)}</table>{more}</details>"
    )


def _classes(row: np.ndarray) -> str:
    """`0: 67, 9: 7 and 3 more`: the most frequent classes of a client, in the order of the classes."""
    import numpy as np

    held = np.flatnonzero(row)
    shown = np.sort(held[np.argsort(-row[held], kind="stable")][:CLASSES])
    text = ", ".join(f"{label}: {row[label]:,}" for label in shown)
    return f"{text} and {len(held) - CLASSES} more" if len(held) > CLASSES else text
