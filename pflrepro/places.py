"""Folders that a user names: checked once, where they are named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pflrepro.errors import UserError, in_short


def chosen_folder(explicit: str | Path | None, option: str, variable: str, name: str) -> Path:
    """The folder `explicit` (given by `option`), else the environment's `variable`, else `name` in the per-user cache folder.

    Raises as `named_folder`.
    """
    source, chosen = option, explicit
    if chosen is not None:
        check_path(chosen, option)
    if chosen is None or str(chosen) == "":
        source, chosen = f"${variable}", os.environ.get(variable)
    if not chosen:
        import platformdirs

        source, chosen = "the per-user cache folder", platformdirs.user_cache_path("pflrepro") / name
    return named_folder(chosen, source)


def check_path(path: Any, source: str) -> None:
    """`UserError` that names its `source` for what is no name of a folder, such as a number."""
    if not isinstance(path, (str, os.PathLike)):
        raise UserError(f"{source} must name a folder, not {in_short(path)}")


def at_home(path: str | Path, source: str) -> Path:
    """`path` with `~` resolved; `UserError` that names its `source` for what can be no path."""
    check_path(path, source)
    if not str(path) or "\0" in str(path):
        raise UserError(f"{source} must name a folder, not {str(path)!r}")
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UserError(f"{source} is {str(path)!r}, but there is no such user, or none with a home folder") from None


def named_folder(path: str | Path, source: str) -> Path:
    """`path` with `~` resolved; it need not exist. `UserError` that names its `source` if no folder can have that name."""
    folder = at_home(path, source)
    try:
        taken = folder.exists() and not folder.is_dir()
    except OSError as error:
        raise UserError(f"{source} cannot be looked into: {path}: {error.strerror or error}") from None
    if taken:
        raise UserError(f"{source} must name a folder, not the file {folder}")
    return folder
