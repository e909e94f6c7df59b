"""Pictures of description lengths: learning curves of probes, and codelengths by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from pflrepro.errors import UserError
from pflrepro.metrics.mdl import Curve
from pflrepro.style import MARKERS, new_figure, style
from pflrepro.viz.panels import legend, panels


def learning_curves(curves: Mapping[str, Sequence[Curve | None]], title: str = "") -> Figure:
    """Validation loss over subset size, log-scaled: thin lines the clients' curves (mean over seeds), a thick one their mean.

    The mean is over clients, of curves interpolated in log n where every client has samples.

    Args:
        curves: name -> one a client.
    """
    there = {name: [curve for curve in row if curve is not None] for name, row in curves.items()}
    if not any(there.values()):
        raise UserError("there is no learning curve to draw")
    with style():
        figure = new_figure(5.6, 3.4)
        panel = figure.subplots()
        for place, (name, row) in enumerate(there.items()):
            if not row:
                continue
            colour = _colour(place)
            for curve in row:
                panel.plot(curve.sizes, curve.losses.mean(0), color=colour, alpha=0.25, lw=0.8)
            low, high = max(curve.sizes[0] for curve in row), min(curve.sizes[-1] for curve in row)
            at = np.geomspace(low, max(low, high), 20)
            lines = [np.interp(np.log(at), np.log(curve.sizes), curve.losses.mean(0)) for curve in row]
            mark = {"marker": MARKERS[place % len(MARKERS)], "markevery": 5, "ms": 5}  # colours repeat
            panel.plot(at, np.mean(lines, 0), color=colour, lw=2, label=name, **mark)
        panel.set_xscale("log")
        panel.set_xlabel("samples the probe is trained on")
        panel.set_ylabel("validation loss (nats)")
        figure.suptitle(title, x=0.01, ha="left")
        figure.legend(loc="outside right center")
    return figure


def by_layer(lengths: Mapping[str, Mapping[str, float]], title: str = "") -> Figure:
    """Codelength over layers, one line a name (a method, or before and after local training); lower is better.

    As wide as a column of text; the axis shows where the lengths are, it does not begin at zero.

    Args:
        lengths: name -> layer -> codelength; NaN is left out.
    """
    layers = list(dict.fromkeys(layer for row in lengths.values() for layer in row))
    if not layers:
        raise UserError("there is no codelength to draw")
    with style():
        figure, (panel,) = panels(1, 2.1, list(lengths))
        for place, (name, row) in enumerate(lengths.items()):
            values = [row.get(layer, float("nan")) for layer in layers]
            look = {"color": _colour(place), "marker": MARKERS[place % len(MARKERS)]}
            panel.plot(range(len(layers)), values, label=name, **look)
        panel.set_xticks(range(len(layers)), layers)
        panel.margins(x=0.15)
        panel.set(title=title, xlabel="layer", ylabel="MDL (nats)")
        legend(figure, [panel])
    return figure


def _colour(place: int) -> str:
    """A colour of the style, resolved now: a name such as C0 would be looked up when drawing, after the style has gone."""
    return to_hex(f"C{place % 8}")
