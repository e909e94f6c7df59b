"""Widgets made from types: what a field may hold (`pflrepro.checked.Domain`) as something to choose or to type."""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Callable, Mapping
from html import escape
from threading import RLock
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from pflrepro.checked import Domain
from pflrepro.style import drawn, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGEST = 10**9  # of a number without an upper bound
NARROW = {"description_width": "initial"}
APART = "2px 1.2em 2px 0"
DRAWING = RLock()  # Matplotlib's settings belong to the process: one picture at a time
DOTS = 130  # an inch, of a picture on a screen


def control(name: str, domain: Domain, value: Any, help: str = "") -> widgets.ValueWidget:
    """A widget for a value of that domain: words to choose from, a box to tick, a number within its bounds."""
    said = {"description": name.replace("_", " "), "tooltip": help or str(domain), "style": NARROW}
    said["layout"] = widgets.Layout(width="max-content", margin=APART)
    if domain.words:
        return widgets.Dropdown(options=list(domain.words), value=value, **said)
    if domain.kind is bool:
        return widgets.Checkbox(value=value, indent=False, **said)
    if domain.kind is str:
        return widgets.Text(value=value, **said)
    number = widgets.BoundedIntText if domain.kind is int else widgets.BoundedFloatText
    low, high = domain.bounds.low, domain.bounds.high
    ends = {"min": -LARGEST if low is None else low, "max": LARGEST if high is None else high}
    step = 1 if domain.kind is int else max(abs(value) / 10, 1e-6)
    said["layout"] = widgets.Layout(width=f"{6.5 + 0.55 * len(name):g}em", margin=APART)
    return number(value=value, step=step, **ends, **said)


def slider(name: str, domain: Domain, value: Any, high: int) -> widgets.ValueWidget:
    """A slider: in powers of ten for a positive number without an upper bound, to 1 for a share, to `high` for a whole number."""
    said = {"description": name, "tooltip": str(domain), "style": NARROW, "layout": {"margin": APART}}
    if domain.kind is int:
        return widgets.IntSlider(value=value, min=int(domain.bounds.low or 0), max=max(high, value), **said)
    if domain.bounds.high is None:
        return widgets.FloatLogSlider(value=value, min=-2, max=2, step=0.05, readout_format=".3g", **said)
    return widgets.FloatSlider(value=value, min=0.05, max=domain.bounds.high, step=0.05, **said)


def values(controls: Mapping[str, widgets.ValueWidget]) -> dict[str, Any]:
    """What stands in the controls, by name."""
    return {name: each.value for name, each in controls.items()}


def image(draw: Callable[[], Figure], said: str) -> str:
    """The figure that `draw` makes, as HTML; `said`: what is told where no picture is shown."""
    with DRAWING, style():
        source = b64encode(drawn(draw(), "png", dpi=DOTS)).decode()
    return (
        f'<img alt="{escape(said)}" style="max-width: 100%; border-radius: 6px" src="data:image/png;base64,{source}">'
    )


def note(text: str, *, wrong: bool = False) -> str:
    """A line of text as HTML; `wrong`: of something that cannot be."""
    colour = "color: var(--jp-error-color1, #b00020)" if wrong else ""
    return f'<p style="margin: 0.3em 0; {colour}">{escape(text)}</p>' if text else ""


def code(text: str) -> str:
    """A command as HTML."""
    return f"<pre style='white-space: pre-wrap; margin: 0.3em 0'>{escape(text)}</pre>"


class Displayed(ABC):
    """Something with a `widget`, and with `still()`, HTML for wherever widgets are not drawn: a page, a notebook without a kernel."""

    widget: widgets.Widget

    @abstractmethod
    def still(self) -> str:
        """What is shown there."""

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        found = self.widget._repr_mimebundle_()
        return found | {"text/plain": repr(self), "text/html": self.still()}
