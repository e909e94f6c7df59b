"""Archives and folders, read member by member into memory: nothing is unpacked to disk, nothing larger than promised is read."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from pflrepro.errors import CorruptFile, UserError

MOST_MEMBERS = 2_000_000
MOST_UNPACKED = 1 << 30  # bytes of a tar stream; the largest one read here has 186 MB

# What gzip, tarfile, zipfile and zlib raise for damaged archives.
DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    KeyError,
    RuntimeError,
    NotImplementedError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)


class FileTree(Protocol):
    """The files below a folder, or in a zip archive, by their relative names with forward slashes."""

    def names(self) -> list[str]: ...

    def read(self, name: str, limit: int) -> bytes: ...


def tar_members(path: Path, names: Iterable[str], limit: int) -> dict[str, bytes]:
    """The named regular members of a gzip-compressed tar archive, each of at most `limit` bytes.

    Raises `CorruptFile` for a missing, repeated, too large or irregular member and for damaged compression.
    """
    wanted, found = set(names), {}
    try:
        with gzip.open(path, "rb") as stream, tarfile.open(fileobj=_Bounded(stream), mode="r|") as archive:
            for member in archive:
                if member.name not in wanted:
                    continue
                if not member.isreg() or member.name in found:
                    raise CorruptFile(f"{path} is corrupt: {member.name} is not one plain file in it")
                if member.size > limit:
                    raise CorruptFile(
                        f"{path} is corrupt: {member.name} has {member.size:,} bytes, expected at most {limit:,}"
                    )
                found[member.name] = archive.extractfile(member).read()
    except DAMAGE as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise CorruptFile(f"{path} is corrupt: {_words(error)}") from None
    lacking = sorted(wanted - set(found))
    if lacking:
        raise CorruptFile(f"{path} is corrupt: it has no member {lacking[0]}")
    return found


class _Bounded:
    """A stream that ends with an error where a decompression bomb would go on."""

    def __init__(self, stream: io.BufferedIOBase) -> None:
        self._stream, self._left = stream, MOST_UNPACKED

    def read(self, size: int) -> bytes:
        if size < 0 or size > self._left:
            raise ValueError(f"it unpacks to more than {MOST_UNPACKED:,} bytes")
        chunk = self._stream.read(size)
        self._left -= len(chunk)
        return chunk


@contextmanager
def file_tree(path: Path) -> Iterator[FileTree]:
    """The files of the folder or zip archive at `path`; `CorruptFile` if it is neither."""
    if path.is_dir():
        yield _Folder(path)
        return
    try:
        archive = zipfile.ZipFile(path)
    except DAMAGE as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise CorruptFile(f"{path} is corrupt: {_words(error)}") from None
    with archive:
        yield _Zip(path, archive)


class _Zip:
    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self._path, self._archive, self._members = path, archive, {}
        members = archive.infolist()
        if len(members) > MOST_MEMBERS:
            raise CorruptFile(f"{path} is corrupt: it has {len(members):,} members")
        for member in members:
            if member.is_dir():
                continue
            if member.filename in self._members:
                raise CorruptFile(f"{path} is corrupt: it has two members {member.filename}")
            self._members[member.filename] = member

    def names(self) -> list[str]:
        return sorted(self._members)

    def read(self, name: str, limit: int) -> bytes:
        """The content of a member; the sizes its headers claim are not trusted."""
        if name not in self._members:
            raise CorruptFile(f"{self._path} is corrupt: it has no member {name}")
        try:
            with self._archive.open(self._members[name]) as stream:
                content = stream.read(limit + 1)
        except DAMAGE as error:
            raise CorruptFile(f"{self._path} is corrupt: {name}: {_words(error)}") from None
        if len(content) > limit:
            raise CorruptFile(f"{self._path} is corrupt: {name} has more than {limit:,} bytes")
        return content


class _Folder:
    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self) -> list[str]:
        files = (entry for entry in self._path.rglob("*") if entry.is_file() and not entry.is_symlink())
        return sorted(entry.relative_to(self._path).as_posix() for entry in files)

    def read(self, name: str, limit: int) -> bytes:
        path = self._path / name
        try:
            if path.stat().st_size > limit:
                raise CorruptFile(f"{path} is corrupt: it has more than {limit:,} bytes")
            return path.read_bytes()
        except FileNotFoundError:
            raise CorruptFile(f"{self._path} is incomplete: it has no file {name}") from None
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror or error}") from None


def _words(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
