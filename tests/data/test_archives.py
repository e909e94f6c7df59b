"""Archives and folders, read member by member: hostile ones harm nothing."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from pflrepro.data.readers import archives
from pflrepro.data.readers.archives import file_tree, tar_members
from pflrepro.errors import CorruptFile


def tar(path: Path, members: list[tuple[str, bytes]], odd: tarfile.TarInfo | None = None) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        if odd is not None:
            archive.addfile(odd)
    return path


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def link(name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


def test_the_named_members_are_read(tmp_path: Path) -> None:
    path = tar(tmp_path / "a.tar.gz", [("d/one", b"1"), ("d/other", b"x" * 9), ("d/two", b"22")])
    assert tar_members(path, ["d/two", "d/one"], 8) == {"d/one": b"1", "d/two": b"22"}


@pytest.mark.parametrize(
    ("members", "odd", "words"),
    [
        ([("a", b"1")], None, "no member b"),
        ([("a", b"1"), ("b", b"123456789")], None, "b has 9 bytes, expected at most 8"),
        ([("a", b"1"), ("b", b"2"), ("a", b"3")], None, "a is not one plain file"),
        ([("a", b"1")], link("b", "/etc/passwd"), "b is not one plain file"),
    ],
)
def test_odd_members_are_refused(tmp_path: Path, members: list, odd: tarfile.TarInfo | None, words: str) -> None:
    with pytest.raises(CorruptFile, match=words):
        tar_members(tar(tmp_path / "a.tar.gz", members, odd), ["a", "b"], 8)


def test_path_traversal_writes_nothing(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    names = ["../outside", "/outside", "a"]
    assert tar_members(tar(inside / "a.tar.gz", [(name, b"1") for name in names]), ["a"], 8) == {"a": b"1"}
    with file_tree(zipped(inside / "a.zip", dict.fromkeys(names, b"1"))) as tree:
        assert tree.names() == sorted(names) and tree.read("../outside", 8) == b"1"
        with pytest.raises(CorruptFile, match="no member b"):
            tree.read("b", 8)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.tar.gz", "a.zip", "inside"]


def test_bombs_are_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_UNPACKED", 100_000)
    path = tar(tmp_path / "a.tar.gz", [("bomb", bytes(5_000_000)), ("a", b"1")])
    with pytest.raises(CorruptFile, match="unpacks to more than 100,000"):
        tar_members(path, ["a"], 8)
    with (
        file_tree(zipped(tmp_path / "a.zip", {"bomb": bytes(5_000_000)})) as tree,
        pytest.raises(CorruptFile, match="bomb has more than 1,000"),
    ):
        tree.read("bomb", 1000)
    monkeypatch.setattr(archives, "MOST_MEMBERS", 2)
    with (
        pytest.raises(CorruptFile, match="has 3 members"),
        file_tree(zipped(tmp_path / "b.zip", dict.fromkeys("abc", b""))),
    ):
        pass


def test_a_size_that_lies_is_noticed(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip", {"bomb": bytes(5000)})
    content = path.read_bytes()
    path.write_bytes(content.replace((5000).to_bytes(4, "little"), (5).to_bytes(4, "little")))
    with file_tree(path) as tree, pytest.raises(CorruptFile):
        tree.read("bomb", 1000)


def test_damaged_archives_are_corrupt(tmp_path: Path) -> None:
    whole = tar(tmp_path / "a.tar.gz", [("a", bytes(range(256)) * 9)]).read_bytes()
    for content in (b"", b"text", whole[:-30], whole[:40], gzip.compress(b"no tar at all" * 99)):
        (tmp_path / "a.tar.gz").write_bytes(content)
        with pytest.raises(CorruptFile, match=r"a\.tar\.gz is corrupt"):
            tar_members(tmp_path / "a.tar.gz", ["a"], 9999)
    whole = zipped(tmp_path / "a.zip", {"a": bytes(range(256)) * 9}).read_bytes()
    for content in (b"", b"text", whole[:-10], whole[:50] + bytes([whole[50] ^ 255]) + whole[51:]):
        (tmp_path / "a.zip").write_bytes(content)
        with pytest.raises(CorruptFile, match=r"a\.zip is corrupt"), file_tree(tmp_path / "a.zip") as tree:
            tree.read("a", 9999)


def test_a_folder_is_read_without_its_links(tmp_path: Path) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "e" / "one").write_bytes(b"1")
    (tmp_path / "d" / "link").symlink_to("/etc/passwd")
    with file_tree(tmp_path / "d") as tree:
        assert tree.names() == ["e/one"] and tree.read("e/one", 1) == b"1"
        with pytest.raises(CorruptFile, match="more than 0 bytes"):
            tree.read("e/one", 0)
        with pytest.raises(CorruptFile, match="no file e/two"):
            tree.read("e/two", 9)


def test_a_missing_archive_is_not_a_corrupt_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        tar_members(tmp_path / "none", ["a"], 9)
    with pytest.raises(FileNotFoundError), file_tree(tmp_path / "none"):
        pass
