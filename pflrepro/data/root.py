"""Where data sets live."""

from __future__ import annotations

from pathlib import Path

from pflrepro.places import chosen_folder

ENVIRONMENT = "PFLREPRO_DATA"


def data_root(explicit: str | Path | None = None) -> Path:
    """The folder with one sub-folder a data set: `explicit` (--data-root), else $PFLREPRO_DATA, else a per-user cache.

    The folder need not exist. Raises `UserError` if the name is none, belongs to a file or can be nobody's.
    """
    return chosen_folder(explicit, "--data-root", ENVIRONMENT, "data")


def cache_path(name: str, root: str | Path | None = None) -> Path:
    """Where the array cache of data set `name` lies: `<root>/<name>/<name>.npz`."""
    return data_root(root) / name / f"{name}.npz"
