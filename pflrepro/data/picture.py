"""Pictures and pages of partitions: clients x classes as discs or as a map, sizes and counts as a notebook shows them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pflrepro.data.heterogeneity import heterogeneity, total_variation
from pflrepro.errors import UserError
from pflrepro.markup import facts, folded, records
from pflrepro.style import BLUE, COLUMN, PAGE, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection, QuadMesh
    from matplotlib.figure import Figure

LARGEST = 260.0  # area of the largest disc in square points
MOST_DISCS = 20  # clients or classes beyond which discs would be dust: the counts are a map
STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 10**9)  # between ticks
GAMMA = 0.5  # a map's darkness is the square root of the samples, as a disc's width is
ROWS, CLASSES = 100, 10  # clients and classes of a client that a page lists


def bubbles(counts: np.ndarray, title: str = "") -> Figure:
    """One disc a client and class, its area proportional to the samples; a map where clients or classes are more than 20.

    Args:
        counts: integers [clients, classes], at least one positive.
    """
    counts = _checked(counts)
    clients, labels = counts.shape
    with style():
        width = COLUMN if clients <= 10 else PAGE
        figure = new_figure(width, min(5.5, 0.8 + 0.2 * max(labels, 6)) + (0.2 if title else 0))
        panel = figure.subplots()
        if title:
            figure.suptitle(title, x=0.01, ha="left")
        drawn = draw(panel, counts)
        if crowded(counts):
            figure.colorbar(drawn, ax=panel, label="samples", fraction=0.06, pad=0.02)
        else:
            area = drawn.get_sizes().max() / counts.max()
            for example in _examples(int(counts.max())):
                panel.scatter([], [], s=example * area, color=BLUE, alpha=0.8, lw=0, label=f"{example:,}")
            figure.legend(loc="outside right center", title="samples", labelspacing=1.4)
    return figure


def plot_counts(counts: np.ndarray, ax: Axes | None = None, title: str = "") -> Axes:
    """The counts [clients, classes] on `ax`, or on new axes of pyplot, which a notebook shows at once."""
    counts = _checked(counts)
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(constrained_layout=True)[1]
    draw(ax, counts)
    ax.set_title(f"{title}{': ' if title else ''}the largest is {counts.max():,} samples of a client and class")
    return ax


def _checked(counts: np.ndarray) -> np.ndarray:
    counts = np.asarray(counts)
    if counts.ndim != 2 or counts.size == 0 or counts.min() < 0 or counts.max() <= 0:
        raise UserError(
            f"counts must be a table [clients, classes] of samples, some positive; got the shape {counts.shape}"
        )
    return counts


def crowded(counts: np.ndarray) -> bool:
    """Whether the counts are drawn as a map."""
    return max(counts.shape) > MOST_DISCS


def draw(panel: Axes, counts: np.ndarray) -> PathCollection | QuadMesh:
    """The counts and their axes: discs whose area, or a map whose squared darkness is proportional to the samples."""
    drawn = _map(panel, counts) if crowded(counts) else _discs(panel, counts)
    panel.set(xlabel="client", ylabel="class")
    for axis, size in zip((panel.xaxis, panel.yaxis), counts.shape, strict=True):
        axis.set_ticks(range(0, size, next(step for step in STEPS if size <= 10 * step)))
    return drawn


def _map(panel: Axes, counts: np.ndarray) -> QuadMesh:
    from matplotlib import colormaps
    from matplotlib.colors import ListedColormap, PowerNorm

    clients, labels = counts.shape
    edges = np.arange(clients + 1) - 0.5, np.arange(labels + 1) - 0.5
    blues = ListedColormap(colormaps["Blues"](np.linspace(0.12, 1, 256)))  # so that one sample is not as white as none
    panel.grid(False)
    panel.spines[["top", "right"]].set_visible(True)
    shown = np.ma.masked_equal(counts.T, 0)
    # As pixels also in a pdf: thousands of rectangles show seams.
    return panel.pcolormesh(*edges, shown, cmap=blues, norm=PowerNorm(GAMMA, 0, counts.max()), rasterized=True)


def _discs(panel: Axes, counts: np.ndarray) -> PathCollection:
    """The largest disc is somewhat wider than the spacing of clients and classes (their geometric mean), within bounds."""
    clients, labels = counts.shape
    client, label = np.nonzero(counts)
    box, points = panel.get_window_extent(), 72 / panel.figure.dpi
    width, height = box.width * points, box.height * points
    area = min(LARGEST, 1.5 * width * height / (clients * labels)) / counts.max()
    sizes = counts[client, label] * area
    # A thin white edge parts discs that overlap; the smallest would vanish under it.
    edges = {"edgecolors": "white", "linewidths": np.minimum(0.5, 0.05 * np.sqrt(sizes))}
    radius = np.sqrt(sizes.max() / np.pi)
    for limits, size, length in ((panel.set_xlim, clients, width), (panel.set_ylim, labels, height)):
        # Room for half of the largest disc beyond the first and the last; the axes' labels will take a part of the length.
        margin = max(0.6, radius * size / (0.8 * length - 2 * radius))
        limits(-margin, size - 1 + margin)
    return panel.scatter(client, label, s=sizes, color=BLUE, alpha=0.8, clip_on=False, zorder=3, **edges)


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

    Args:
        counts: samples [clients, classes].
        sizes: part ("training", "test") -> samples of each client.
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
    return facts(title, rows) + _clients_html(counts, parts, distances)


def _clients_html(counts: np.ndarray, parts: Mapping[str, np.ndarray], distances: np.ndarray) -> str:
    lines = []
    for client, row in enumerate(counts[:ROWS]):
        distance = "" if math.isnan(distances[client]) else f"{distances[client]:.3f}"
        sizes = {name: f"{part[client]:,}" for name, part in parts.items()}
        lines.append({"client": client, **sizes, "total variation": distance, "class: samples": _classes(row)})
    more = f"<p>and {len(counts) - ROWS:,} more clients</p>" if len(counts) > ROWS else ""
    return folded("clients", records(lines) + more, opened=len(counts) <= 20)


def _classes(row: np.ndarray) -> str:
    """`0: 67, 9: 7 and 3 more`: the most frequent classes of a client, in the order of the classes."""
    held = np.flatnonzero(row)
    shown = np.sort(held[np.argsort(-row[held], kind="stable")][:CLASSES])
    text = ", ".join(f"{label}: {row[label]:,}" for label in shown)
    return f"{text} and {len(held) - CLASSES} more" if len(held) > CLASSES else text
