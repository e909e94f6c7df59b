"""Original files that a user placed: where they belong, which are there, whether they are the published ones."""

from __future__ import annotations

from pathlib import Path

from pflrepro.data.fetch import wrong
from pflrepro.data.sets.types import DatasetSpec, SourceFile
from pflrepro.errors import CorruptFile

FOLDER = "original"  # under the folder of the data set


def placed(file: SourceFile, home: Path) -> Path | None:
    """Where `file` of the data set in folder `home` lies, None if it was not placed.

    Raises `CorruptFile` if what lies there has another size or checksum than the published file.
    """
    path = _find(file, home)
    if path is None or path.is_dir():
        return path
    reason = wrong(path, file)
    if reason:
        raise CorruptFile(f"{path} is not the published file: {reason}; place it anew")
    return path


def lacking(spec: DatasetSpec, home: Path) -> list[str]:
    """The names of the files that must be placed by hand and are not there."""
    return [file.name for file in _by_hand(spec) if _find(file, home) is None]


def how_to_place(spec: DatasetSpec, home: Path) -> str:
    """What to do by hand for a data set that has no download to rely on, in one line."""
    names = ", ".join(
        f"the folder {file.name} (or {file.name[:-1]}.zip)" if file.is_folder else file.name for file in _by_hand(spec)
    )
    return (
        f"data set {spec.name!r} has no download to rely on: {spec.by_hand}; place {names} in {home / FOLDER} and run "
        f"`pflrepro data get {spec.name}` again"
    )


def _by_hand(spec: DatasetSpec) -> list[SourceFile]:
    return [file for file in spec.files if file.is_folder or not (file.mirrors or spec.mirrors)]


def _find(file: SourceFile, home: Path) -> Path | None:
    folder = home / FOLDER
    if not file.is_folder:
        return folder / file.name if (folder / file.name).is_file() else None
    candidates = (folder / file.name[:-1], folder / f"{file.name[:-1]}.zip")
    return next((path for path in candidates if (path.is_dir() if not path.suffix else path.is_file())), None)
