"""MATLAB files: SVHN's format 2 and EMNIST's structs, written by scipy in small."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from data_sources import has_form

from pflrepro.data.datasets import DATASETS
from pflrepro.data.readers.matlab import emnist_by_class, house_numbers
from pflrepro.errors import CorruptFile

RANDOM = np.random.default_rng(0)
SVHN, EMNIST = DATASETS["svhn"], DATASETS["emnist"]


def numbers(count: int = 4, **changes: object) -> dict[str, object]:
    x = RANDOM.integers(0, 256, (32, 32, 3, count), dtype=np.uint8)
    return {"X": x, "y": np.arange(1, count + 1, dtype=np.uint8)[:, None], **changes}


def written(folder: Path, train: dict[str, object], test: dict[str, object]) -> dict[str, Path]:
    paths = {"train": folder / "train_32x32.mat", "test": folder / "test_32x32.mat"}
    for role, values in (("train", train), ("test", test)):
        scipy.io.savemat(paths[role], values, do_compression=True)
    return paths


def test_house_numbers_are_rgb_planes_and_ten_is_zero(tmp_path: Path) -> None:
    train, test = numbers(10), numbers(2, y=np.array([[10], [9]], dtype=np.uint8))
    arrays = house_numbers(SVHN, written(tmp_path, train, test))
    assert arrays.x.shape == (12, 3, 32, 32) and arrays.x.dtype == np.uint8
    assert arrays.y.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 9]
    assert arrays.split.tolist() == [0] * 10 + [1] * 2
    assert arrays.x[3, 2, 5, 6] == train["X"][5, 6, 2, 3], "the file's axes are height, width, channel, image"
    np.testing.assert_array_equal(arrays.x[11], test["X"][:, :, :, 1].transpose(2, 0, 1))
    assert has_form(SVHN, arrays)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"X": np.zeros((32, 32, 3, 4))}, "types float64"),
        ({"X": np.zeros((32, 31, 3, 4), np.uint8)}, r"shape \(32, 31, 3, 4\)"),
        ({"X": np.zeros((32, 32, 4), np.uint8)}, "'X' with 4 axes"),
        ({"y": np.array([[1], [2]])}, "2 labels for 4 images"),
        ({"y": np.array([[1], [2], [3], [11]])}, "other than 0..10"),
        ({"y": np.array([[1], [2], [3], [0.5]])}, "other than 0..10"),
        ({"y": "text"}, "corrupt"),
    ],
)
def test_odd_house_numbers_are_refused(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    with pytest.raises(CorruptFile, match=words) as caught:
        house_numbers(SVHN, written(tmp_path, numbers(), numbers(**changes)))
    assert "\n" not in str(caught.value) and "test_32x32.mat is corrupt" in str(caught.value)


def test_an_announced_bomb_is_not_read(tmp_path: Path) -> None:
    paths = written(tmp_path, numbers(), {"X": np.zeros((40_000, 1_000), np.uint8), "y": np.zeros((1, 1))})
    with pytest.raises(CorruptFile, match="4 axes"):
        house_numbers(SVHN, paths)


def test_damaged_matlab_files_are_corrupt(tmp_path: Path) -> None:
    paths = written(tmp_path, numbers(), numbers(1))
    whole = paths["test"].read_bytes()
    for length in range(0, len(whole), 97):
        paths["test"].write_bytes(whole[:length])
        with pytest.raises(CorruptFile, match=r"test_32x32\.mat is corrupt"):
            house_numbers(SVHN, paths)
    good = house_numbers(SVHN, written(tmp_path, numbers(), numbers(1))).x.shape
    for position in range(0, len(whole), 53):
        paths["test"].write_bytes(whole[:position] + bytes([whole[position] ^ 0x55]) + whole[position + 1 :])
        try:
            assert house_numbers(SVHN, paths).x.shape == good
        except CorruptFile as error:
            assert "\n" not in str(error)


def characters(count: int, **changes: object) -> dict[str, object]:
    return {
        "images": RANDOM.integers(0, 256, (count, 784), dtype=np.uint8),
        "labels": RANDOM.integers(0, 62, (count, 1)).astype(np.uint8),
        "writers": RANDOM.integers(0, 9, (count, 1)).astype(np.uint16),
        **changes,
    }


MAPPING = np.array([[label, ord(name)] for label, name in enumerate(EMNIST.class_names)], dtype=np.uint8)


def emnist(folder: Path, **dataset: object) -> dict[str, Path]:
    stream = io.BytesIO()
    values = {"train": characters(6), "test": characters(3), "mapping": MAPPING} | dataset
    scipy.io.savemat(stream, {"dataset": values}, do_compression=True)
    with zipfile.ZipFile(folder / "matlab.zip", "w") as archive:
        archive.writestr("matlab/emnist-byclass.mat", stream.getvalue())
        archive.writestr("matlab/emnist-digits.mat", b"not read")
    return {"archive": folder / "matlab.zip"}


def test_emnist_stands_upright_and_knows_its_writers(tmp_path: Path) -> None:
    train, test = characters(6), characters(3)
    train["images"][0] = 0
    train["images"][0, 5 * 28 + 2] = 255  # MATLAB stores columns: column 5, row 2
    arrays = emnist_by_class(EMNIST, emnist(tmp_path, train=train, test=test))
    assert arrays.x.shape == (9, 28, 28) and arrays.x[0, 2, 5] == 255 and arrays.x[0].sum() == 255
    assert arrays.y.tolist() == [*train["labels"].flat, *test["labels"].flat]
    assert arrays.group.tolist() == [*train["writers"].flat, *test["writers"].flat]
    assert arrays.split.tolist() == [0] * 6 + [1] * 3 and arrays.classes[36] == "a"
    assert has_form(EMNIST, arrays)


@pytest.mark.parametrize(
    ("dataset", "words"),
    [
        ({"mapping": MAPPING[::-1]}, "do not stand for the 62 characters"),
        ({"mapping": MAPPING[:5]}, "do not stand for the 62 characters"),
        ({"test": characters(3, images=np.zeros((3, 783), np.uint8))}, "images of shape"),
        ({"test": characters(3, writers=np.zeros((2, 1)))}, "2 writers for 3 images"),
        ({"test": characters(3, labels=np.array([[0.5]] * 3))}, "labels for 3 images, or no numbers"),
        ({"test": characters(3, labels=np.array([[62]] * 3))}, "label 62"),
        ({"test": {"images": np.zeros((3, 784), np.uint8)}}, "no field 'labels'"),
        ({"train": 3}, "no field 'images'"),
    ],
)
def test_odd_emnist_files_are_refused(tmp_path: Path, dataset: dict[str, object], words: str) -> None:
    with pytest.raises(CorruptFile, match=words) as caught:
        emnist_by_class(EMNIST, emnist(tmp_path, **dataset))
    assert "\n" not in str(caught.value)


def test_an_archive_without_the_file_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "matlab.zip", "w") as archive:
        archive.writestr("emnist-byclass.mat", b"")
    with pytest.raises(CorruptFile, match=r"no member matlab/emnist-byclass\.mat"):
        emnist_by_class(EMNIST, {"archive": tmp_path / "matlab.zip"})
