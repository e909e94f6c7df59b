"""MIT-BIH records: header, signals in format 212 and annotations, written here byte by byte."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from pflrepro.data.datasets import load_arrays
from pflrepro.data.readers.ecg import SYMBOLS, beats, cut
from pflrepro.data.sets.sensors import MITBIH
from pflrepro.errors import CorruptFile, MissingData, UserError

pytest.importorskip("wfdb", reason="needs wfdb, the optional extra `ecg`")

# Read before the fixture that hides the user's data root from tests.
DATA_ROOT = os.environ.get("PFLREPRO_DATA")
# PhysioNet's numbers of annotation types.
CODES = dict(zip("NLRaVFJASEj/Q~|se", (*range(1, 14), 14, 16, 18, 34), strict=True)) | {"f": 38, "+": 28}
SAMPLES = 2000


def pack(first: np.ndarray, second: np.ndarray) -> bytes:
    """Format 212: two samples of 12 bits in three bytes."""
    a, b = first.astype(np.int64) & 0xFFF, second.astype(np.int64) & 0xFFF
    return np.stack([a & 0xFF, (a >> 8) | ((b >> 8) << 4), b & 0xFF], axis=1).astype(np.uint8).tobytes()


def annotate(marks: list[tuple[int, str]]) -> bytes:
    """MIT format: 6 bits of type, 10 bits of time since the last one; a longer pause has a word of its own."""
    words, last = [], 0
    for sample, symbol in marks:
        pause = sample - last
        if pause > 1023:
            words += [59 << 10, pause >> 16, pause & 0xFFFF]
            pause = 0
        words.append(CODES[symbol] << 10 | pause)
        last = sample
    return np.array([*words, 0], dtype="<u2").tobytes()


def header(record: str, leads: tuple[str, str] = ("MLII", "V5"), samples: int = SAMPLES, rate: int = 360) -> str:
    lines = [f"{record}.dat 212 200 11 1024 1000 0 0 {lead}" for lead in leads]
    return "\n".join([f"{record} 2 {rate} {samples}", *lines, "# 69 M 1085 1629 x1"]) + "\n"


def leads(seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.integers(300, 1700, SAMPLES), random.integers(300, 1700, SAMPLES)


MARKS = [(18, "+"), (99, "N"), (100, "N"), (500, "V"), (600, "Q"), (700, "/"), (1800, "f"), (1844, "L"), (1845, "N")]


def write(folder: Path, record: str = "100", seed: int = 0, marks: list[tuple[int, str]] = MARKS) -> dict[str, Path]:
    (folder / f"{record}.hea").write_text(header(record))
    (folder / f"{record}.dat").write_bytes(pack(*leads(seed)))
    (folder / f"{record}.atr").write_bytes(annotate(marks))
    return {f"{record}.{kind}": folder / f"{record}.{kind}" for kind in ("hea", "dat", "atr")}


def test_beats_of_known_classes_are_cut_out(tmp_path: Path) -> None:
    """Left out: rhythm marks, unclassifiable beats, and the beats at 99 and 1845, whose windows would leave the record."""
    arrays = beats(MITBIH, write(tmp_path))
    assert arrays.x.shape == (5, 256) and arrays.x.dtype == np.float32 and arrays.shape == MITBIH.shape
    assert [SYMBOLS[label] for label in arrays.y] == ["N", "V", "/", "f", "L"]
    signal = leads(0)[0]
    for window, peak in zip(arrays.x, (100, 500, 700, 1800, 1844), strict=True):
        expected = signal[peak - 100 : peak + 156].astype(float)
        np.testing.assert_allclose(window, (expected - expected.mean()) / expected.std(), atol=1e-5)


def test_a_client_is_a_record(tmp_path: Path) -> None:
    paths = write(tmp_path, "100") | write(tmp_path, "234", seed=1, marks=[(400, "N"), (900, "j")])
    arrays = beats(MITBIH, paths)
    assert arrays.group.tolist() == [100] * 5 + [234] * 2
    assert SYMBOLS[arrays.y[-1]] == "j" and arrays.classes[arrays.y[-1]] == "nodal escape"


def test_the_lead_is_found_by_its_name(tmp_path: Path) -> None:
    paths = write(tmp_path)
    straight = beats(MITBIH, paths)
    paths["100.hea"].write_text(header("100", ("V5", "MLII")))
    paths["100.dat"].write_bytes(pack(*leads(0)[::-1]))
    np.testing.assert_array_equal(beats(MITBIH, paths).x, straight.x)


def test_a_flat_window_is_all_zero() -> None:
    signal = np.full(600, 1024)
    signal[400] = 1025
    flat, spike = cut(signal, np.array([140, 400]))
    assert not flat.any()
    assert spike[100] == pytest.approx(255 / np.sqrt(255), rel=1e-6) and spike.argmax() == 100


def test_the_files_have_published_checksums() -> None:
    assert len(MITBIH.files) == 3 * 46 and len({file.name for file in MITBIH.files}) == 138
    assert all(len(file.sha256) == 64 and file.size > 0 for file in MITBIH.files)
    assert not {"102.dat", "104.dat"} & {file.name for file in MITBIH.files}


@pytest.mark.parametrize(
    ("kind", "content", "words"),
    [
        ("hea", b"", "corrupt"),
        ("hea", b"rubbish\n", "corrupt"),
        ("hea", header("100", ("V1", "V5")).encode(), "it has no lead MLII"),
        ("hea", header("101").encode(), "it names other files than its own"),
        ("hea", header("100").replace("100.dat", "../100.dat").encode(), "corrupt"),
        ("hea", header("100").replace(" 212 ", " 16 ").encode(), "expected format 212 at 360 Hz, found 16"),
        ("hea", header("100", rate=250).encode(), "expected format 212 at 360 Hz, found 212 at 250 Hz"),
        ("hea", header("100", samples=100).encode(), "it announces 100 samples"),
        ("hea", header("100", samples=10**9).encode(), "it announces 1000000000 samples"),
        ("hea", header("100", samples=SAMPLES + 1).encode(), "its header announces"),
        ("dat", b"", "it has 0 bytes, its header announces 6,000"),
        ("dat", pack(*leads(0))[:-1], "it has 5,999 bytes"),
        ("dat", pack(np.full(SAMPLES, -5), np.full(SAMPLES, 9)), "values outside 0..2047"),
        ("atr", b"", "it breaks off"),
        ("atr", annotate(MARKS)[:-2], "it breaks off"),
        ("atr", annotate(MARKS)[:-1], "it breaks off"),
        ("atr", annotate([]), "no beat of a known class"),
        ("atr", annotate([(300, "Q"), (900, "+")]), "no beat of a known class"),
        ("atr", annotate([(300, "N"), (5000, "N")]), "an annotation outside the 2,000 samples"),
    ],
)
def test_a_damaged_record_is_refused(tmp_path: Path, kind: str, content: bytes, words: str) -> None:
    paths = write(tmp_path)
    paths[f"100.{kind}"].write_bytes(content)
    with pytest.raises(CorruptFile) as caught:
        beats(MITBIH, paths)
    assert words in str(caught.value) and f"{tmp_path}/100." in str(caught.value) and "\n" not in str(caught.value)


def test_a_record_lies_in_one_folder(tmp_path: Path) -> None:
    paths = write(tmp_path)
    (tmp_path / "other").mkdir()
    paths["100.dat"] = paths["100.dat"].rename(tmp_path / "other" / "100.dat")
    with pytest.raises(UserError, match="record 100 lie in different folders"):
        beats(MITBIH, paths)


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "wfdb", None)
    with pytest.raises(UserError, match=r"pip install pflrepro\[ecg\]"):
        beats(MITBIH, write(tmp_path))


@pytest.mark.skipif(DATA_ROOT is None, reason="needs the real records: set PFLREPRO_DATA")
def test_the_real_records_have_the_known_beats() -> None:
    """Those of the 48 records [PhysioNet] without 102 and 104, less the few at the ends of a record."""
    try:
        arrays = load_arrays("mitbih", DATA_ROOT)
    except MissingData as error:
        pytest.skip(str(error))
    known = (74_757, 8_072, 7_255, 2_546, 150, 83, 7_123, 802, 229, 106, 3_619, 260)
    assert dict(zip(SYMBOLS, np.bincount(arrays.y).tolist(), strict=True)) == dict(zip(SYMBOLS, known, strict=True))
    people = np.unique(arrays.group, return_counts=True)[1]
    assert len(people) == 46 and people.min() == 1517 and people.max() == 3362
