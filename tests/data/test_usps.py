"""USPS in LIBSVM's text, compressed with bzip2."""

from __future__ import annotations

import bz2
from pathlib import Path

import numpy as np
import pytest
from data_sources import has_form

from pflrepro.data.datasets import DATASETS
from pflrepro.data.readers import libsvm
from pflrepro.errors import CorruptFile

USPS = DATASETS["usps"]


def line(label: int, values: np.ndarray) -> str:
    return f"{label} " + " ".join(f"{k}:{value:.3f}" for k, value in enumerate(values, 1)) + " \n"


def written(folder: Path, train: str, test: str) -> dict[str, Path]:
    paths = {"train": folder / "usps.bz2", "test": folder / "usps.t.bz2"}
    for role, text in (("train", train), ("test", test)):
        paths[role].write_bytes(bz2.compress(text.encode()))
    return paths


def test_digits_labels_and_grey_values(tmp_path: Path) -> None:
    grey = np.random.default_rng(0).integers(-1000, 1001, (3, 256)) / 1000
    paths = written(tmp_path, line(7, grey[0]) + line(1, grey[1]), line(10, grey[2]))
    arrays = libsvm.usps(USPS, paths)
    assert arrays.x.shape == (3, 16, 16) and arrays.x.dtype == np.float32
    np.testing.assert_array_equal(arrays.x.reshape(3, -1), grey.astype(np.float32))
    assert arrays.y.tolist() == [6, 0, 9] and arrays.split.tolist() == [0, 0, 1]
    assert has_form(USPS, arrays)


def test_a_pixel_that_is_left_out_is_zero(tmp_path: Path) -> None:
    arrays = libsvm.usps(USPS, written(tmp_path, "3 2:-1 256:0.5\n", "1 1:1\n"))
    assert arrays.x[0, 0, :3].tolist() == [0.0, -1.0, 0.0] and arrays.x[0, 15, 15] == 0.5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("3 1:0.5\n11 1:0.5\n", "line 2 has a label or position out of range"),
        ("0 1:0.5\n", "line 1 has a label"),
        ("3 0:0.5\n", "line 1 has a label or position"),
        ("3 257:0.5\n", "line 1 is no label"),
        ("3 1:x\n", "line 1 is no label"),
        ("3 1:1:1\n", "line 1 is no label"),
        ("x 1:0.5\n", "line 1 is no label"),
        ("3\n", "line 1 is no label"),
        ("3 1:1.5\n", "outside -1..1"),
        ("3 1:nan\n", "outside -1..1"),
    ],
)
def test_odd_text_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(CorruptFile, match=words) as caught:
        libsvm.usps(USPS, written(tmp_path, "1 1:0\n", text))
    assert "usps.t.bz2 is corrupt" in str(caught.value) and "\n" not in str(caught.value)


def test_damage_and_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = written(tmp_path, "1 1:0\n" * 99, "1 1:0\n")
    whole = paths["train"].read_bytes()
    for content in (b"1 1:0", whole[:-9], whole[:20] + bytes([whole[20] ^ 255]) + whole[21:]):
        paths["train"].write_bytes(content)
        with pytest.raises(CorruptFile, match=r"usps\.bz2 is corrupt"):
            libsvm.usps(USPS, paths)
    monkeypatch.setattr(libsvm, "_LIMIT", 100)
    with pytest.raises(CorruptFile, match="unpacks to more than 100"):
        libsvm.usps(USPS, written(tmp_path, "1 1:0\n" * 99, "1 1:0\n"))
