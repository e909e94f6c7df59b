"""The MIT-BIH arrhythmia records, read by `wfdb` and cut into windows around the annotated heartbeats."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from pflrepro.data.arrays import Arrays
from pflrepro.data.sets.types import DatasetSpec
from pflrepro.errors import CorruptFile, UserError

# PhysioNet's symbols of the classes, in the order of the class names [GRP: 12 classes; which ones: inferred].
SYMBOLS = "NLRAaJVFjE/f"
LEAD = "MLII"
BEFORE, AFTER = 100, 156  # samples of a window before the annotated R peak, and from it on [?]
_RATE, _LEVELS = 360, 2048  # Hz; 11-bit converter
_MOST_SAMPLES = 10_000_000


def beats(spec: DatasetSpec, paths: Mapping[str, Path]) -> Arrays:
    """float32 [beats, 256]: lead MLII around every beat of one of the classes of `SYMBOLS`; group = record number.

    Each window has mean 0 and standard deviation 1 (a flat one is all zero). Left out: other annotations, beats nearer to an end of
    the record than a window reaches.

    Args:
        paths: "100.hea", "100.dat", "100.atr" and so on, those of a record in one folder.
    """
    wfdb = _wfdb()
    records = sorted({role.partition(".")[0] for role in paths})
    parts = [_record(wfdb, {kind: paths[f"{record}.{kind}"] for kind in ("hea", "dat", "atr")}) for record in records]
    labels = [label for _, label in parts]
    return Arrays(
        name=spec.name,
        x=np.concatenate([windows for windows, _ in parts]),
        y=np.concatenate(labels),
        group=np.repeat(np.array([int(record) for record in records]), [len(label) for label in labels]),
        classes=np.array(spec.class_names),
    )


def cut(signal: np.ndarray, peaks: np.ndarray) -> np.ndarray:
    """Windows of n = BEFORE + AFTER samples around the peaks, each standardised: float32 [peaks, n].

    (v - mean)/std = (n v - sum v)/sqrt(n sum v^2 - (sum v)^2), in whole numbers up to the root: the same bits on every machine.
    """
    length = BEFORE + AFTER
    windows = np.lib.stride_tricks.sliding_window_view(signal, length)[peaks - BEFORE].astype(np.int64)
    total = windows.sum(1, keepdims=True)
    spread = np.sqrt((length * (windows**2).sum(1, keepdims=True) - total**2).astype(np.float64))
    return ((length * windows - total) / np.where(spread > 0, spread, 1)).astype(np.float32)


def _record(wfdb: ModuleType, files: Mapping[str, Path]) -> tuple[np.ndarray, np.ndarray]:
    """Windows and labels of one record."""
    if len({path.parent for path in files.values()}) > 1:
        raise UserError(f"the three files of record {files['hea'].stem} lie in different folders; put them into one")
    signal = _signal(wfdb, files)
    content = files["atr"].read_bytes()
    if len(content) % 2 or content[-2:] != b"\0\0":
        raise CorruptFile(f"{files['atr']} is corrupt: it breaks off")
    marks = _read(files["atr"], lambda name: wfdb.rdann(name, "atr"))
    peaks, symbols = np.asarray(marks.sample, dtype=np.int64), np.asarray(marks.symbol, dtype="U1")
    if len(peaks) and (peaks.min() < 0 or peaks.max() >= len(signal)):
        raise CorruptFile(f"{files['atr']} is corrupt: it has an annotation outside the {len(signal):,} samples")
    place = {symbol: label for label, symbol in enumerate(SYMBOLS)}
    labels = np.array([place.get(symbol, -1) for symbol in symbols], dtype=np.int64)
    kept = (labels >= 0) & (peaks >= BEFORE) & (peaks + AFTER <= len(signal))
    if not kept.any():
        raise CorruptFile(f"{files['atr']} has no beat of a known class; there should be hundreds")
    return cut(signal, peaks[kept]), labels[kept]


def _signal(wfdb: ModuleType, files: Mapping[str, Path]) -> np.ndarray:
    """Lead MLII in the converter's steps; `CorruptFile` unless header and data are those of a record of this data base."""
    header, data = files["hea"], files["dat"]
    about = _read(header, wfdb.rdheader)
    odd = None
    if set(about.file_name or []) != {data.name}:
        odd = "it names other files than its own"
    elif set(about.fmt) != {"212"} or about.fs != _RATE:
        odd = f"expected format 212 at {_RATE} Hz, found {'/'.join(sorted(set(about.fmt)))} at {about.fs} Hz"
    elif (about.sig_name or []).count(LEAD) != 1:
        odd = f"it has no lead {LEAD}"
    elif not (about.sig_len and BEFORE + AFTER <= about.sig_len <= _MOST_SAMPLES):
        odd = f"it announces {about.sig_len} samples"
    if odd:
        raise CorruptFile(f"{header} is corrupt: {odd}")
    expected = -(-about.sig_len * about.n_sig * 3 // 2)  # two samples of 12 bits in three bytes
    if data.stat().st_size != expected:
        raise CorruptFile(f"{data} is corrupt: it has {data.stat().st_size:,} bytes, its header announces {expected:,}")
    signal = _read(data, lambda name: wfdb.rdrecord(name, physical=False, channel_names=[LEAD])).d_signal[:, 0]
    if signal.min() < 0 or signal.max() >= _LEVELS:
        raise CorruptFile(f"{data} is corrupt: it has values outside 0..{_LEVELS - 1}")
    return signal


def _read(path: Path, read: Any) -> Any:
    """What `wfdb` reads of the record that `path` belongs to; whatever it raises for a damaged file is one error here."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the library uses deprecated arguments of pandas
            return read(str(path.with_suffix("")))
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        words = re.sub(r"\s+", " ", str(error))[:150] or type(error).__name__
        raise CorruptFile(f"{path} is corrupt: {words}") from None


def _wfdb() -> ModuleType:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import wfdb
    except ImportError:
        raise UserError(
            "the records of MIT-BIH are read with wfdb: install it with `pip install pflrepro[ecg]`"
        ) from None
    return wfdb
