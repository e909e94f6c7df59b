"""The array cache: one npz a data set, read and written without pickles, never trusted unchecked."""

from __future__ import annotations

import hashlib
import lzma
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

import numpy as np

from pflrepro.atomic import replacing
from pflrepro.errors import CorruptFile, UserError
from pflrepro.markup import BriefArrays

REQUIRED = ("x", "y")
OPTIONAL = ("split", "group", "classes")
SHIFT_REVISION = 1  # of all that `pflrepro.data.shifts` does: raise it where the samples that clients see change


@dataclass(frozen=True, eq=False, repr=False)
class Arrays(BriefArrays):
    """The decoded arrays of one data set, in the cache's row order (pooled: official training rows, then test rows).

    Raises `CorruptFile` if the arrays do not fit together.

    Attributes:
        x: [N, ...] samples, as stored (uint8 images, float sensor arrays, integer token ids); not normalised.
        y: int64 [N], labels 0 .. C-1.
        split: uint8 [N] or None; 0 = official training row, 1 = official test row.
        group: int64 [N] or None; the writer, patient, user or domain of a row.
        classes: text [C] or None; the names of the classes.
        shift: what is done to the samples once their clients are known (see `pflrepro.data.shifts`); "" for nothing. Not in the
            file.
        tested_on: the fingerprint of other arrays whose test rows a shift takes, where no set says what it must be; "" otherwise.
            Not in the file.
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    split: np.ndarray | None = None
    group: np.ndarray | None = None
    classes: np.ndarray | None = None
    shift: str = ""
    tested_on: str = ""

    @classmethod
    def of_parts(cls, name: str, parts: Sequence[tuple[np.ndarray, ...]], class_names: Sequence[str]) -> Arrays:
        """The arrays of parts (x, y) or (x, y, group), the last of which is the official test part."""
        x, y, *group = (np.concatenate(column) for column in zip(*parts, strict=True))
        is_test = np.array([0] * (len(parts) - 1) + [1], dtype=np.uint8)
        split = np.repeat(is_test, [len(part[1]) for part in parts])
        return cls(name, x, y, split=split, group=group[0] if group else None, classes=np.array(class_names))

    def __post_init__(self) -> None:
        # One canonical dtype and byte order a key, so that equal data have equal fingerprints whoever wrote the file.
        canonical = {
            "x": _samples(self.name, self.x),
            "y": _integers(self.name, "y", self.y, np.int64, low=0),
            "split": _integers(self.name, "split", self.split, np.uint8, low=0, high=1),
            "group": _integers(self.name, "group", self.group, np.int64),
            "classes": _class_names(self.name, self.classes),
        }
        for key, value in canonical.items():
            object.__setattr__(self, key, value)
        for key in ("y", "split", "group"):
            value = canonical[key]
            if value is not None and len(value) != len(canonical["x"]):
                raise _odd(self.name, f"'{key}' has {len(value)} rows, 'x' has {len(canonical['x'])}")
        if self.classes is not None and int(self.y.max()) >= len(self.classes):
            raise _odd(self.name, f"label {int(self.y.max())} is beyond the {len(self.classes)} class names")

    def __len__(self) -> int:
        return len(self.y)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one stored sample, without the row axis."""
        return self.x.shape[1:]

    def labels(self) -> list[int]:
        """The labels that occur, in ascending order."""
        return np.unique(self.y).tolist()

    def fingerprint(self) -> str:
        """SHA-256 (hex) of dtype, shape and bytes of the decoded arrays that a run can see: x, y and, where present, group; and of
        the shift, with the revision of what it does, and `tested_on`.

        It does not depend on the file (compression, further keys), nor on `classes`, which no run reads, nor on `split`, by which
        shifts and first parts find the official training rows.
        """
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        digest = hashlib.sha256()
        for key in ("x", "y", "group"):
            value = getattr(self, key)
            if value is not None:
                digest.update(f"{key} {value.dtype.str} {value.shape}\n".encode())
                digest.update(value.data)
        if self.shift:
            digest.update(f"shift {self.shift} {SHIFT_REVISION}\n".encode())
        if self.tested_on:
            digest.update(f"tested on {self.tested_on}\n".encode())
        return digest.hexdigest()


def first_part(arrays: Arrays, count: int | None) -> Arrays:
    """The official training rows, which lie first; `CorruptFile` if the arrays do not say that there are `count` of them."""
    split = arrays.split
    if split is None or count is None or split[:count].any() or not split[count:].all() or len(split) <= count:
        raise CorruptFile(f"the arrays of {arrays.name!r} do not say which of their rows are official training rows")
    parts = {key: getattr(arrays, key) for key in ("x", "y", "split", "group")}
    return replace(arrays, **{key: None if value is None else value[:count] for key, value in parts.items()})


def save_arrays(path: Path, arrays: Arrays) -> None:
    """Write `arrays` as one uncompressed npz: to a temporary name in the same folder, then renamed (atomic).

    Raises `UserError` if the folder cannot be written.
    """
    path = Path(path)
    members = {key: getattr(arrays, key) for key in (*REQUIRED, *OPTIONAL)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror or error}") from None
    with replacing(path) as file:
        np.savez(file, **{key: value for key, value in members.items() if value is not None})


def read_arrays(path: Path, name: str | None = None) -> Arrays:
    """Read an array cache and check it; keys other than x, y, split, group, classes are ignored.

    Raises `FileNotFoundError` if there is no such file and `CorruptFile` for anything odd: see `read_members`, and arrays that do
    not fit together.
    """
    path = Path(path)
    members = read_members(path, REQUIRED, OPTIONAL)
    try:
        return Arrays(name=path.stem if name is None else name, **members)
    except CorruptFile as error:
        raise CorruptFile(f"{path} is corrupt: {error}") from None


def names_in(path: Path) -> list[str]:
    """The names of the arrays in an npz file that can be read."""
    with np.load(path, allow_pickle=False) as archive:
        return list(archive.files)


def read_members(path: Path, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, np.ndarray]:
    """The named arrays of an npz file, without pickles; optional ones only where they exist.

    Raises `FileNotFoundError`, `UserError` where the file must not be read, and `CorruptFile` for anything that is not a whole npz
    archive of plain arrays with the required keys.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise CorruptFile(f"{path} is corrupt: it is no file")
        with open(path, "rb") as stream:
            if not zipfile.is_zipfile(stream):
                raise CorruptFile(f"{path} is corrupt: not an npz archive")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as archive:
                _check_directory(stream, archive.zip)
                missing = [key for key in required if key not in archive.files]
                if missing:
                    raise CorruptFile(f"{path} is corrupt: it has no array {missing[0]!r}")
                return {key: archive[key] for key in (*required, *optional) if key in archive.files}
    except FileNotFoundError:
        raise
    except PermissionError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}") from None
    except DAMAGE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise CorruptFile(f"{path} is corrupt: {reason[:200]}") from None


def _check_directory(stream: BinaryIO, archive: zipfile.ZipFile) -> None:
    """`BadZipFile` if the archive's list leaves a member out or misnames it: it would pass for an optional one that is not there."""
    members = sorted(archive.infolist(), key=lambda member: member.header_offset)
    ends = [0]
    for member in members:
        archive.open(member).close()  # compares the name with the member's own
        stream.seek(member.header_offset + 26)
        lengths = struct.unpack("<HH", stream.read(4))  # of the name, and of what stands between it and the content
        ends.append(member.header_offset + 30 + sum(lengths) + member.compress_size)
    starts = (*(member.header_offset for member in members), archive.start_dir)
    # Behind a content may stand a descriptor, of at most 24 bytes.
    if any(start > end + 24 for start, end in zip(starts, ends, strict=True)):
        raise zipfile.BadZipFile("a member is missing in its list")


# What numpy, zipfile and json raise for damaged archives, truncated members, broken headers, pickled arrays and bad text.
DAMAGE = (
    OSError,
    ValueError,
    EOFError,
    TypeError,
    NotImplementedError,
    RuntimeError,
    MemoryError,
    SyntaxError,
    LookupError,
    ArithmeticError,
    tokenize.TokenError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)


def _odd(name: str, what: str) -> CorruptFile:
    return CorruptFile(f"the arrays of {name!r} do not fit together: {what}")


def _samples(name: str, value: np.ndarray) -> np.ndarray:
    value = np.asarray(value)
    if value.dtype.kind not in "biuf":
        raise _odd(name, f"'x' has dtype {value.dtype}, not numbers")
    if value.ndim < 2 or 0 in value.shape:
        raise _odd(name, f"'x' has shape {value.shape}, not [samples, ...]")
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        raise _odd(name, "'x' has values that are not finite")
    return np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))


def _integers(
    name: str, key: str, value: np.ndarray | None, dtype: type, low: int | None = None, high: int | None = None
) -> np.ndarray | None:
    if value is None:
        return None
    value = np.asarray(value)
    if value.dtype.kind not in "biu" or value.ndim != 1:
        raise _odd(name, f"{key!r} has dtype {value.dtype} and shape {value.shape}, not one whole number a row")
    if value.dtype == np.uint64 and len(value) and int(value.max()) > np.iinfo(np.int64).max:
        raise _odd(name, f"{key!r} has the value {value.max()}")
    for bound, wrong in ((low, lambda: value.min() < low), (high, lambda: value.max() > high)):
        if bound is not None and len(value) and wrong():
            raise _odd(name, f"{key!r} has values outside {low}..{'' if high is None else high}")
    return np.ascontiguousarray(value, dtype=np.dtype(dtype).newbyteorder("<"))


def _class_names(name: str, value: np.ndarray | None) -> np.ndarray | None:
    if value is None:
        return None
    value = np.asarray(value)
    if value.dtype.kind != "U" or value.ndim != 1 or not len(value):
        raise _odd(name, f"'classes' has dtype {value.dtype} and shape {value.shape}, not one text a class")
    return value
