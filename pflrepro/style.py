"""The one style of all pictures, and figures that belong to no global state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@contextmanager
def style() -> Iterator[None]:
    """Matplotlib settings of `pflrepro.mplstyle`, restored afterwards."""
    import matplotlib.style

    with as_file(files("pflrepro") / "pflrepro.mplstyle") as path, matplotlib.style.context(str(path)):
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of that size in inches, outside pyplot: nothing to close, no window, no global list."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height))
