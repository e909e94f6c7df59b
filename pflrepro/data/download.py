"""Data sets on disk: get them from their official sources, say what is there, check what is there."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pflrepro.data.datasets import DATASETS, DatasetSpec, find, load_arrays, mismatch
from pflrepro.data.root import cache_path, data_root
from pflrepro.errors import CorruptFile, UserError

if TYPE_CHECKING:
    from pflrepro.data.arrays import Arrays
    from pflrepro.data.fetch import Policy

Report = Callable[[str], None]
Known = Mapping[str, DatasetSpec]
_PATIENCE = 6 * 3600.0  # seconds to wait for another process that is getting the same data set


def get(
    names: str | Iterable[str] | None = None,
    root: str | Path | None = None,
    progress: bool = True,
    *,
    report: Report | None = None,
    policy: Policy | None = None,
    datasets: Known | None = None,
) -> list[dict[str, Any]]:
    """Put the named data sets (None: all) into the data root; returns one `status` row a set with its `action` added.

    action: "embedded", "present" (nothing to do), "downloaded", or "redone" (a corrupt cache was reported and made anew; the old
    file is kept beside it under the suffix `.set-aside`). One process at a time works on a set; others wait and then find it.
    `progress` shows a bar a file on a terminal; `report` takes lines of text (default: standard error).

    Raises `UserError` for an unknown name or an unwritable root, `DownloadFailed` where no mirror delivers.
    """
    known = DATASETS if datasets is None else datasets
    say = report or (lambda line: print(line, file=sys.stderr))
    specs = [find(name, known) for name in _names(names, known)]
    rows = []
    for spec in specs:
        action = "embedded" if spec.embedded else _get_one(spec, data_root(root), progress, say, policy)
        rows.append(_row(spec, root) | {"action": action})
    return rows


def status(
    root: str | Path | None = None, names: str | Iterable[str] | None = None, *, datasets: Known | None = None
) -> list[dict[str, Any]]:
    """One row a data set: name, title, state, path, samples, shape, classes, origin, licence, citation, detail.

    state: "present", "absent", "corrupt" (unreadable, or not the published content; `detail` says why) or "embedded".
    """
    known = DATASETS if datasets is None else datasets
    return [_row(find(name, known), root) for name in _names(names, known)]


def verify(
    names: str | Iterable[str] | None = None, root: str | Path | None = None, *, datasets: Known | None = None
) -> list[dict[str, Any]]:
    """Read the data sets again and compare their content; one row a set: name, state, path, fingerprint, expected, detail.

    state: "ok", "absent" or "corrupt"; embedded sets are read too. `fingerprint` is None where nothing could be read.
    """
    known = DATASETS if datasets is None else datasets
    rows = []
    for name in _names(names, known):
        spec = find(name, known)
        state, arrays, detail = _inspect(spec, root)
        rows.append(
            {
                "name": name,
                "state": "ok" if state in ("present", "embedded") else state,
                "path": None if spec.embedded else str(cache_path(name, root)),
                "fingerprint": None if arrays is None else arrays.fingerprint(),
                "expected": spec.fingerprint,
                "detail": detail,
            }
        )
    return rows


def _names(names: str | Iterable[str] | None, known: Known) -> list[str]:
    if names is None:
        return list(known)
    return list(dict.fromkeys([names] if isinstance(names, str) else names)) or list(known)


def _inspect(spec: DatasetSpec, root: str | Path | None) -> tuple[str, Arrays | None, str]:
    """State, arrays (None where unreadable) and, for a corrupt set, what is wrong with it."""
    from pflrepro.data.arrays import read_arrays

    if spec.embedded:
        try:
            return "embedded", load_arrays(spec.name, root, datasets={spec.name: spec}), ""
        except CorruptFile as error:
            return "corrupt", None, str(error)
    path = cache_path(spec.name, root)
    try:
        arrays = read_arrays(path, spec.name)
    except FileNotFoundError:
        return "absent", None, ""
    except UserError as error:
        return "corrupt", None, str(error)
    reason = mismatch(spec, arrays)
    return ("corrupt", arrays, f"{path}: {reason}") if reason else ("present", arrays, "")


def _row(spec: DatasetSpec, root: str | Path | None) -> dict[str, Any]:
    state, detail = "embedded", ""
    if not spec.embedded:  # an embedded set is not read here: that would import its package
        state, _, detail = _inspect(spec, root)
    return {
        "name": spec.name,
        "title": spec.title,
        "state": state,
        "path": None if spec.embedded else str(cache_path(spec.name, root)),
        "samples": spec.samples,
        "shape": list(spec.shape),
        "classes": spec.classes,
        "origin": spec.origin,
        "licence": spec.licence,
        "citation": spec.citation,
        "detail": detail,
    }


def _get_one(spec: DatasetSpec, root: Path, progress: bool, say: Report, policy: Policy | None) -> str:
    if _inspect(spec, root)[0] == "present":
        return "present"
    with _alone(root / spec.name, spec.name, say):
        state, _, detail = _inspect(spec, root)
        if state == "present":
            return "present"
        if state == "corrupt":
            say(f"{detail}; making it anew")
        try:
            _make(spec, cache_path(spec.name, root), progress, policy)
        except OSError as error:
            raise UserError(f"cannot write {root / spec.name}: {error.strerror or error}") from None
        return "redone" if state == "corrupt" else "downloaded"


@contextmanager
def _alone(folder: Path, name: str, say: Report) -> Iterator[None]:
    """Hold the data set's lock. The operating system releases it when the process ends, however it ends."""
    from filelock import FileLock, Timeout

    lock = FileLock(folder / ".lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            say(f"another process is getting {name}; waiting for it")
            lock.acquire(timeout=_PATIENCE)
    except Timeout:
        raise UserError(
            f"another process has been getting {name} in {folder} for hours; end it and try again"
        ) from None
    except OSError as error:
        raise UserError(f"cannot write {folder}: {error.strerror or error}") from None
    try:
        yield
    finally:
        lock.release()


def _make(spec: DatasetSpec, path: Path, progress: bool, policy: Policy | None) -> None:
    """Download, decode, check, write; the originals are removed at the end, and kept for a later resume where this breaks off."""
    from pflrepro.data.arrays import save_arrays
    from pflrepro.data.fetch import DownloadFailed, Policy, fetch
    from pflrepro.data.readers import READERS

    folder = path.parent / ".download"
    folder.mkdir(exist_ok=True)
    originals = {}
    for file in spec.files:
        with _bar(file.name, file.size, progress) as advance:
            originals[file.role] = fetch(file, spec.mirrors, folder, policy or Policy(), advance)
    try:
        arrays = READERS[spec.reader](spec.name, originals, spec.class_names)
        reason = mismatch(spec, arrays)
    except CorruptFile as error:
        reason = str(error)
    if reason:
        shutil.rmtree(folder, ignore_errors=True)
        raise DownloadFailed(f"the sources of {spec.name} delivered something else: {reason}")
    if path.exists():
        os.replace(path, path.with_name(f"{path.name}.set-aside"))
    save_arrays(path, arrays)
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _bar(title: str, total: int, progress: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar in bytes; nothing at all where standard error is not a terminal."""
    from tqdm import tqdm

    quiet = not (progress and sys.stderr.isatty())
    with tqdm(total=total, desc=title, unit="B", unit_scale=True, unit_divisor=1024, disable=quiet) as bar:

        def advance(arrived: int) -> None:
            bar.update(arrived - bar.n)

        yield advance
