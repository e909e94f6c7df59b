"""Pictures of a result: accuracies of a table as points, curves over rounds before and after local training."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

from pflrepro.errors import UserError
from pflrepro.papers.comparing import Result
from pflrepro.style import new_figure, style
from pflrepro.viz.captions import caption

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from pflrepro.papers.finished import Curves

OURS = "#0072B2"
PUBLISHED = "#7F7F7F"
LINES = ("-", "--", ":", "-.")


def points(result: Result) -> Figure:
    """Test accuracy of every method, one panel a column: ours (filled, ± spread) beside the published (hollow).

    Columns with neither are left out; a stand-in's numbers are shown without the published ones.
    """
    frame = result.frame
    drawn = frame[
        frame["ours"].notna() | (frame["published"].notna() & ~frame["source"].isna() & (not result.stand_in))
    ]
    columns = list(dict.fromkeys(drawn["column"]))
    if not columns:
        raise UserError(
            f"{result.artefact.id} has nothing to draw at scale {result.scale.name}: no run and no published number"
        )
    rows = list(dict.fromkeys(frame["row"]))[::-1]
    across = min(3, len(columns))
    down = math.ceil(len(columns) / across)
    with style():
        width, height = 1.6 + 2.6 * across if across > 1 else 5.6, 1.3 + down * (0.4 + 0.2 * len(rows))
        figure = new_figure(width, height)
        panels = figure.subplots(down, across, squeeze=False, sharey=True)
        for place, panel in enumerate(panels.flat):
            if place >= len(columns):
                panel.set_visible(False)
                continue
            _points_panel(panel, frame[frame["column"] == columns[place]], rows, result.stand_in)
            panel.set_title(columns[place])
            panel.set_xlabel("test accuracy (%)")
        figure.suptitle(_title(result, figure), x=0.01, ha="left")
        handles, labels = _unique_legend(panels.flat)
        figure.legend(handles, labels, loc="outside lower right", ncols=2)
    return figure


def _points_panel(panel: Axes, cells, rows: list[str], stand_in: bool) -> None:
    places = {row: place for place, row in enumerate(rows)}
    panel.set_yticks(range(len(rows)), rows)
    panel.set_ylim(-0.6, len(rows) - 0.4)
    for cell in cells.itertuples(index=False):
        place = places[cell.row]
        if not stand_in and not math.isnan(cell.published):
            panel.plot(cell.published, place, "o", mfc="none", mec=PUBLISHED, ms=6, ls="none", label="published")
        if not math.isnan(cell.ours):
            spread = cell.spread if cell.n > 1 else 0.0
            panel.errorbar(
                cell.ours, place, xerr=spread, fmt="o", color=OURS, ms=3.5, capsize=2, label="ours ± spread over seeds"
            )


def curves(result: Result) -> Figure:
    """Test accuracy over rounds, one line a method (mean over seeds, band ± spread): before and after local training.

    One row of panels a column of the artefact that was run; the panel on the right is left out where no method has
    values after local training.
    """
    import numpy as np

    columns = [column for column in result.artefact.columns if any(key == column.key for _, key in result.curves)]
    if not columns:
        raise UserError(f"{result.artefact.id} has no curves at scale {result.scale.name}: nothing was run")
    both = any(np.isfinite(curve.after).any() for curve in result.curves.values())
    with style():
        figure = new_figure(9.0 if both else 5.6, 0.8 + 2.9 * len(columns))
        panels = figure.subplots(len(columns), 2 if both else 1, squeeze=False, sharex="row", sharey="row")
        for line, column in enumerate(columns):
            for side, panel in enumerate(panels[line]):
                _curve_panel(panel, result, column.key, after=side == 1)
                panel.set_title(f"{column.label}: {'after' if side else 'before'} local training")
                panel.set_xlabel("round")
            panels[line][0].set_ylabel("test accuracy (%)")
            panels[line][0].set_ylim(bottom=_lower_end(result, column.key), top=100)
        figure.suptitle(_title(result, figure, rule=False), x=0.01, ha="left")
        handles, labels = _unique_legend(panels.flat)
        figure.legend(handles, labels, loc="outside right center")
    return figure


def _lower_end(result: Result, column: str) -> float | None:
    """Where the accuracy axis of long curves begins: ten points below the poorest method's best."""
    import numpy as np

    curves = [curve for (_, key), curve in result.curves.items() if key == column]
    if max(len(curve.rounds) for curve in curves) < 10:
        return None
    return max(0.0, min(float(np.nanmax(curve.before)) for curve in curves) - 10.0)


def _curve_panel(panel: Axes, result: Result, column: str, after: bool) -> None:
    from matplotlib.colors import to_hex

    for place, row in enumerate(result.artefact.rows):
        curve: Curves | None = result.curves.get((row.algorithm, column))
        if curve is None:
            continue
        middle, spread = _mean_and_spread(curve.after if after else curve.before)
        # Resolved now: a name such as C0 would be looked up when drawing, after the style has gone.
        look = {"color": to_hex(f"C{place % 8}"), "ls": LINES[place // 8 % len(LINES)]}
        panel.plot(curve.rounds, middle, label=row.label, **look)
        panel.fill_between(curve.rounds, middle - spread, middle + spread, color=look["color"], alpha=0.15, lw=0)


def _mean_and_spread(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and population standard deviation over seeds [S, E] -> [E]; NaN where no seed has a value."""
    import numpy as np

    there = np.isfinite(values)
    count = there.sum(0)
    safe = np.maximum(count, 1)
    mean = np.where(there, values, 0.0).sum(0) / safe
    spread = np.sqrt((np.where(there, values - mean, 0.0) ** 2).sum(0) / safe)
    return np.where(count > 0, mean, np.nan), np.where(count > 0, spread, np.nan)


def _title(result: Result, figure: Figure, rule: bool = True) -> str:
    """Title and caption, wrapped to the figure's width (about 13 characters an inch)."""
    characters = int(13 * figure.get_figwidth())
    parts = (result.artefact.title, caption(result, rule))
    return "\n".join(line for part in parts for line in textwrap.wrap(part, characters))


def _unique_legend(panels) -> tuple[list, list[str]]:
    found: dict[str, object] = {}
    for panel in panels:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    return list(found.values()), list(found)
