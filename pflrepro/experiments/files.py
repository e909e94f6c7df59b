"""Files that are either whole or not there, and readers that trust none: no pickles, every damage is a `CorruptFile`."""

from __future__ import annotations

import bz2
import hashlib
import io
import json
import math
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from pflrepro.atomic import replacing
from pflrepro.data.arrays import DAMAGE
from pflrepro.errors import CorruptFile, UserError

MAPPED = 1 << 30  # bytes of an array from which on it is mapped from its file: a state may be larger than the memory
_LENGTHS = 26  # where the head of an archive's member says how long its name and its further fields are


def canonical_json(value: Any) -> str:
    """One text for one value: sorted keys, no spaces, ASCII, shortest float that reads back equal; NaN is refused.

    Whole numbers are written without a point, so that 1 and 1.0 (and -0.0 and 0) are the same text.
    """
    return json.dumps(_normal(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def _normal(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _normal(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_normal(entry) for entry in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def sha256(path: Path) -> str:
    """SHA-256 (hex) of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write(path: Path, content: bytes) -> None:
    """Write a file under a temporary name in its folder, then rename it; `UserError` if that is not possible."""
    with replacing(path) as file:
        file.write(content)


def write_named(folder: Path, name: str, ending: str, content: bytes) -> str:
    """`write` to a file whose name tells its content, `<name>-<first digits of its SHA-256><ending>`; gives that name."""
    named = f"{name}-{hashlib.sha256(content).hexdigest()[:8]}{ending}"
    write(folder / named, content)
    return named


def json_bytes(value: Any) -> bytes:
    """Indented JSON with sorted keys."""
    return (json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n").encode()


def write_json(path: Path, value: Any) -> None:
    """`write` as `json_bytes`."""
    write(path, json_bytes(value))


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """`write` as `npz_bytes`, array by array: the file is never in memory as a whole."""
    with replacing(path) as file:
        _archive(file, arrays, compress=False)


def npz_bytes(arrays: Mapping[str, np.ndarray], compress: bool = False) -> bytes:
    """Arrays as an npz; names may contain "/"; equal arrays give equal bytes, each compressed the way that makes it smaller."""
    buffer = io.BytesIO()
    _archive(buffer, arrays, compress)
    return buffer.getvalue()


def _archive(place: BinaryIO, arrays: Mapping[str, np.ndarray], compress: bool) -> None:
    with zipfile.ZipFile(place, "w") as archive:
        for name, array in arrays.items():
            # A fixed date, and not numpy's `savez`, which takes names such as "file" for its own arguments.
            member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            member.compress_type = _smaller(np.asarray(array)) if compress else zipfile.ZIP_STORED
            with archive.open(member, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)


def _smaller(array: np.ndarray) -> int:
    """The zip compression that makes an array smaller: bzip2 long ones with a pattern, such as predictions, deflate the others."""
    content = array.tobytes("A")
    return zipfile.ZIP_BZIP2 if len(bz2.compress(content)) < len(zlib.compress(content)) else zipfile.ZIP_DEFLATED


def read_npz(path: Path, chosen: Callable[[str], bool] = lambda name: True) -> dict[str, np.ndarray]:
    """The arrays of an npz, or those with a `chosen` name, decoded and checked by their CRC.

    `UserError` where it must not be read, `CorruptFile` for anything odd.
    """
    try:
        # Opened here, since numpy leaves a file open that turns out to be no archive.
        with open(path, "rb") as file:
            if not zipfile.is_zipfile(file):
                raise CorruptFile(f"{path.name} is not an npz archive")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                stored = [info for info in archive.zip.infolist() if info.compress_type == zipfile.ZIP_STORED]
                large = {info.filename for info in stored if info.file_size >= MAPPED}
                return {
                    name: _mapped(file, archive.zip, f"{name}.npy") if f"{name}.npy" in large else archive[name]
                    for name in filter(chosen, archive.files)
                }
    except PermissionError as error:
        raise unreadable(path, error) from None
    except DAMAGE as error:
        raise CorruptFile(f"{path.name} cannot be read: {_reason(error)}") from None


def _mapped(file: BinaryIO, archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """A member of `archive`, which is that of `file`, as `write_npz` writes it; checked by its CRC, then mapped and not read."""
    member = archive.getinfo(name)
    with archive.open(member) as stream:
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError(f"{name} is large, and not as it is written here")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
        header = stream.tell()
        while stream.read(1 << 20):  # to its end, where the sum is compared
            pass
    if dtype.hasobject or member.file_size != header + dtype.itemsize * math.prod(shape):
        raise ValueError(f"{name} is no plain array of its length")
    file.seek(member.header_offset + _LENGTHS)
    # behind the member's name and what else its head has
    start = file.tell() + 4 + sum(struct.unpack("<HH", file.read(4)))
    return np.memmap(file, dtype, "c", start + header, shape, order="F" if fortran else "C")


def unreadable(path: Path, error: OSError) -> UserError:
    """The error for what may be whole, but must not be read by this user."""
    return UserError(f"cannot read {path}: {error.strerror or error}")


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; `UserError` where it must not be read, `CorruptFile` for anything else."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except PermissionError as error:
        raise unreadable(path, error) from None
    except (OSError, ValueError, RecursionError) as error:
        raise CorruptFile(f"{path.name} cannot be read: {_reason(error)}") from None
    if not isinstance(value, dict):
        raise CorruptFile(f"{path.name} holds no JSON object")
    return value


def _reason(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or " ".join(str(error).split()) or type(error).__name__
    return text[:160]
