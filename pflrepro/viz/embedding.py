"""Features in a plane (t-SNE), still and moving, and what local classifiers predict."""

from __future__ import annotations

import io
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from matplotlib import colormaps
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize, to_rgba_array
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from pflrepro.atomic import replacing
from pflrepro.errors import UserError, check_range
from pflrepro.metrics.representations import Features
from pflrepro.style import COLUMN, PAGE, VERMILION, new_figure, style

SHAPES = "osD^v<>PXph*8d"
# Petroff, Accessible color sequences for data visualization (arXiv 2107.02270), ten colours
TEN = ("#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6", "#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd")
CHARACTERS = 18  # of an inch of a title
SIDE, BAR, CHARACTER = 2.7, 0.6, 0.06  # inches: of a panel alone, of the colour bar, of a character beside it


class Snapshot(Protocol):
    """Class and client of each point, int64 [n], and the number of clients: `Features`, or what was kept of them."""

    labels: np.ndarray
    clients: np.ndarray
    count: int


def planes(
    snapshots: Sequence[Snapshot],
    points: Sequence[np.ndarray],
    titles: Sequence[str] | None = None,
    colour: str = "class",
    title: str = "",
    names: Sequence[str] = (),
) -> Figure:
    """One panel a snapshot, all with the same axes (see `pflrepro.metrics.representations.tsne`), as wide as a column or a page.

    Args:
        titles: of the panels, several lines where they have some; None: round and moment of the `Features`.
        colour: `class` (marker shape = client [recalled of DBE]) or `client` (one shape): ten colours, of more a scale of them; a
            colour bar tells which hue is which.
        names: of the classes, beside the colour bar in place of their numbers.
    """
    _check(snapshots, points, colour)
    count = _count(snapshots, colour)
    down = -(-len(snapshots) // 4)
    across = -(-len(snapshots) // down)
    bar = BAR + CHARACTER * max(map(len, names), default=0)
    width = PAGE if across > 1 else COLUMN
    side = (width - bar) / across
    titled = [_wrapped(name, CHARACTERS * side) for name in titles or [caption(snapshot) for snapshot in snapshots]]
    lines = max(name.count("\n") for name in titled)
    limits = _limits(points)
    with style():
        figure = new_figure(width, (side + 0.25 + 0.13 * lines) * down + (0.2 if title else 0.0))
        panels = figure.subplots(down, across, squeeze=False)
        for place, panel in enumerate(panels.flat):
            if place >= len(snapshots):
                panel.set_visible(False)
                continue
            _scatter(panel, snapshots[place], points[place], colour, limits, count, (side / SIDE) ** 2)
            panel.set_title(titled[place], fontsize=7)
        _bar(figure, list(panels.flat), colour, count, names)
        if title:
            figure.suptitle(_wrapped(title, CHARACTERS * figure.get_figwidth()), x=0.01, ha="left")
    return figure


def _wrapped(text: str, characters: float) -> str:
    return "\n".join(part for line in text.split("\n") for part in textwrap.wrap(line, int(characters)))


def caption(snapshot: Features) -> str:
    """`round 3, after local training`."""
    return f"round {snapshot.round}, {'after' if snapshot.after else 'before'} local training"


def animation(
    snapshots: Sequence[Features],
    points: Sequence[np.ndarray],
    path: str | Path,
    colour: str = "class",
    seconds: float = 1.0,
) -> Path:
    """One frame a snapshot, `seconds` each, written as a GIF (to a temporary name, then renamed); the path."""

    _check(snapshots, points, colour)
    check_range("seconds", seconds, 0, open_low=True)
    limits, count = _limits(points), _count(snapshots, colour)
    with style():
        figure = new_figure(4.8, 4.2)
        panel = figure.subplots()
        _bar(figure, [panel], colour, count)

        def draw(frame: int) -> list:
            panel.clear()
            _scatter(panel, snapshots[frame], points[frame], colour, limits, count)
            panel.set_title(caption(snapshots[frame]))
            return []

        moving = FuncAnimation(figure, draw, frames=len(snapshots), init_func=list)
        written = _gif(moving, PillowWriter(fps=1 / seconds))
    with replacing(Path(path)) as file:
        file.write(io.BytesIO(written).getbuffer())
    return Path(path)


def _gif(moving, writer) -> bytes:
    """The animation's bytes; the writer only takes a file name."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "moving.gif"
        moving.save(path, writer=writer, dpi=90)
        return path.read_bytes()


def _check(snapshots: Sequence[Snapshot], points: Sequence[np.ndarray], colour: str) -> None:
    if not snapshots or len(snapshots) != len(points):
        raise UserError(f"one plane a snapshot is needed, one at least, not {len(points)} for {len(snapshots)}")
    if any(len(each.labels) != len(plane) for each, plane in zip(snapshots, points, strict=True)):
        raise UserError("every snapshot needs as many points as it has samples")
    if colour not in ("class", "client"):
        raise UserError(f"points are coloured by class or by client, not {colour!r}")


def _limits(points: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The ends of both axes: of a square around all points."""
    joint = np.concatenate(list(points))
    low, high = joint.min(0), joint.max(0)
    half = 0.54 * (high - low).max() + 1e-9
    return (low + high) / 2 - half, (low + high) / 2 + half


def _count(snapshots: Sequence[Snapshot], colour: str) -> int:
    """How many hues there are: one a client, or one a class up to the last that occurs."""
    if colour == "client":
        return max(snapshot.count for snapshot in snapshots)
    return 1 + max(int(snapshot.labels.max(initial=0)) for snapshot in snapshots)


def _hues(count: int) -> np.ndarray:
    """Ten that people with any colour vision tell apart; of more, from dark to light, in an order that they see."""
    return to_rgba_array(TEN[:count]) if count <= len(TEN) else colormaps["viridis"](np.linspace(0, 1, count))


def _bar(figure: Figure, panels: list[Axes], colour: str, count: int, names: Sequence[str] = ()) -> None:
    """The hues of 0..count-1, as a colour bar beside the panels."""
    shown = ScalarMappable(Normalize(-0.5, count - 0.5), ListedColormap(_hues(count)))
    ticks = range(count) if names else MaxNLocator(12, integer=True)
    bar = figure.colorbar(shown, ax=panels, label=colour, ticks=ticks, aspect=30, fraction=0.05)
    if names:
        bar.set_ticklabels(names[:count])


def _scatter(
    panel: Axes, snapshot: Snapshot, points: np.ndarray, colour: str, limits, count: int, size: float = 1.0
) -> None:
    hues = _hues(count)[snapshot.labels if colour == "class" else snapshot.clients]
    for client in np.unique(snapshot.clients):
        mine = snapshot.clients == client
        shape = SHAPES[client % len(SHAPES)] if colour == "class" else "o"
        panel.scatter(*points[mine].T, c=hues[mine], marker=shape, s=11 * size, lw=0, alpha=0.8)
    (left, low), (right, high) = limits
    panel.set(xlim=(left, right), ylim=(low, high), xticks=[], yticks=[], aspect="equal")


def predictions(shares: np.ndarray, present: np.ndarray, title: str = "") -> Figure:
    """What each client's classifier predicts: [N, C] shares as a map; a dot marks the classes that the client trained on.

    FedBR's figure 3(b), one row a client.

    Args:
        present: bool [N, C].
    """
    shares, present = np.asarray(shares), np.asarray(present)
    if shares.ndim != 2 or shares.shape != present.shape:
        raise UserError(f"shares and present are tables [clients, classes], not {shares.shape} and {present.shape}")
    clients, classes = shares.shape
    with style():
        figure = new_figure(1.8 + 0.34 * max(classes, 6), 1.2 + 0.24 * max(clients, 6))
        panel = figure.subplots()
        picture = panel.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        client, label = np.nonzero(present)
        panel.scatter(label, client, s=9, color=VERMILION, lw=0, label="in the client's training part")
        panel.grid(False)
        panel.set(xlabel="predicted class", ylabel="client")
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_locator(MaxNLocator(integer=True))
        figure.colorbar(picture, ax=panel, label="share of predictions")
        figure.legend(loc="outside lower right")
        figure.suptitle(title, x=0.01, ha="left")
    return figure
