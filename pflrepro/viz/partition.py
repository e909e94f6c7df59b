"""The bubble picture of a partition: clients x classes, area proportional to the number of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pflrepro.errors import UserError
from pflrepro.viz.style import new_figure, style

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

LARGEST = 260.0


def bubbles(counts: np.ndarray, title: str = "", classes: list[str] | None = None) -> Figure:
    """One bubble a client and class, its area proportional to the samples.

    `counts`: integers [clients, classes], at least one positive. `classes`: names for the class axis.
    """
    import numpy as np

    counts = np.asarray(counts)
    if counts.ndim != 2 or counts.size == 0 or counts.min() < 0 or counts.max() <= 0:
        raise UserError(
            f"counts must be a table [clients, classes] of samples, some positive; got the shape {counts.shape}"
        )
    clients, labels = counts.shape
    client, label = np.nonzero(counts)
    sizes = counts[client, label] * (LARGEST / counts.max())
    with style():
        figure = new_figure(min(10.0, 2.4 + 0.36 * max(clients, 8)), min(9.0, 1.6 + 0.32 * max(labels, 5)))
        panel = figure.subplots()
        panel.scatter(client, label, s=sizes, color="#0072B2", alpha=0.8, lw=0)
        panel.set_xlabel("client")
        panel.set_ylabel("class")
        panel.set_xlim(-0.8, clients - 0.2)
        panel.set_ylim(-0.8, labels - 0.2)
        if clients <= 30:
            panel.set_xticks(range(clients))
        if labels <= 30:
            panel.set_yticks(range(labels), classes or [str(name) for name in range(labels)])
        if title:
            figure.suptitle(title, x=0.01, ha="left")
        for example in _examples(int(counts.max())):
            panel.scatter(
                [], [], s=example * (LARGEST / counts.max()), color="#0072B2", alpha=0.8, lw=0, label=f"{example:,}"
            )
        figure.legend(loc="outside right center", title="samples", labelspacing=1.4)
    return figure


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
