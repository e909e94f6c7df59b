"""Files are whole or not there, and no damage goes unnoticed."""

from __future__ import annotations

import math
import os
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflrepro.errors import CorruptFile, UserError
from pflrepro.experiments import files

ARRAYS = {
    "file": np.arange(3),
    "a/b": np.ones((2, 0), np.float32),
    "scalar": np.array(2.5),
    "flags": np.array([True, False]),
    "text": np.array("words"),
}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@pytest.mark.parametrize("compress", [True, False])
def test_arrays_come_back_as_they_were(tmp_path, compress):
    files.write(tmp_path / "a.npz", files.npz_bytes(ARRAYS, compress))
    files.write(tmp_path / "b.npz", files.npz_bytes(ARRAYS, compress))
    back = files.read_npz(tmp_path / "a.npz")
    assert list(back) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(back[name], array)
        assert (back[name].dtype, back[name].shape) == (array.dtype, array.shape)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"a.npz", "b.npz"}


def test_large_arrays_are_mapped_from_their_file_and_checked(tmp_path, monkeypatch):
    arrays = ARRAYS | {
        "long": np.arange(100.0),
        "turned": np.asfortranarray(np.arange(60, dtype=np.int32).reshape(6, 10)),
    }
    path = tmp_path / "a.npz"
    files.write_npz(path, arrays)
    monkeypatch.setattr(files, "MAPPED", 300)
    back = files.read_npz(path)
    assert [name for name, array in back.items() if isinstance(array, np.memmap)] == ["long", "turned"]
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array)
        assert (back[name].dtype, back[name].shape) == (array.dtype, array.shape)
    back["long"][:] = 0  # what is changed is not in the file
    whole = path.read_bytes()
    path.unlink()
    assert back["turned"][5, 9] == 59
    at = whole.index(np.arange(100.0).tobytes()) + 400
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(CorruptFile, match="Bad CRC-32"):
        files.read_npz(path)


def test_no_truncated_archive_is_read(tmp_path):
    path = tmp_path / "a.npz"
    files.write_npz(path, ARRAYS)
    assert path.read_bytes() == files.npz_bytes(ARRAYS)
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(CorruptFile, match=r"a\.npz"):
            files.read_npz(path)


def test_pickles_are_never_loaded(tmp_path):
    np.savez(tmp_path / "objects.npz", x=np.array([{"a": 1}], dtype=object))
    (tmp_path / "pickle.npz").write_bytes(pickle.dumps([1, 2]))
    np.save(tmp_path / "array.npy", np.arange(3))
    for name in ("objects.npz", "pickle.npz", "array.npy"):
        with pytest.raises(CorruptFile, match=name):
            files.read_npz(tmp_path / name)
    with pytest.raises(ValueError, match="Object arrays"):
        files.write_npz(tmp_path / "new.npz", {"x": np.array([None])})
    assert not (tmp_path / "new.npz").exists()


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 100_000])
def test_bad_json_is_refused(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(CorruptFile, match=r"a\.json"):
        files.read_json(tmp_path / "a.json")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    files.write_json(path, {"x": 1})

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UserError, match=r"cannot write .*a\.json: No space left on device"):
        files.write_json(path, {"x": 2})
    assert files.read_json(path) == {"x": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


@given(json_values)
def test_canonical_json_is_a_fixed_point(value):
    import json

    text = files.canonical_json(value)
    assert files.canonical_json(json.loads(text)) == text


def test_canonical_json_writes_equal_numbers_alike():
    assert files.canonical_json({"b": [1.0, -0.0, 0.1], "a": 1e300}) == '{"a":1e+300,"b":[1,0,0.1]}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.canonical_json(math.nan)
