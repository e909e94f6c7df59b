"""What a gradient attack recovered, beside what was trained on."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from pflrepro.errors import UserError, check_range
from pflrepro.metrics.leakage import Recovered
from pflrepro.style import BLUE, new_figure, style


def recovered(found: Recovered, rows: int = 4, columns: int = 8, title: str = "") -> Figure:
    """Originals above, recovered below, for the first `rows` victims and the first `columns` samples of each batch.

    Every picture has a grey scale (or colours) of its own range; the platform's PSNR of the batch stands at the left.
    """
    check_range("rows", rows, 1, integer=True)
    check_range("columns", columns, 1, integer=True)
    original = found.seen.x.detach().cpu().double()
    guessed = found.x.detach().cpu().double()
    if original.ndim != 5 or original.shape[2] not in (1, 3):
        raise UserError(f"only images [victims, batch, 1 or 3, H, W] can be drawn, not {list(original.shape)}")
    victims, samples = min(rows, len(original)), min(columns, original.shape[1])
    with style():
        figure = new_figure(1.5 + 0.72 * samples, 0.5 + 1.5 * victims)
        panels = figure.subplots(2 * victims, samples, squeeze=False)
        for panel in panels.flat:
            panel.set(xticks=[], yticks=[])
            panel.grid(False)
            for side in panel.spines.values():
                side.set_visible(False)
        for victim in range(victims):
            for sample in range(samples):
                for below, source in enumerate((original, guessed)):
                    panel = panels[2 * victim + below, sample]
                    panel.imshow(_image(source[victim, sample]), cmap="gray", interpolation="nearest")
            client, batch = found.seen.client[victim], found.seen.batch[victim]
            _label(panels[2 * victim, 0], f"client {client}\nbatch {batch}")
            _label(panels[2 * victim + 1, 0], f"{float(found.rows[victim]):.1f} dB")
        figure.suptitle(title or f"{found.seen.target}: originals above, recovered below", x=0.01, ha="left")
    return figure


def _label(panel, text: str) -> None:
    panel.set_ylabel(text, rotation=0, ha="right", va="center", fontsize=7)


def _image(sample):
    """[H, W] or [H, W, 3] in [0, 1], stretched from its smallest to its largest number; NaN is black."""
    picture = np.nan_to_num(sample.movedim(0, -1).numpy(), nan=0.0, posinf=0.0, neginf=0.0)
    span = picture.max() - picture.min()
    picture = (picture - picture.min()) / (span if span > 0 else 1.0)
    return picture[..., 0] if picture.shape[-1] == 1 else picture


def psnr_bars(values: dict[str, float], title: str = "") -> Figure:
    """The platform's PSNR of each attacked target; lower is better for privacy. NaN (all attacks diverged) has no bar."""
    if not values:
        raise UserError("there is no PSNR to draw")
    with style():
        figure = new_figure(5.0, 0.9 + 0.32 * len(values))
        panel = figure.subplots()
        names = list(values)[::-1]
        panel.barh(range(len(names)), [values[name] for name in names], height=0.6, color=BLUE)
        panel.set_yticks(range(len(names)), names)
        panel.set_xlabel("platform's PSNR (dB); lower: less is recovered")
        figure.suptitle(title, x=0.01, ha="left")
    return figure
