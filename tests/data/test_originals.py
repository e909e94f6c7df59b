"""Files that a user placed: found, checked, read; and what is said where they are missing."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from data_server import Mirror, serve
from data_sources import tiny_sources, tiny_spec

from pflrepro.data.datasets import DATASETS, SourceFile, load_arrays
from pflrepro.data.download import get, status
from pflrepro.data.fetch import DownloadFailed, Policy
from pflrepro.errors import CorruptFile, MissingData

POLICY = Policy(timeout=0.3, loopback_http=True)


def place(root: Path, files: dict[str, bytes], name: str = "tiny") -> Path:
    folder = root / name / "original"
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        (folder / file).write_bytes(content)
    return folder


def manual(sources: dict[str, bytes]) -> dict:
    return {"tiny": tiny_spec(sources, by_hand="ask the authors")}


def test_what_is_missing_is_said_at_once(tmp_path: Path, sources: dict[str, bytes]) -> None:
    known = manual(sources)
    place(tmp_path, {"train_images.gz": sources["train_images.gz"]})
    with pytest.raises(MissingData) as caught:
        get("tiny", tmp_path, datasets=known)
    message = str(caught.value)
    assert "ask the authors" in message and str(tmp_path / "tiny" / "original") in message and "\n" not in message
    assert all(name in message for name in sources) and "pflrepro data get tiny" in message
    row = status(tmp_path, datasets=known)[0]
    assert row["state"] == "absent" and row["detail"] == message


def test_all_sets_together_leave_out_what_must_be_placed(tmp_path: Path, sources: dict[str, bytes]) -> None:
    assert [row["action"] for row in get(None, tmp_path, datasets=manual(sources))] == ["by hand"]
    place(tmp_path, sources)
    assert [row["action"] for row in get(None, tmp_path, datasets=manual(sources))] == ["converted"]


def test_placed_files_are_read_and_stay(tmp_path: Path, sources: dict[str, bytes]) -> None:
    folder = place(tmp_path, sources)
    known = manual(sources)
    assert get("tiny", tmp_path, datasets=known)[0]["action"] == "converted"
    assert len(load_arrays("tiny", tmp_path, datasets=known)) == 40
    assert {path.name for path in folder.iterdir()} == set(sources)
    assert get("tiny", tmp_path, datasets=known)[0]["action"] == "present"


def test_a_wrong_file_is_named(tmp_path: Path, sources: dict[str, bytes]) -> None:
    place(tmp_path, sources | {"test_labels.gz": b"rubbish"})
    with pytest.raises(CorruptFile, match=r"test_labels\.gz is not the published file: it has 7 bytes"):
        get("tiny", tmp_path, datasets=manual(sources))
    unchecked = tuple(SourceFile(file.role, file.name) for file in manual(sources)["tiny"].files)
    known = {"tiny": replace(manual(sources)["tiny"], files=unchecked)}
    with pytest.raises(CorruptFile, match=r"placed by hand for tiny are not the originals: .*test_labels\.gz"):
        get("tiny", tmp_path, datasets=known)
    assert not (tmp_path / "tiny" / "tiny.npz").exists()


def test_a_placed_file_saves_its_download(tmp_path: Path, sources: dict[str, bytes]) -> None:
    place(tmp_path, {name: sources[name] for name in ("train_images.gz", "test_images.gz")})
    with serve(Mirror(sources)) as mirror:
        known = {"tiny": tiny_spec(sources, mirror.address)}
        assert get("tiny", tmp_path, policy=POLICY, datasets=known)[0]["action"] == "downloaded"
    assert sorted(name for name, _ in mirror.requests) == ["test_labels.gz", "train_labels.gz"]
    assert not (tmp_path / "tiny" / ".download").exists()


def test_a_file_can_have_mirrors_of_its_own(tmp_path: Path, sources: dict[str, bytes]) -> None:
    with serve(Mirror(sources)) as mirror:
        spec = tiny_spec(sources)
        known = {"tiny": replace(spec, files=tuple(replace(f, mirrors=(mirror.address,)) for f in spec.files))}
        assert get("tiny", tmp_path, policy=POLICY, datasets=known)[0]["action"] == "downloaded"


def test_a_size_that_nobody_publishes(tmp_path: Path, sources: dict[str, bytes]) -> None:
    def known(address: str) -> dict:
        spec = tiny_spec(sources, address)
        return {"tiny": replace(spec, files=tuple(replace(file, size=None) for file in spec.files))}

    with serve(Mirror(sources, break_after=100)) as mirror, pytest.raises(DownloadFailed, match="ended after 300 of"):
        get("tiny", tmp_path, policy=POLICY, datasets=known(mirror.address))
    with serve(Mirror(sources)) as mirror:
        assert get("tiny", tmp_path, policy=POLICY, datasets=known(mirror.address))[0]["action"] == "downloaded"
    assert mirror.requests[0] == ("train_images.gz", "bytes=300-")
    with (
        serve(Mirror(sources, endless=b"x")) as mirror,
        pytest.raises(DownloadFailed, match=r"wrong checksum \(SHA-256"),
    ):
        get("tiny", tmp_path / "other", policy=POLICY, datasets=known(mirror.address))


def test_a_folder_or_its_archive(tmp_path: Path) -> None:
    known = {"pacs": replace(DATASETS["pacs"], samples=8)}
    with pytest.raises(MissingData, match=r"the folder PACS/ \(or PACS\.zip\)"):
        get("pacs", tmp_path, datasets=known)
    folder = place(tmp_path, {}, "pacs")
    with zipfile.ZipFile(folder / "PACS.zip", "w") as archive:
        archive.writestr("photo/dog/a.jpg", b"no picture")
    with pytest.raises(CorruptFile, match=r"PACS\.zip has pictures of 1 domains"):
        get("pacs", tmp_path, datasets=known)
    (folder / "PACS").mkdir()
    with pytest.raises(CorruptFile, match=r"PACS has pictures of 0 domains"):
        get("pacs", tmp_path, datasets=known)


def test_the_sum_of_a_placed_file_is_compared(tmp_path: Path) -> None:
    sources = tiny_sources()
    wrong = hashlib.md5(b"other", usedforsecurity=False).hexdigest()
    spec = manual(sources)["tiny"]
    known = {"tiny": replace(spec, files=tuple(replace(file, sha256=None, md5=wrong) for file in spec.files))}
    place(tmp_path, sources)
    with pytest.raises(CorruptFile, match="wrong checksum"):
        get("tiny", tmp_path, datasets=known)
    assert np.all([(tmp_path / "tiny" / "original" / name).read_bytes() == sources[name] for name in sources])
