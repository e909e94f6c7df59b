"""Fingerprints are worked out once a file, also across processes, and anew for another file."""

from __future__ import annotations

from pathlib import Path

import pytest

from pflrepro.data.datasets import DATASETS
from pflrepro.errors import MissingData
from pflrepro.experiments import fingerprints, identity
from pflrepro.experiments.fingerprints import remembered_fingerprint
from pflrepro.remembered import read_cache

STAMP = (1, 2, 3)


def never() -> str:
    raise AssertionError("worked out anew")


def test_a_fingerprint_is_worked_out_once_a_file(tmp_path: Path) -> None:
    root = str(tmp_path)
    assert remembered_fingerprint("usps", root, STAMP, lambda: "first") == "first"
    assert remembered_fingerprint("usps", root, STAMP, never) == "first"
    assert remembered_fingerprint("usps", root, (1, 2, 4), lambda: "second") == "second", "another file"
    assert remembered_fingerprint("usps", str(tmp_path / "other"), STAMP, lambda: "third") == "third"
    assert remembered_fingerprint("har", root, STAMP, lambda: "fourth") == "fourth"
    assert sorted(read_cache(fingerprints.file()).values()) == ["first", "fourth", "second", "third"]


@pytest.mark.parametrize("content", ["", "[]", "{", '{"odd": 1}', "\x00"])
def test_a_damaged_file_of_them_is_done_without(content: str, tmp_path: Path) -> None:
    fingerprints.file().write_text(content)
    assert remembered_fingerprint("usps", str(tmp_path), STAMP, lambda: "first") == "first"
    assert remembered_fingerprint("usps", str(tmp_path), STAMP, never) == "first"


def test_a_folder_that_cannot_be_written_to_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(fingerprints, "file", lambda: tmp_path / "file" / "fingerprints.json")
    assert remembered_fingerprint("usps", str(tmp_path), STAMP, lambda: "first") == "first"


def test_bundled_data_have_the_declared_one_and_missing_data_none(tmp_path: Path) -> None:
    assert identity.data_fingerprint("digits") == DATASETS["digits"].fingerprint != ""
    with pytest.raises(MissingData, match="pflrepro data get fmnist"):
        identity.data_fingerprint("fmnist", tmp_path)
    assert not fingerprints.file().exists()
