"""CIFAR's archives, as their authors made them, in small."""

from __future__ import annotations

import io
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
from data_sources import has_form

from pflrepro.data.datasets import DATASETS
from pflrepro.data.readers.cifar import cifar10, cifar100
from pflrepro.errors import CorruptFile

RANDOM = np.random.default_rng(0)


def batch(count: int, key: str = "labels", **changes: object) -> dict[bytes, object]:
    """One batch with the byte-string keys of Python 2."""
    values = {
        b"batch_label": b"a batch",
        key.encode(): RANDOM.integers(0, 10, count).tolist(),
        b"data": RANDOM.integers(0, 256, (count, 3072), dtype=np.uint8),
        b"filenames": [f"{k}.png".encode() for k in range(count)],
    }
    return values | {name.encode(): value for name, value in changes.items()}


def ten() -> dict[str, object]:
    names = [f"data_batch_{k}" for k in range(1, 6)]
    spec = DATASETS["cifar10"]
    meta = {b"label_names": [name.encode() for name in spec.class_names], b"num_vis": 3072}
    return {"batches.meta": meta, **{name: batch(4) for name in names}, "test_batch": batch(3)}


def archive(path: Path, folder: str, members: dict[str, object]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, value in members.items():
            content = value if isinstance(value, bytes) else pickle.dumps(value, 2)
            info = tarfile.TarInfo(f"{folder}/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def read_ten(folder: Path, members: dict[str, object]):
    path = archive(folder / "cifar-10-python.tar.gz", "cifar-10-batches-py", members)
    return cifar10(DATASETS["cifar10"], {"archive": path})


def test_cifar10_is_pooled_in_the_official_order(tmp_path: Path) -> None:
    members = ten()
    arrays = read_ten(tmp_path, dict(reversed(members.items())))
    assert arrays.x.shape == (23, 3, 32, 32) and arrays.x.dtype == np.uint8
    assert arrays.split.tolist() == [0] * 20 + [1] * 3
    np.testing.assert_array_equal(arrays.x[4:8].reshape(4, -1), members["data_batch_2"][b"data"])
    assert arrays.y[20:].tolist() == members["test_batch"][b"labels"]
    # a line of the file is 1024 red, 1024 green, 1024 blue values, row by row
    assert arrays.x[0, 1, 2, 3] == members["data_batch_1"][b"data"][0, 1024 + 2 * 32 + 3]
    assert has_form(DATASETS["cifar10"], arrays)


def test_cifar100_has_the_fine_labels(tmp_path: Path) -> None:
    spec = DATASETS["cifar100"]
    members = {
        "meta": {b"fine_label_names": [name.encode() for name in spec.class_names], b"coarse_label_names": []},
        "train": batch(5, "fine_labels", coarse_labels=[0] * 5),
        "test": batch(2, "fine_labels", coarse_labels=[0] * 2),
    }
    arrays = cifar100(spec, {"archive": archive(tmp_path / "a", "cifar-100-python", members)})
    assert arrays.y.tolist() == members["train"][b"fine_labels"] + members["test"][b"fine_labels"]
    assert arrays.split.tolist() == [0] * 5 + [1] * 2 and len(arrays.classes) == 100


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data_batch_3": None}, "no member cifar-10-batches-py/data_batch_3"),
        ({"data_batch_3": batch(4, data=np.zeros((4, 3071), np.uint8))}, "3,072 bytes an image"),
        ({"data_batch_3": batch(4, data=np.zeros((4, 3072), np.float32))}, "3,072 bytes an image"),
        ({"data_batch_3": batch(4, data=b"x" * 3072)}, "3,072 bytes an image"),
        ({"data_batch_3": batch(4, labels=[0, 1, 2])}, "3 labels for 4 images"),
        ({"data_batch_3": batch(4, labels=[0, 1, 2, -1])}, "no labels"),
        ({"data_batch_3": batch(4, labels=[0, 1, 2, 0.5])}, "whole numbers"),
        ({"data_batch_3": batch(4, labels=b"abcd")}, "whole numbers"),
        ({"data_batch_3": pickle.dumps(batch(4), 2)[:-99]}, "data_batch_3.* is corrupt"),
        ({"batches.meta": {b"label_names": [b"cat", b"dog"]}}, "its classes are not those of cifar10"),
        ({"batches.meta": {b"label_names": [b"aeroplane"]}}, "aeroplane"),
        ({"batches.meta": {}}, "names no classes"),
    ],
)
def test_odd_archives_are_refused(tmp_path: Path, change: dict[str, object], words: str) -> None:
    members = {name: value for name, value in (ten() | change).items() if value is not None}
    with pytest.raises(CorruptFile, match=words) as caught:
        read_ten(tmp_path, members)
    assert "\n" not in str(caught.value)


def test_a_label_beyond_the_ten_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorruptFile, match="label 10 is beyond"):
        read_ten(tmp_path, ten() | {"test_batch": batch(2, labels=[3, 10])})


def test_an_archive_with_code_runs_nothing(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    code = f"cos\nsystem\n(S'touch {trace}'\ntR.".encode()
    with pytest.raises(CorruptFile, match=r"asks for os\.system"):
        read_ten(tmp_path, ten() | {"data_batch_1": code})
    assert not trace.exists()
