from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from pflrepro.data.arrays import Arrays, read_arrays, save_arrays
from pflrepro.data.root import cache_path, data_root
from pflrepro.errors import CorruptFile, UserError


def small(**changes: object) -> Arrays:
    values = {
        "x": np.arange(24, dtype=np.uint8).reshape(6, 2, 2),
        "y": np.array([0, 1, 2, 0, 1, 2]),
        "split": np.array([0, 0, 0, 0, 1, 1]),
        "group": np.array([7, 7, 8, 8, 9, 9]),
        "classes": np.array(["a", "b", "c"]),
    }
    return Arrays(name="small", **(values | changes))


def test_what_is_saved_is_read_again(tmp_path: Path) -> None:
    arrays = small()
    save_arrays(tmp_path / "deep" / "small.npz", arrays)
    again = read_arrays(tmp_path / "deep" / "small.npz")
    for key in ("x", "y", "split", "group", "classes"):
        np.testing.assert_array_equal(getattr(again, key), getattr(arrays, key))
        assert getattr(again, key).dtype == getattr(arrays, key).dtype
    assert again.fingerprint() == arrays.fingerprint()
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["small.npz"]
    assert len(again) == 6 and again.shape == (2, 2)


def test_the_fingerprint_is_of_dtype_shape_and_bytes() -> None:
    x, y = np.array([[1, 2], [3, 4]], dtype=np.uint8), np.array([0, 1])
    by_hand = hashlib.sha256(b"x |u1 (2, 2)\n\x01\x02\x03\x04" + b"y <i8 (2,)\n" + y.astype("<i8").tobytes())
    assert Arrays("n", x, y).fingerprint() == by_hand.hexdigest()


def test_the_fingerprint_sees_content_and_nothing_else(tmp_path: Path) -> None:
    base = small().fingerprint()
    assert small(split=None, classes=None).fingerprint() == base
    assert small(y=np.array([0, 1, 2, 0, 1, 2], dtype=">u2")).fingerprint() == base
    assert small(x=np.asfortranarray(small().x)).fingerprint() == base
    assert small(x=small().x.reshape(6, 4)).fingerprint() != base
    assert small(x=small().x.astype(np.int8)).fingerprint() != base
    assert small(x=small().x[::-1]).fingerprint() != base
    assert small(group=None).fingerprint() != base
    np.savez_compressed(tmp_path / "other.npz", x=small().x, y=small().y, group=small().group, index=np.arange(6))
    assert read_arrays(tmp_path / "other.npz").fingerprint() == base


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "small.npz"
    save_arrays(path, small())
    before = path.read_bytes()

    def broken(file: io.BufferedWriter, **members: np.ndarray) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", broken)
    with pytest.raises(KeyboardInterrupt):
        save_arrays(path, small(y=np.zeros(6, np.int64)))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"y": np.array([0, 1])}, "'y' has 2 rows"),
        ({"y": np.array([0, 1, 2, 0, 1, -1])}, "outside 0.."),
        ({"y": np.array([0, 1, 2, 0, 1, 3])}, "label 3"),
        ({"y": np.zeros(6)}, "whole number"),
        ({"y": np.zeros((6, 1), np.int64)}, "whole number"),
        ({"y": np.array([2**63] * 6, dtype=np.uint64)}, "value"),
        ({"split": np.array([0, 0, 0, 0, 1, 2])}, "outside 0..1"),
        ({"group": np.array([1, 2])}, "'group' has 2 rows"),
        ({"x": np.zeros((0, 2), np.uint8), "y": np.zeros(0, np.int64)}, "shape"),
        ({"x": np.zeros(6, np.uint8)}, "shape"),
        ({"x": np.full((6, 2), np.nan)}, "not finite"),
        ({"x": np.full((6, 2), "a")}, "not numbers"),
        ({"classes": np.array([1, 2, 3])}, "one text a class"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(changes: dict[str, np.ndarray], words: str) -> None:
    with pytest.raises(CorruptFile, match=words) as caught:
        small(**changes)
    assert "\n" not in str(caught.value)


def test_every_damage_is_a_corrupt_file(tmp_path: Path) -> None:
    path = tmp_path / "small.npz"
    save_arrays(path, small())
    good = path.read_bytes()
    for length in range(0, len(good), 97):
        path.write_bytes(good[:length])
        with pytest.raises(CorruptFile, match=r"small\.npz is corrupt"):
            read_arrays(path)


def test_a_changed_byte_is_noticed_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "small.npz"
    save_arrays(path, small())
    good, noticed = path.read_bytes(), 0
    for position in range(len(good)):
        changed = bytearray(good)
        changed[position] ^= 0x55
        path.write_bytes(changed)
        try:
            arrays = read_arrays(path)
        except CorruptFile:
            noticed += 1
        else:  # a time stamp or a flag
            for key in ("x", "y", "split", "group", "classes"):
                np.testing.assert_array_equal(getattr(arrays, key), getattr(small(), key))
    assert noticed > len(good) / 2


def test_files_of_other_kinds_are_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "odd.npz"
    for content in (b"", b"hello", np.lib.format.magic(1, 0)):
        path.write_bytes(content)
        with pytest.raises(CorruptFile, match="not an npz"):
            read_arrays(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x", b"text")
        archive.writestr("y.npy", b"text")
    with pytest.raises(CorruptFile):
        read_arrays(path)
    np.savez(path, x=small().x)
    with pytest.raises(CorruptFile, match="no array 'y'"):
        read_arrays(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(CorruptFile):
        read_arrays(path)


def test_pickles_are_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "evil.npz"
    np.savez(path, x=small().x, y=np.array([{}, {}], dtype=object), allow_pickle=True)
    with pytest.raises(CorruptFile, match="allow_pickle"):
        read_arrays(path)


def test_a_missing_file_is_not_a_corrupt_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_arrays(tmp_path / "none.npz")


def test_the_data_root_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PFLREPRO_DATA", str(tmp_path / "from-environment"))
    assert data_root(tmp_path / "explicit") == tmp_path / "explicit"
    assert data_root() == tmp_path / "from-environment"
    assert cache_path("mnist") == tmp_path / "from-environment" / "mnist" / "mnist.npz"
    monkeypatch.setenv("PFLREPRO_DATA", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_root().is_relative_to(tmp_path) and data_root().name == "data"
    assert data_root("~/sets") == tmp_path / "sets"
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="--data-root must name a folder"):
        data_root(tmp_path / "file")


def test_parts_are_pooled_with_the_last_one_as_the_test_part() -> None:
    parts = [(np.full((n, 2), n), np.arange(n), np.full(n, 7 * n)) for n in (2, 1, 3)]
    pooled = Arrays.of_parts("made up", parts, ["a", "b", "c"])
    assert pooled.y.tolist() == [0, 1, 0, 0, 1, 2] and pooled.split.tolist() == [0, 0, 0, 1, 1, 1]
    assert pooled.group.tolist() == [14, 14, 7, 21, 21, 21] and pooled.x[:, 0].tolist() == [2, 2, 1, 3, 3, 3]
    assert Arrays.of_parts("made up", [part[:2] for part in parts], list("abc")).group is None
