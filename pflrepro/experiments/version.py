"""Which code made the numbers: the commit of the checkout that the package is imported from, or the version installed."""

from __future__ import annotations

import functools
import os
import subprocess
import tomllib
from pathlib import Path

from pflrepro import __version__

_FOLDER = Path(__file__).resolve().parents[2]  # the checkout's, where the package is imported from one
_SECONDS = 10  # a checkout on a slow network drive must not hold up a run
_COMMAND = ("git", "-c", "safe.directory=*", "describe", "--always", "--dirty", "--exclude=*/*")


@functools.cache
def commit() -> str:
    """`git describe --always --dirty` of the checkout, such as "v0.1.0-3-g2d806b9-dirty" ("-dirty": tracked files were edited);
    else, also where git is missing or fails, "wheel " and the version. It names no place: a tag with a slash is passed over.

    Asked once a process: what is edited later is not what was imported.
    """
    return _described(_FOLDER) or f"wheel {__version__}"


def _described(folder: Path) -> str | None:
    if not _is_checkout(folder):
        return None
    # Git tells the programs that it starts (hooks) about their own repository, which is not the package's.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment["GIT_OPTIONAL_LOCKS"] = "0"  # several runs may ask at once
    try:
        done = subprocess.run(
            _COMMAND,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=True,
        )
        return done.stdout.decode().strip()
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def _is_checkout(folder: Path) -> bool:
    """Whether it is this project's: an installed package may lie inside another project's repository."""
    try:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        return project["project"]["name"] == "pflrepro" and (folder / ".git").exists()
    except (OSError, ValueError, KeyError, TypeError):
        return False
