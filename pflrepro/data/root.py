"""Where data sets live."""

from __future__ import annotations

import os
from pathlib import Path

from pflrepro.errors import UserError

ENVIRONMENT = "PFLREPRO_DATA"


def data_root(explicit: str | Path | None = None) -> Path:
    """The folder with one sub-folder a data set: `explicit` (--data-root), else $PFLREPRO_DATA, else a per-user cache.

    The folder need not exist. Raises `UserError` if the name belongs to a file.
    """
    source, chosen = "--data-root", explicit
    if chosen is None or str(chosen) == "":
        source, chosen = f"${ENVIRONMENT}", os.environ.get(ENVIRONMENT)
    if not chosen:
        import platformdirs

        source, chosen = "the per-user cache folder", platformdirs.user_cache_path("pflrepro") / "data"
    root = Path(chosen).expanduser()
    if root.exists() and not root.is_dir():
        raise UserError(f"{source} must name a folder, not the file {root}")
    return root


def cache_path(name: str, root: str | Path | None = None) -> Path:
    """Where the array cache of data set `name` lies: `<root>/<name>/<name>.npz`."""
    return data_root(root) / name / f"{name}.npz"
