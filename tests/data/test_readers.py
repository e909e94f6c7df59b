from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from data_sources import decode, idx_bytes, tiny_sources

from pflrepro.data.readers.bundled import bundled_digits
from pflrepro.data.readers.idx import read_idx
from pflrepro.errors import CorruptFile

IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)


def written(folder: Path, content: bytes) -> Path:
    path = folder / "file.gz"
    path.write_bytes(gzip.compress(content))
    return path


def test_an_idx_file_is_read(tmp_path: Path) -> None:
    np.testing.assert_array_equal(read_idx(written(tmp_path, idx_bytes(IMAGES)), 3), IMAGES)
    labels = np.array([3, 1, 2])
    np.testing.assert_array_equal(read_idx(written(tmp_path, idx_bytes(labels)), 1), labels)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "header ends after 0"),
        (idx_bytes(IMAGES)[:10], "header ends after 10"),
        (idx_bytes(IMAGES, magic=2049), "magic number 2049, expected 2051"),
        (idx_bytes(IMAGES, magic=0x0D03), "magic number"),
        (idx_bytes(IMAGES)[:-1], "only 23"),
        (idx_bytes(IMAGES, tail=b"\0"), "trailing bytes"),
        (idx_bytes(IMAGES, shape=(2, 3, 5)), "only 24"),
        (idx_bytes(IMAGES, shape=(2**32 - 1, 2**32 - 1, 2**32 - 1)), "announces"),
    ],
)
def test_an_odd_idx_file_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(CorruptFile, match=words):
        read_idx(written(tmp_path, content), 3)


def test_damaged_compression_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, idx_bytes(np.random.default_rng(0).integers(0, 256, (9, 9, 9))))
    whole = path.read_bytes()
    for content in (whole[:-20], b"plain text", whole[:30] + bytes([whole[30] ^ 255]) + whole[31:]):
        path.write_bytes(content)
        with pytest.raises(CorruptFile, match=r"file\.gz is corrupt"):
            read_idx(path, 3)


def test_a_decompression_bomb_is_not_unpacked(tmp_path: Path, monkeypatch) -> None:
    bomb = written(tmp_path, struct.pack(">4I", 2051, 1, 2, 2) + bytes(50_000_000))
    with pytest.raises(CorruptFile, match="trailing bytes"):
        read_idx(bomb, 3)
    monkeypatch.setattr("pflrepro.data.readers.idx.LIMIT", 1000)
    with pytest.raises(CorruptFile, match="more than 1,000"):
        read_idx(written(tmp_path, idx_bytes(np.zeros((10, 10, 11)))), 3)


def test_the_parts_are_pooled_training_rows_first(tmp_path: Path) -> None:
    arrays = decode(tiny_sources(), tmp_path)
    assert arrays.x.shape == (40, 4, 5) and arrays.x.dtype == np.uint8
    np.testing.assert_array_equal(arrays.split, [0] * 30 + [1] * 10)
    np.testing.assert_array_equal(arrays.x[:30], read_idx(tmp_path / "train_images.gz", 3))
    np.testing.assert_array_equal(arrays.y[30:], read_idx(tmp_path / "test_labels.gz", 1))


def test_images_without_labels_are_refused(tmp_path: Path) -> None:
    sources = tiny_sources()
    sources["test_labels.gz"] = gzip.compress(idx_bytes(np.zeros(9)))
    with pytest.raises(CorruptFile, match="9 labels for 10 images"):
        decode(sources, tmp_path)
    sources["test_labels.gz"] = gzip.compress(idx_bytes(np.zeros(10)))
    sources["test_images.gz"] = gzip.compress(idx_bytes(np.zeros((10, 5, 4))))
    with pytest.raises(CorruptFile, match="another size"):
        decode(sources, tmp_path)


def test_the_bundled_digits() -> None:
    digits = bundled_digits("digits")
    assert digits.x.shape == (1797, 8, 8) and digits.x.dtype == np.uint8
    assert (digits.x.min(), digits.x.max()) == (0, 16)
    assert digits.y[:10].tolist() == list(range(10))
    assert np.bincount(digits.y).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
