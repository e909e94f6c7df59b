"""Pictures of pFedFDA's Theorem 1: the error over beta, exact against drawn, and the best beta."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pflrepro.errors import UserError, check_range
from pflrepro.metrics.theory import Setting, best_beta, risk, simulate
from pflrepro.style import GREY, MARKERS, PALETTE, style
from pflrepro.viz.lines import Line, LinePanel, line_figure
from pflrepro.viz.looks import Look
from pflrepro.viz.panels import legend, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INDEPENDENT, BEST = "without the cross term", "best beta"


def trade_off(settings: Mapping[str, Setting], draws: int = 2000, seed: int = 0) -> Figure:
    """E ||mu~ - mu||^2 over beta: lines the exact expression, dashed without the cross term, markers the mean of draws.

    A star marks the best beta of each setting.
    """
    from matplotlib.ticker import LogLocator

    if not settings:
        raise UserError("there is no setting to draw")
    fine, coarse = np.linspace(0, 1, 101), np.linspace(0, 1, 11)
    with style():
        figure, (panel,) = panels(1, 2.4, [*settings, INDEPENDENT, BEST])
        for place, (name, setting) in enumerate(settings.items()):
            colour, best = PALETTE[place % len(PALETTE)], best_beta(setting)
            found = simulate(setting, coarse, draws, seed)
            panel.plot(fine, risk(setting, fine).total, color=colour)
            panel.plot(fine, risk(setting, fine, cross=False).total, "--", color=colour, lw=0.8)
            drawn = {"ls": "none", "marker": MARKERS[place % len(MARKERS)], "ms": 3.5, "color": colour}
            panel.errorbar(coarse, found.mean, 2 * found.standard_error, **drawn)
            panel.plot([], [], label=name, **drawn)
            panel.plot(best, float(risk(setting, best).total), "*", ms=9, mfc="white", color=colour, zorder=4)
        panel.plot([], [], "--", color=GREY, lw=0.8, label=INDEPENDENT)
        panel.plot([], [], "*", ms=9, mfc="white", ls="none", color=GREY, label=BEST)
        panel.set_xlabel("beta (0: mean of all clients, 1: own mean)")
        panel.set_ylabel("squared error of the mean")
        panel.set_yscale("log")
        panel.yaxis.set_major_locator(LogLocator(numticks=4))
        legend(figure, [panel])
    return figure


def best_betas(shifts: Sequence[float], samples: Sequence[int], others: int = 50) -> Figure:
    """Best beta over the client's samples, one line a shift; the other clients keep `others` samples each."""
    check_range("number of shifts", len(shifts), 1)
    check_range("number of sample sizes", len(samples), 1)
    x, lines = np.array(samples, float), []
    for place, shift in enumerate(shifts):
        values = [best_beta(Setting.of_shift(shift, n, others=others)) for n in samples]
        look = Look(PALETTE[place % len(PALETTE)], MARKERS[place % len(MARKERS)])
        lines.append(Line(f"shift {shift:g}", x, np.array(values), look))
    panel = LinePanel("", "samples of the client", "best beta", tuple(lines), log=True)
    return line_figure([panel], measured=True)
