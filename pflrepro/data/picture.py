"""Pictures and pages of partitions: clients x classes as bubbles, sizes and counts as a notebook shows them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from pflrepro.data.heterogeneity import heterogeneity, total_variation
from pflrepro.errors import UserError
from pflrepro.style import new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOUR = "#0072B2"
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
        area = draw(panel, counts)
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
    draw(ax, counts)
    ax.set_title(f"{title}{': ' if title else ''}largest bubble {counts.max():,} samples")
    return ax


def _checked(counts: np.ndarray) -> np.ndarray:
    counts = np.asarray(counts)
    if counts.ndim != 2 or counts.size == 0 or counts.min() < 0 or counts.max() <= 0:
        raise UserError(
            f"counts must be a table [clients, classes] of samples, some positive; got the shape {counts.shape}"
        )
    return counts


def draw(panel: Axes, counts: np.ndarray) -> float:
    """The bubbles and their axes; returns a sample's area in square points.

    The largest bubble is somewhat wider than the spacing of clients and classes (their geometric mean), within bounds, so that 20
    clients x 200 classes stay readable.
    """
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
    held = np.flatnonzero(row)
    shown = np.sort(held[np.argsort(-row[held], kind="stable")][:CLASSES])
    text = ", ".join(f"{label}: {row[label]:,}" for label in shown)
    return f"{text} and {len(held) - CLASSES} more" if len(held) > CLASSES else text
