"""The clients of a run one by one: their accuracy over rounds as a map, and in the last test against the size of their own data."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pflrepro.errors import UserError
from pflrepro.style import MARKERS, PAGE, new_figure, style
from pflrepro.viz.panels import filled, legend, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class ClientCurves(NamedTuple):
    """What is drawn of a run: rounds int64 [E] that were tested, accuracy float64 [E, N] as fractions (NaN: none), sizes int64 [N] of
    the clients' training data."""

    rounds: np.ndarray
    accuracy: np.ndarray
    sizes: np.ndarray


def client_map(runs: Mapping[str, ClientCurves], measured: str = "test accuracy") -> Figure:
    """One map a run: a line a client, those with the most training data on top, a column a test; the brighter, the more accurate.

    `UserError` without a run.

    Args:
        measured: what the accuracies are called.
    """
    if not runs:
        raise UserError("there is no run to draw")
    across = 3 if len(runs) == 3 else min(2, len(runs))
    down = math.ceil(len(runs) / across)
    with style():
        most = max(len(each.sizes) for each in runs.values())
        titles, above = filled(list(runs), across + 1, wide=True)  # the clients' names take the room of one more
        figure = new_figure(PAGE, down * (min(3.6, 0.9 + 0.09 * max(most, 10)) + above))
        cells = figure.subplots(down, across, squeeze=False)
        for panel, title, run in zip(cells.flat, titles, runs.values(), strict=False):
            order = np.argsort(run.sizes, kind="stable")
            edges = np.concatenate(
                [run.rounds[:1] - 0.5, (run.rounds[1:] + run.rounds[:-1]) / 2, run.rounds[-1:] + 0.5]
            )
            shown = np.ma.masked_invalid(100 * run.accuracy[:, order].T)
            places = np.arange(len(order) + 1) - 0.5
            drawn = panel.pcolormesh(edges, places, shown, vmin=0, vmax=100, cmap="viridis", rasterized=True)
            panel.grid(False)
            panel.xaxis.get_major_locator().set_params(integer=True)
            panel.set(title=title, xlabel="round")
            if panel in cells[:, 0]:
                panel.set_ylabel("client (training samples)")
            step = max(1, len(order) // 10)
            panel.set_yticks(range(0, len(order), step), [f"{one} ({run.sizes[one]:,})" for one in order[::step]])
        for panel in list(cells.flat)[len(runs) :]:
            panel.remove()
        figure.colorbar(drawn, ax=list(cells.flat)[: len(runs)], label=f"{measured} (%)", fraction=0.05, pad=0.02)
    return figure


def size_scatter(runs: Mapping[str, ClientCurves], measured: str = "test accuracy") -> Figure:
    """Every client's accuracy, called `measured`, in its run's last test against its training samples, a mark a client."""
    with style():
        figure, (panel,) = panels(1, 2.6, list(runs), wide=True)
        for place, (label, run) in enumerate(runs.items()):
            marker = MARKERS[place % len(MARKERS)]
            panel.plot(run.sizes, 100 * run.accuracy[-1], marker, label=label, ms=5, alpha=0.75, mew=0)
        panel.set(xlabel="training samples of the client", ylabel=textwrap.fill(f"{measured} (%)", 24), ylim=(-4, 104))
        legend(figure, [panel])
    return figure
