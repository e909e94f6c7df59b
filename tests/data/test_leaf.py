"""FEMNIST as LEAF writes it, and MNIST-M as Digit-5 does."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from data_sources import has_form

from pflrepro.data.datasets import DATASETS
from pflrepro.data.readers.leaf import femnist
from pflrepro.data.readers.mnistm import mnistm
from pflrepro.errors import CorruptFile

FEMNIST, MNISTM = DATASETS["femnist"], DATASETS["mnistm"]
RANDOM = np.random.default_rng(0)


def samples(count: int, **changes: object) -> dict[str, object]:
    grey = RANDOM.integers(0, 256, (count, 784)) / 255
    return {"x": grey.tolist(), "y": RANDOM.integers(0, 62, count).tolist(), **changes}


def written(folder: Path, *files: dict[str, object] | str) -> dict[str, Path]:
    (folder / "all_data").mkdir()
    for number, users in enumerate(files):
        content = (
            users
            if isinstance(users, str)
            else json.dumps({"users": list(users), "num_samples": [0] * len(users), "user_data": users})
        )
        (folder / "all_data" / f"all_data_{number}.json").write_text(content)
    return {"writers": folder / "all_data"}


def test_writers_are_numbered_in_file_order(tmp_path: Path) -> None:
    # twelve files: 10 and 11 come after 9, not after 1
    users = [{f"f{k:04}_{k}": samples(k % 3 + 1)} for k in range(12)]
    users[5] |= {"empty": samples(0), "second": samples(4)}
    arrays = femnist(FEMNIST, written(tmp_path, *users))
    sizes = [1, 2, 3, 1, 2, 3, 4, 1, 2, 3, 1, 2, 3]
    assert np.bincount(arrays.group).tolist() == sizes
    assert arrays.x.shape == (sum(sizes), 28, 28) and arrays.x.dtype == np.uint8
    first = np.array(users[0]["f0000_0"]["x"])
    np.testing.assert_array_equal(arrays.x[0].reshape(-1), (255 * first[0]).astype(np.uint8))
    assert arrays.y[-3:].tolist() == users[11]["f0011_11"]["y"] and arrays.split is None
    assert has_form(FEMNIST, arrays)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("", "no LEAF file"),
        ("[]", "no LEAF file"),
        ('{"users": ["a"], "user_data": {}}', "no LEAF file"),
        ("[" * 100_000, "no LEAF file"),
        ({"a": samples(2, y=[1])}, "784 values in 0..1 for each of 1 labels"),
        ({"a": samples(2, x=[[0.5] * 783] * 2)}, "784 values"),
        ({"a": samples(2, x=[[0.5] * 784, [0.5] * 783])}, "writer a is corrupt"),
        ({"a": samples(1, x=[[1.5] * 784])}, "784 values in 0..1"),
        ({"a": samples(1, x=[["x"] * 784])}, "writer a is corrupt"),
        ({"a": samples(1, y=[62])}, "whole numbers in 0..61"),
        ({"a": samples(1, y=3)}, "its labels are no list"),
        ({"a": samples(1, y=[0.5])}, "whole numbers in 0..61"),
        ({"a": samples(0)}, "no writer with samples"),
        ({"a": {"x": []}}, "writer a is corrupt"),
    ],
)
def test_odd_leaf_files_are_refused(tmp_path: Path, file: dict[str, object] | str, words: str) -> None:
    with pytest.raises(CorruptFile, match=words) as caught:
        femnist(FEMNIST, written(tmp_path, file))
    assert "\n" not in str(caught.value)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorruptFile, match="no files all_data_<number>"):
        femnist(FEMNIST, written(tmp_path))


def digits(**changes: object) -> dict[str, object]:
    values: dict[str, object] = {}
    for part, count in (("train", 5), ("valid", 2), ("test", 3)):
        values[part] = RANDOM.integers(0, 256, (count, 28, 28, 3), dtype=np.uint8)
        values[f"{part}_label"] = RANDOM.integers(0, 10, count)
    return {key: value for key, value in (values | changes).items() if value is not None}


def pickled(folder: Path, values: object) -> dict[str, Path]:
    path = folder / "mnistm_data.pkl"
    path.write_bytes(values if isinstance(values, bytes) else pickle.dumps(values))
    return {"pickle": path}


def test_mnistm_pools_its_three_parts(tmp_path: Path) -> None:
    values = digits()
    arrays = mnistm(MNISTM, pickled(tmp_path, values))
    assert arrays.x.shape == (10, 3, 28, 28) and arrays.split.tolist() == [0] * 7 + [1] * 3
    np.testing.assert_array_equal(arrays.x[5], values["valid"][0].transpose(2, 0, 1))
    assert arrays.y.tolist() == [*values["train_label"], *values["valid_label"], *values["test_label"]]
    assert has_form(MNISTM, arrays)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (digits(valid=None), "'valid' is not uint8"),
        (digits(valid=np.zeros((2, 28, 28), np.uint8)), "'valid' is not uint8"),
        (digits(test_label=None), "'test_label' is not one digit"),
        (digits(test_label=np.array([1, 2])), "one digit for each of 3"),
        (digits(test_label=np.array([1, 2, 10])), "one digit"),
        (pickle.dumps(digits())[:-5000], "is corrupt"),
        (b"cos\nsystem\n(S'true'\ntR.", r"asks for os\.system"),
    ],
)
def test_odd_mnistm_files_are_refused(tmp_path: Path, values: object, words: str) -> None:
    with pytest.raises(CorruptFile, match=words):
        mnistm(MNISTM, pickled(tmp_path, values))


def test_writers_that_are_lost_or_doubled_are_noticed(tmp_path: Path) -> None:
    """The first writers in file order are those of a table: none may be missing before them, or be two clients."""
    users = [{f"writer {k}": samples(2)} for k in range(3)]
    paths = written(tmp_path, *users)
    (paths["writers"] / "all_data_0.json").rename(tmp_path / "away.json")
    with pytest.raises(CorruptFile, match=r"one file all_data_<k>.json for each k from 0 on; look at k = 0"):
        femnist(FEMNIST, paths)
    (tmp_path / "away.json").rename(paths["writers"] / "all_data_0.json")
    (paths["writers"] / "copy").mkdir()
    (paths["writers"] / "copy" / "all_data_1.json").write_text("{}")
    with pytest.raises(CorruptFile, match="look at k = 1"):
        femnist(FEMNIST, paths)
    (paths["writers"] / "copy" / "all_data_1.json").rename(paths["writers"] / "all_data_3.json")
    (paths["writers"] / "all_data_3.json").write_text((paths["writers"] / "all_data_1.json").read_text())
    with pytest.raises(
        CorruptFile, match=r"all_data_3.json\) has the writer writer 1, who is in .*all_data_1.json already"
    ):
        femnist(FEMNIST, paths)
