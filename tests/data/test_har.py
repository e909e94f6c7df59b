"""UCI-HAR's text files in a zip archive."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from pflrepro.data.datasets import load_arrays
from pflrepro.data.readers.har import CHANNELS, STEPS, interleaved_windows, windows
from pflrepro.data.sets.sensors import HAR, HAR_INTERLEAVED
from pflrepro.errors import CorruptFile, MissingData

# Read before the fixture that hides the user's data root from tests.
DATA_ROOT = os.environ.get("PFLREPRO_DATA")
LENGTHS = {"train": 3, "test": 2}


def signal(part: str, channel: int) -> np.ndarray:
    """Values that tell part, channel, window and step."""
    window, step = np.mgrid[0 : LENGTHS[part], 0:128]
    return (1000 if part == "test" else 0) + 100 * channel + 10 * window + step / 128 - 5


def members() -> dict[str, str]:
    """The archive's members in the official format: numbers in columns of 16 characters, with three digits of exponent."""
    found = {"UCI HAR Dataset/README.txt": "Human Activity Recognition", "__MACOSX/train/._y_train.txt": "\0"}
    for part, length in LENGTHS.items():
        for number, channel in enumerate(CHANNELS):
            lines = ["".join(f"{value: 16.7e}".replace("e+", "e+0") for value in row) for row in signal(part, number)]
            found[f"UCI HAR Dataset/{part}/Inertial Signals/{channel}_{part}.txt"] = "\n".join(lines) + "\n"
        found[f"UCI HAR Dataset/{part}/y_{part}.txt"] = "".join(f"{6 - row} \n" for row in range(length))
        found[f"UCI HAR Dataset/{part}/subject_{part}.txt"] = "".join(f"{10 * row + 1}\n" for row in range(length))
    return found


def archive(folder: Path, content: dict[str, str]) -> dict[str, Path]:
    path = folder / "UCI HAR Dataset.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as stream:
        for name, text in content.items():
            stream.writestr(name, text)
    return {"archive": path}


def test_windows_have_their_axes_in_order(tmp_path: Path) -> None:
    arrays = windows(HAR, archive(tmp_path, members()))
    assert arrays.x.shape == (5, 9, 1, 128) and arrays.x.dtype == np.float32 and arrays.shape == HAR.shape
    for channel in range(9):
        expected = np.concatenate([signal(part, channel) for part in LENGTHS])
        np.testing.assert_allclose(arrays.x[:, channel, 0], expected, rtol=1e-6)
    assert arrays.y.tolist() == [5, 4, 3, 5, 4]
    assert arrays.group.tolist() == [1, 11, 21, 1, 11]
    assert arrays.split.tolist() == [0, 0, 0, 1, 1]


def test_pfllib_mixes_time_and_channels(tmp_path: Path) -> None:
    """Its "channel" 0, step 10 is the second step's second channel: it reads [128, 9] row by row."""
    paths = archive(tmp_path, members())
    right, mixed = windows(HAR, paths), interleaved_windows(HAR_INTERLEAVED, paths)
    assert mixed.x.shape == right.x.shape and mixed.name == "har-interleaved"
    assert mixed.x[2, 0, 0, 10] == right.x[2, 1, 0, 1]
    assert mixed.x[2, 8, 0, 127] == right.x[2, 8, 0, 127]
    np.testing.assert_array_equal(np.sort(mixed.x[4], axis=None), np.sort(right.x[4], axis=None))
    assert mixed.fingerprint() != right.fingerprint()


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("train/y_train.txt", "1\n2\n7\n", "something else than whole numbers from 1 to 6"),
        ("train/y_train.txt", "1\n2\n0\n", "from 1 to 6"),
        ("test/subject_test.txt", "1\n31\n", "from 1 to 30"),
        ("test/subject_test.txt", "1\n2.5\n", "from 1 to 30"),
        ("test/y_test.txt", "1\n", "its test files have 1 to 2 lines, expected equally many"),
        ("test/y_test.txt", "", "0 values on 0 lines"),
        ("train/Inertial Signals/total_acc_z_train.txt", "1 2 3\n", "3 values on 1 lines, expected 128 on each"),
        ("train/Inertial Signals/total_acc_z_train.txt", "1 2 x\n", "not a number"),
        ("train/Inertial Signals/body_acc_x_train.txt", " nan" * 128 + "\n", "not finite"),
    ],
)
def test_a_damaged_member_is_refused(tmp_path: Path, name: str, text: str, words: str) -> None:
    paths = archive(tmp_path, members() | {f"UCI HAR Dataset/{name}": text})
    with pytest.raises(CorruptFile) as caught:
        windows(HAR, paths)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_missing_doubled_and_truncated(tmp_path: Path) -> None:
    content = members()
    kept = {name: text for name, text in content.items() if not name.endswith("body_gyro_y_test.txt")}
    with pytest.raises(CorruptFile, match=r"0 files test/Inertial Signals/body_gyro_y_test\.txt, expected one"):
        windows(HAR, archive(tmp_path, kept))
    with pytest.raises(CorruptFile, match=r"2 files train/y_train\.txt"):
        windows(HAR, archive(tmp_path, content | {"copy/train/y_train.txt": "1\n2\n3\n"}))
    path = archive(tmp_path, content)["archive"]
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(CorruptFile, match="corrupt"):
        windows(HAR, {"archive": path})


@pytest.mark.skipif(DATA_ROOT is None, reason="needs the real signals: set PFLREPRO_DATA")
@pytest.mark.parametrize("name", ["har", "har-interleaved"])
def test_the_real_signals_have_the_released_counts(name: str) -> None:
    try:
        arrays = load_arrays(name, DATA_ROOT)
    except MissingData as error:
        pytest.skip(str(error))
    assert np.bincount(arrays.y).tolist() == [1722, 1544, 1406, 1777, 1906, 1944]
    assert np.bincount(arrays.split).tolist() == [7352, 2947]
    assert np.unique(arrays.group[arrays.split == 1]).tolist() == [2, 4, 9, 10, 12, 13, 18, 20, 24]
    people = np.bincount(arrays.group)
    assert len(people) == 31 and people[1:].min() == 281 and people[1:].max() == 409


def test_the_two_arrangements_are_told_apart() -> None:
    time = np.linspace(0, 2, STEPS)
    body = np.random.default_rng(0).normal(0, 0.3, (5, 3, STEPS))
    gravity = np.stack([np.cos(time), np.sin(time), 0 * time])
    signals = np.concatenate([body, body, body + gravity], axis=1)[:, :, None].astype(np.float32)
    mixed = np.ascontiguousarray(signals[:, :, 0].transpose(0, 2, 1)).reshape(signals.shape)
    assert HAR.odd(signals) is None and HAR_INTERLEAVED.odd(mixed) is None
    assert HAR.odd(mixed) == "time and channels are interleaved: that is har-interleaved"
    assert HAR_INTERLEAVED.odd(signals) == "time and channels are not interleaved: that is har"
