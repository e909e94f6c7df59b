"""The restricted unpickler: what data files need, and nothing that runs."""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

from pflrepro.data.readers.pickles import read_pickle
from pflrepro.errors import CorruptFile

BATCH = {
    "data": np.arange(12, dtype=np.uint8).reshape(3, 4),
    "labels": [0, 1, 2],
    "names": [b"a", "b"],
    "deep": {"list": [1.5, None, True]},
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_containers_and_arrays_of_every_protocol_are_read(protocol: int) -> None:
    values = read_pickle(pickle.dumps(BATCH, protocol), "file")
    np.testing.assert_array_equal(values.pop("data"), BATCH["data"])
    assert values == {key: value for key, value in BATCH.items() if key != "data"}


@pytest.mark.parametrize("kind", ["<i4", ">f8", "?", "S5", "<U3", ">i2"])
def test_arrays_keep_their_type_and_byte_order(kind: str) -> None:
    values = np.array([[0, 1], [1, 0]]).astype(kind)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        found = read_pickle(pickle.dumps({"data": values}, protocol), "file")["data"]
        assert found.dtype.itemsize == values.dtype.itemsize and found.dtype.kind == values.dtype.kind
        np.testing.assert_array_equal(found, values)


def test_python_2_keys_and_text() -> None:
    # What Python 2 wrote: {'data': 'ab'} with its byte strings, protocol 2.
    content = b"\x80\x02}q\x00U\x04dataq\x01U\x02abq\x02s."
    assert read_pickle(content, "file") == {"data": b"ab"}


class Hostile:
    def __init__(self, function: object, *arguments: object) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> tuple:
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
@pytest.mark.parametrize("function", [os.system, eval, exec, np.load, np.fromfile, OrderedDict, getattr, Path])
def test_a_hostile_pickle_runs_nothing(tmp_path: Path, protocol: int, function: object) -> None:
    trace = tmp_path / "trace"
    arguments = () if function is OrderedDict else (f"touch {trace}",)
    with pytest.raises(CorruptFile, match=r"file is corrupt: it asks for .*, which no data file needs"):
        read_pickle(pickle.dumps({"data": Hostile(function, *arguments)}, protocol), "file")
    assert not trace.exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "corrupt"),
        (b"rubbish", "corrupt"),
        (pickle.dumps([1, 2]), "no dictionary"),
        (pickle.dumps(BATCH)[:-30], "corrupt"),
        (pickle.dumps({"data": np.array([{}], dtype=object)}), "type object"),
        (b"cnumpy\ndtype\n(S'O'\ntR.", "type object"),
        (b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I4000000000\ntS'b'\ntR.", "unusual array"),
        (b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\ndtype\n(I0\ntS'b'\ntR.", "unusual array"),
        (b"c_codecs\nencode\n(Vabc\nVzlib\ntR.", "unusual text"),
        (b"cnumpy.core.multiarray\n_reconstruct\n(dS'__defaults__'\nI1\nsb.", "changes a function"),
        (b"cnumpy\nndarray\n((I1\ntS'O'\nS'AAAAAAAA'\ntR.", "builds an array by hand"),
        (b"cnumpy\ndtype\n(S'S1'\nI0\nI1\ntR(I3\nS'|'\nNNNI100\nI1\nI0\ntb.", "changes the type"),
        (b"cnumpy\ndtype\n(S'i1'\nI0\nI1\ntR(I3\nS'|'\nN(S'a'\nt(dI-1\nI-1\nI0\ntb.", "changes the type"),
        (b"\x80\x02r\xff\xff\xff\xff.", "corrupt"),
        (pickle.dumps({"a": 1})[:-1] + b"\x94" * 3, "corrupt"),
    ],
)
def test_damage_and_oddities_are_one_clear_error(content: bytes, words: str) -> None:
    with pytest.raises(CorruptFile, match=words) as caught:
        read_pickle(content, "the file")
    assert str(caught.value).startswith("the file is corrupt") and "\n" not in str(caught.value)


def test_every_cut_is_noticed() -> None:
    content = pickle.dumps(BATCH, 2)
    for length in range(len(content)):
        with pytest.raises(CorruptFile):
            read_pickle(content[:length], "file")
