"""The one style of all pictures: print widths, colours, and figures that belong to no global state.

Pictures are drawn for print: as wide as a column or a page of text, with type of 7 points or more, without a title, which a notebook
or a caption gives. Colours are those of Okabe and Ito, which people with any colour vision tell apart.
"""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from html import escape
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMN, PAGE = 3.3, 6.8  # inches
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, GREY, BLACK = "#E69F00", "#56B4E9", "#7F7F7F", "#000000"
PALETTE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, GREY, BLACK)  # the cycle of `pflrepro.mplstyle`
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "d", "h")


@contextmanager
def style() -> Iterator[None]:
    """Matplotlib settings of `pflrepro.mplstyle`, restored afterwards."""
    import matplotlib.style

    with as_file(files("pflrepro") / "pflrepro.mplstyle") as path, matplotlib.style.context(str(path)):
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of that size in inches, outside pyplot: nothing to close, no window, no global list. It shows itself."""
    return _shown()(figsize=(width, height))


@cache
def _shown() -> type[Figure]:
    from matplotlib.figure import Figure

    class ShownFigure(Figure):
        """A figure that a notebook shows without pyplot."""

        def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
            return picture(self)

    return ShownFigure


def picture(figure: Figure, name: str = "figure") -> dict[str, str]:
    """A figure as an output: sharp as SVG, and as PNG where a notebook is not trusted, or on GitHub.

    An `<img>` in HTML would be stripped there.
    """
    return {
        "image/svg+xml": drawn(figure, "svg").decode(),
        "image/png": b64encode(drawn(figure, "png", dpi=130)).decode(),
        "text/plain": name,
    }


def drawn(figure: Figure, form: str, **how: Any) -> bytes:
    """A figure as the bytes of a file, without a date in it: the same numbers give the same bytes."""
    buffer = io.BytesIO()
    with style():
        figure.savefig(buffer, format=form, metadata={"Date": None} if form == "svg" else {"Software": None}, **how)
    return buffer.getvalue()


def img(figure: Figure, name: str = "figure") -> str:
    """A figure inside a page of HTML that needs no other file."""
    return f'<img alt="{escape(name)}" src="data:image/svg+xml;base64,{b64encode(drawn(figure, "svg")).decode()}">'


def muted(colour: str, share: float = 0.4) -> str:
    """The colour with that share of white in it.

    Example:
        >>> muted("#000000", 0.5), muted("#FF0000", 0.2)
        ('#808080', '#ff3333')
    """
    parts = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    return "#" + "".join(f"{round(part + share * (255 - part)):02x}" for part in parts)
