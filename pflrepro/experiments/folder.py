"""A run's folder as it is read: every file checked, nothing trusted.

`CorruptFile` for anything odd, `OtherVersion` or another `UserError` for what may be whole but cannot be read here, or by this user.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pflrepro.errors import CorruptFile, OtherVersion, UserError
from pflrepro.experiments import files
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.history import check_history
from pflrepro.experiments.identity import identity_digest
from pflrepro.experiments.result import Run

DONE, CONFIG, CHECKPOINT = "done", "config.json", "checkpoint.npz"
FORMAT = 2  # of a run's folder


def is_done(folder: Path) -> bool:
    """Whether the folder says that it holds a finished run."""
    try:
        return (folder / DONE).exists()
    except PermissionError as error:
        raise files.unreadable(folder, error) from None


def holds_nothing(folder: Path) -> bool:
    """Whether the folder says what is to be run and has nothing else, so that the run begins anew with it or without it."""
    try:
        return all(path.name == CONFIG or path.match(".*.tmp") for path in folder.iterdir())
    except OSError:  # no folder, or not ours to look into
        return False


def read_run(folder: Path) -> Run:
    """The finished run in a folder, whose name is its id."""
    done = files.read_json(folder / DONE)
    try:
        return _read_as(folder, done)
    except CorruptFile:
        newer = files.read_json(folder / DONE)
        if newer == done:
            raise
        return _read_as(folder, newer)  # another process trained the run on meanwhile, and removed what it replaced


def _read_as(folder: Path, done: dict[str, Any]) -> Run:
    """The run as `done` describes it."""
    id = folder.name
    sums, named = done.get("files"), [done.get("history"), done.get("record")]
    if done.get("id") != id or not isinstance(sums, dict) or set(sums) != {CONFIG, *named}:
        raise CorruptFile(f"{DONE} does not belong to this folder")
    for name in sums:
        _check_sum(folder / name, sums[name])
    identity, experiment = read_config(folder)
    # Of a run that knows how many rounds it was to have, these decide its numbers: stopped early, it is still that run.
    length = {} if "rounds" in identity.get("settings", {}) else {"rounds": done.get("rounds"), "patience": 0}
    try:
        experiment = experiment.with_settings(every=done["every"], **length)
    except (KeyError, UserError) as error:
        raise CorruptFile(f"{DONE} does not tell how long the run is: {error}") from None
    history = check_history(files.read_npz(folder / named[0]))
    return Run(id, experiment, identity, history, files.read_json(folder / named[1]), folder)


def _check_sum(path: Path, sum: str) -> None:
    try:
        if files.sha256(path) != sum:
            raise CorruptFile(f"{path.name} is not what was written")
    except PermissionError as error:
        raise files.unreadable(path, error) from None
    except OSError as error:
        raise CorruptFile(f"{path.name} cannot be read: {error.strerror or error}") from None


def read_config(folder: Path) -> tuple[dict[str, Any], Experiment]:
    """(the identity, the experiment) that a folder was made for."""
    config = files.read_json(folder / CONFIG)
    if config.get("format") != FORMAT:
        raise OtherVersion(
            f"run {folder.name} is of another version of pflrepro (its folder has format {config.get('format')!r}, here it is {FORMAT})"
        )
    identity = config.get("identity")
    if not isinstance(identity, dict) or identity_digest(identity) != folder.name:
        raise CorruptFile(f"{CONFIG} does not belong to this folder")
    try:
        return identity, Experiment.from_dict(config.get("experiment"), recorded=identity)
    except OtherVersion as error:
        raise OtherVersion(f"run {folder.name}: {error}") from None
    except UserError as error:
        raise CorruptFile(f"{CONFIG} describes no experiment: {error}") from None
