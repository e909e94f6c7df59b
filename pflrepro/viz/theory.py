"""Pictures of pFedFDA's Theorem 1: the error over beta, exact against drawn, and the best beta."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from pflrepro.errors import UserError, check_range
from pflrepro.metrics.theory import Setting, best_beta, risk, simulate
from pflrepro.style import new_figure, style
from pflrepro.viz.mdl import _colour


def trade_off(settings: Mapping[str, Setting], draws: int = 2000, seed: int = 0) -> Figure:
    """E ||mu~ - mu||^2 over beta: lines the exact expression, dashed without the cross term, dots the mean of draws.

    A triangle marks the best beta of each setting.
    """

    if not settings:
        raise UserError("there is no setting to draw")
    fine, coarse = np.linspace(0, 1, 101), np.linspace(0, 1, 11)
    with style():
        figure = new_figure(6.4, 3.4)
        panel = figure.subplots()
        for place, (name, setting) in enumerate(settings.items()):
            colour, best = _colour(place), best_beta(setting)
            found = simulate(setting, coarse, draws, seed)
            panel.plot(fine, risk(setting, fine).total, color=colour, label=name)
            panel.plot(fine, risk(setting, fine, cross=False).total, "--", color=colour, lw=0.8)
            panel.errorbar(coarse, found.mean, 2 * found.standard_error, fmt="o", ms=3, color=colour)
            panel.plot(best, float(risk(setting, best).total), "^", ms=7, mfc="none", color=colour)
        panel.set_xlabel("beta: 0 the mean of all clients, 1 the own mean")
        panel.set_ylabel("squared error of the mean")
        panel.set_ylim(bottom=0)
        figure.suptitle(
            "line: exact; dashed: without the cross term; dots: drawn; triangle: best beta", x=0.01, ha="left"
        )
        figure.legend(loc="outside right center")
    return figure


def best_betas(shifts: Sequence[float], samples: Sequence[int], clients: int = 10, features: int = 10) -> Figure:
    """Best beta over the client's samples, one line a shift; the other clients keep 50 samples each."""
    check_range("number of shifts", len(shifts), 1)
    check_range("number of sample sizes", len(samples), 1)
    with style():
        figure = new_figure(5.6, 3.2)
        panel = figure.subplots()
        for place, shift in enumerate(shifts):
            values = [best_beta(Setting.of_shift(shift, n, clients, features, others=50)) for n in samples]
            panel.plot(list(samples), values, "o-", ms=3, color=_colour(place), label=f"shift {shift:g}")
        panel.set_xscale("log")
        panel.set_ylim(-0.03, 1.03)
        panel.set_xlabel("samples of the client")
        panel.set_ylabel("best beta")
        figure.legend(loc="outside right center")
    return figure
