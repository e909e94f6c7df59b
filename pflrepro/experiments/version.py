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
_GIT = ("git", "-c", "safe.directory=*")


@functools.cache
def commit() -> str:
    """What `git describe --always --dirty` says of the checkout, such as "v0.1.0-3-g2d806b9-dirty" ("-dirty": tracked files were
    edited); else, also where git is missing or fails, "wheel " and the version. It names no place: a tag with a slash is passed over.

    Asked once a process, at the latest when a training begins: what is edited later is not what was imported.
    """
    return _described(_FOLDER) or f"wheel {__version__}"


def _described(folder: Path) -> str | None:
    if not _is_checkout(folder):
        return None
    try:
        name = _told(folder, "describe", "--always", "--exclude=*/*")
        # `describe --dirty` writes the index, and where it is killed it leaves a lock that stops its user's next `git add`
        edited = _told(folder, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return f"{name}-dirty" if edited else name


def _told(folder: Path, *words: str) -> str:
    """What a git command answers, without a change in the repository."""
    # Git tells the programs that it starts (hooks) about their own repository, which is not the package's.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment["GIT_OPTIONAL_LOCKS"] = "0"  # several runs may ask at once
    how = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": _SECONDS, "check": True}
    return subprocess.run([*_GIT, *words], cwd=folder, env=environment, **how).stdout.decode().strip()


def _is_checkout(folder: Path) -> bool:
    """Whether it is this project's: an installed package may lie inside another project's repository."""
    try:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        return project["project"]["name"] == "pflrepro" and (folder / ".git").exists()
    except (OSError, ValueError, KeyError, TypeError):
        return False
