"""Data sets on disk: get them from their official sources, say what is there, check what is there."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from tqdm import tqdm

from pflrepro.data.arrays import Arrays, read_arrays, save_arrays
from pflrepro.data.datasets import DATASETS, DatasetSpec, as_described, derived, find, load_arrays, mismatch
from pflrepro.data.fetch import DownloadFailed, Policy, fetch
from pflrepro.data.frost import find_photographs, needed_by
from pflrepro.data.originals import FOLDER, how_to_place, lacking, placed
from pflrepro.data.readers import reader
from pflrepro.data.root import cache_path, data_root
from pflrepro.errors import CorruptFile, MissingData, UserError

Report = Callable[[str], None]
Known = Mapping[str, DatasetSpec]
_GET = "get it with `pflrepro data get {}`"
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
    """Put the named data sets (None: all with files of their own) into the data root; one `status` row a set with its `action`.

    action: "embedded", "present" (nothing to do), "downloaded", "converted" (from files placed by hand), "redone" (a corrupt cache
    was reported and made anew; the old file is kept beside it under the suffix `.set-aside`), or "by hand" (only for None: files
    must be placed, `detail` says which). One process at a time works on a set; others wait and then find it.
    `progress` shows a bar a file on a terminal; `report` takes lines of text (default: standard error).

    Originals that lie in `<root>/<name>/original` are taken instead of a download, and stay there.

    A set that fails does not keep the others waiting: what went wrong is raised at the end.

    Raises `UserError` for an unknown name or an unwritable root, `MissingData` where files must be placed by hand (for a named set
    with the corruption frost: its photographs), `CorruptFile` where those are wrong, `DownloadFailed` where no mirror delivers.
    """
    known = DATASETS if datasets is None else datasets
    say = report or (lambda line: print(line, file=sys.stderr))
    everything = not names
    rows = []
    failed: dict[str, UserError | DownloadFailed] = {}
    root = data_root(root)
    for spec in [find(name, known) for name in _names(names, known)]:
        if everything and spec.source:
            continue
        if spec.embedded:
            action = "embedded"
        elif everything and not _at_hand(spec, known, root):
            action = "by hand"
        else:
            try:
                action = _get_one(find(spec.stored_as, known), known, root, progress, say, policy)
                if needed_by(spec.shift):
                    find_photographs(root)
            except (UserError, DownloadFailed) as error:
                failed[spec.name] = error
                continue
        rows.append(_row(spec, root, known) | {"action": action})
    if failed:
        raise _all_of(failed, [row["action"] for row in rows])
    return rows


def _all_of(failed: Mapping[str, UserError | DownloadFailed], others: Sequence[str]) -> UserError | DownloadFailed:
    """What became of the sets that could not be got, as one error; that of a single one as it is where nothing else was asked for."""
    errors = list(failed.values())
    if len(errors) == 1 and not others:
        return errors[0]
    told = "; ".join(f"{name}: {error}" for name, error in failed.items())
    kind = DownloadFailed if any(isinstance(error, DownloadFailed) for error in errors) else UserError
    by_hand = others.count("by hand")
    there = len(others) - by_hand
    rest = f"{there} {'is' if there == 1 else 'are'} there" + (f", {by_hand} must be placed by hand" if by_hand else "")
    return kind(f"{len(failed)} of {len(failed) + len(others)} data sets were not got, {rest}; {told}")


def _at_hand(spec: DatasetSpec, known: Known, root: Path) -> bool:
    """Whether the array cache exists, or all of the originals, its parts' too, that nobody can download for the user."""
    home = cache_path(spec.name, root).parent
    parts = (find(name, known) for name in spec.made_of)
    return cache_path(spec.name, root).exists() or not (
        lacking(spec, home) or any(not _at_hand(part, known, root) for part in parts)
    )


def status(
    root: str | Path | None = None, names: str | Iterable[str] | None = None, *, datasets: Known | None = None
) -> list[dict[str, Any]]:
    """One row a data set: name, title, reduced, state, path, source, samples, shape, classes, groups, origin, licence, citation,
    detail.

    state: "present", "absent" (`detail` says what is lacking and what helps), "corrupt" (unreadable, or not the published content;
    `detail` says why) or "embedded". source: the set whose rows these are, "" for a set of its own; its state is that of both.
    """
    known = DATASETS if datasets is None else datasets
    seen: dict[str, tuple[str, str]] = {}
    return [_row(find(name, known), root, known, seen) for name in _names(names, known)]


def verify(
    names: str | Iterable[str] | None = None, root: str | Path | None = None, *, datasets: Known | None = None
) -> list[dict[str, Any]]:
    """Read the data sets (None: all with a cache of their own) again and compare their content; one row a set.

    Its columns: name, state, path, fingerprint, expected, detail.

    state: "ok", "absent" or "corrupt"; embedded sets are read too. `fingerprint` is None where nothing could be read.
    """
    known = DATASETS if datasets is None else datasets
    rows = []
    for name in _names(names, known):
        spec = find(name, known)
        if not names and spec.source:
            continue
        state, arrays, detail = _inspect(spec, root, known)
        rows.append(
            {
                "name": name,
                "state": "ok" if state in ("present", "embedded") else state,
                "path": None if spec.embedded else str(cache_path(spec.stored_as, root)),
                "fingerprint": None if arrays is None else arrays.fingerprint(),
                "expected": spec.fingerprint,
                "detail": detail,
            }
        )
    return rows


def _names(names: str | Iterable[str] | None, known: Known) -> list[str]:
    return list(dict.fromkeys([names] if isinstance(names, str) else names or known))


def _how_to_get(spec: DatasetSpec, root: str | Path | None, known: Known) -> str:
    """The command, and which parts nobody can download for the user."""
    parts = [find(name, known) for name in spec.made_of]
    first = [part.name for part in parts if part.by_hand and not cache_path(part.name, root).exists()]
    before = f", but first place by hand what `pflrepro data status {' '.join(first)}` says" if first else ""
    names = " and ".join(file.name for file in spec.files if not file.is_folder)
    by_hand = (
        f"; without a network, place {names} in {cache_path(spec.name, root).parent / FOLDER} first" if names else ""
    )
    return _GET.format(spec.stored_as) + before + by_hand


def _inspect(spec: DatasetSpec, root: str | Path | None, known: Known) -> tuple[str, Arrays | None, str]:
    """State, arrays (None where unreadable) and, for an absent or corrupt set, what is lacking or wrong."""
    if spec.embedded:
        try:
            return "embedded", load_arrays(spec.name, root, datasets={spec.name: spec}), ""
        except CorruptFile as error:
            return "corrupt", None, str(error)
    path = cache_path(spec.stored_as, root)
    try:
        arrays = as_described(spec, read_arrays(path, spec.stored_as))
        if spec.source:
            arrays = derived(spec, arrays)
    except FileNotFoundError:
        return "absent", None, how_to_place(spec, path.parent) if spec.by_hand else _how_to_get(spec, root, known)
    except UserError as error:
        return "corrupt", None, str(error)
    reason = mismatch(spec, arrays)
    if reason:
        return "corrupt", arrays, f"{path}: {reason}"
    state, detail = _photographs(spec, root)
    return state, arrays, detail


def _photographs(spec: DatasetSpec, root: str | Path | None) -> tuple[str, str]:
    """State and detail of a set whose arrays are there: what its shift blends in may still be lacking."""
    try:
        if needed_by(spec.shift):
            find_photographs(root)
    except MissingData as error:
        return "absent", str(error)
    except CorruptFile as error:
        return "corrupt", str(error)
    return "present", ""


def _state(
    spec: DatasetSpec, root: str | Path | None, known: Known, seen: dict[str, tuple[str, str]]
) -> tuple[str, str]:
    """State and detail. A set with the rows of another is as present as that one, which is read once for all of them."""
    if spec.embedded:  # not read here: that would import its package
        return "embedded", ""
    if spec.stored_as not in seen:
        seen[spec.stored_as] = _inspect(find(spec.stored_as, known), root, known)[::2]
    state, detail = seen[spec.stored_as]
    own = _photographs(spec, root)
    if state == "present" or not spec.source:
        return own if state == "present" else (state, detail)
    return state, "; ".join(filter(None, (f"made from {spec.source}, which is {state}: {detail}", own[1])))


def _row(
    spec: DatasetSpec, root: str | Path | None, known: Known, seen: dict[str, tuple[str, str]] | None = None
) -> dict[str, Any]:
    state, detail = _state(spec, root, known, {} if seen is None else seen)
    return {
        "name": spec.name,
        "title": spec.title,
        "reduced": spec.reduced,
        "state": state,
        "path": None if spec.embedded else str(cache_path(spec.stored_as, root)),
        "source": spec.source,
        "samples": spec.samples,
        "shape": list(spec.shape),
        "classes": spec.classes,
        "groups": spec.groups,
        "origin": spec.origin,
        "licence": spec.licence,
        "citation": spec.citation,
        "detail": detail,
    }


def _get_one(spec: DatasetSpec, known: Known, root: Path, progress: bool, say: Report, policy: Policy | None) -> str:
    """The action for one set with a cache of its own; where that must be made, the sets that it is made from are got first."""
    if _inspect(spec, root, known)[0] == "present":
        return "present"
    parts = [find(name, known) for name in spec.made_of]
    for part in sorted(parts, key=lambda part: not part.by_hand):  # what cannot be got is said before the rest is
        _get_one(part, known, root, progress, say, policy)
    with _alone(root / spec.name, spec.name, say):
        state, _, detail = _inspect(spec, root, known)
        if state == "present":
            return "present"
        if state == "corrupt":
            say(f"{detail}; making it anew")
        try:
            fetched = _make(spec, cache_path(spec.name, root), progress, policy)
        except OSError as error:
            which = f": {error.filename}" if error.filename else ""
            raise UserError(f"cannot make {root / spec.name}: {error.strerror or error}{which}") from None
        return "redone" if state == "corrupt" else "downloaded" if fetched else "converted"


@contextmanager
def _alone(folder: Path, name: str, say: Report) -> Iterator[None]:
    """Hold the data set's lock. The operating system releases it when the process ends, however it ends."""
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


def _make(spec: DatasetSpec, path: Path, progress: bool, policy: Policy | None) -> bool:
    """Find or download, decode, check, write; returns whether anything was downloaded.

    What was downloaded is removed at the end, and kept for a later resume where this breaks off.
    """
    if lacking(spec, path.parent):
        raise MissingData(how_to_place(spec, path.parent))
    folder = path.parent / ".download"
    originals = {name: cache_path(name, path.parent.parent) for name in spec.made_of}
    originals |= {file.role: found for file in spec.files if (found := placed(file, path.parent))}
    fetched = [file for file in spec.files if file.role not in originals]
    for file in fetched:
        folder.mkdir(exist_ok=True)
        with _bar(file.name, file.size, progress) as advance:
            originals[file.role] = fetch(file, file.mirrors or spec.mirrors, folder, policy or Policy(), advance)
    try:
        arrays = reader(spec.reader)(spec, originals)
        reason = mismatch(spec, arrays)
    except CorruptFile as error:
        reason = str(error)
    if reason:
        shutil.rmtree(folder, ignore_errors=True)
        if spec.made_of:
            raise CorruptFile(f"{spec.name} cannot be made from its parts: {reason}")
        if len(fetched) < len(spec.files):
            raise CorruptFile(f"the files placed by hand for {spec.name} are not the originals: {reason}")
        raise DownloadFailed(f"the sources of {spec.name} delivered something else: {reason}")
    if path.exists():
        os.replace(path, path.with_name(f"{path.name}.set-aside"))
    save_arrays(path, arrays)
    shutil.rmtree(folder, ignore_errors=True)
    return bool(fetched)


@contextmanager
def _bar(title: str, total: int | None, progress: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar in bytes; nothing at all where standard error is not a terminal."""
    quiet = not (progress and sys.stderr.isatty())
    with tqdm(total=total, desc=title, unit="B", unit_scale=True, unit_divisor=1024, disable=quiet) as bar:

        def advance(arrived: int) -> None:
            bar.update(arrived - bar.n)

        yield advance
