"""Pickles of plain containers and numpy arrays, and of nothing else: no other name in them is looked up or called."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pflrepro.errors import CorruptFile

_DAMAGE = (
    pickle.UnpicklingError,
    AttributeError,
    EOFError,
    ImportError,
    IndexError,
    KeyError,
    MemoryError,
    OverflowError,
    RecursionError,
    TypeError,
    UnicodeError,
    ValueError,
)


class _Allowed:
    """A function that a pickle may call, and whose own state it cannot change."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("it changes a function")


def _no_array(*arguments: Any) -> None:
    raise pickle.UnpicklingError("it builds an array by hand")


# Only a name: called, numpy's own type would make an array of objects whose addresses the pickle says.
_NDARRAY = _Allowed(_no_array)


def _empty_array(kind: Any, shape: Any, code: Any) -> np.ndarray:
    """What numpy pickles begin an array with; its shape, type and bytes follow as its state."""
    if kind is not _NDARRAY or shape != (0,):
        raise pickle.UnpicklingError("it holds an unusual array")
    return _Array((0,), np.int8)


class _Array(np.ndarray):
    """An array whose type is one that was checked."""

    def __setstate__(self, state: Any) -> None:
        version, shape, kind, *rest = state
        super().__setstate__((version, shape, _type(kind), *rest))


def _array(buffer: Any, kind: Any, shape: Any, order: Any) -> np.ndarray:
    """An array of pickle protocol 5, whose bytes lie inside the pickle."""
    if not isinstance(buffer, (bytes, bytearray)):
        raise pickle.UnpicklingError("it holds an unusual array")
    return np.frombuffer(buffer, _type(kind)).reshape(shape, order=order)


class _Type:
    """The type of an array's numbers: not numpy's own, in which a pickle may change size and fields under an array that has it."""

    def __init__(self, code: Any, *flags: Any) -> None:
        self.dtype = np.dtype(code.decode("ascii") if isinstance(code, bytes) else str(code))
        if self.dtype.kind not in "biufSU":
            raise pickle.UnpicklingError(f"it holds an array of type {self.dtype}")

    def __setstate__(self, state: Any) -> None:
        _, order, *fields, size, _, _ = state
        if any(each is not None for each in fields) or size not in (-1, self.dtype.itemsize):
            raise pickle.UnpicklingError(f"it changes the type {self.dtype}")
        self.dtype = self.dtype.newbyteorder(order.decode("ascii") if isinstance(order, bytes) else order)


def _type(kind: Any) -> np.dtype:
    if not isinstance(kind, _Type):
        raise pickle.UnpicklingError("it holds an unusual array")
    return kind.dtype


def _latin1(text: Any, encoding: Any) -> bytes:
    """How Python 3 writes bytes for old protocols."""
    if encoding not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError("it holds unusual text")
    return text.encode("latin1")


_NAMES: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _NDARRAY,
    ("numpy", "dtype"): _Allowed(_Type),
    ("_codecs", "encode"): _Allowed(_latin1),
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _Allowed(_empty_array) for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): _Allowed(_array) for core in ("core", "_core")},
}


class _Restricted(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _NAMES:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no data file needs")
        return _NAMES[module, name]


def read_pickle(content: bytes, source: str | Path) -> dict[str, Any]:
    """The dictionary in a pickle of Python 2 or 3, its keys as text; text of Python 2 stays bytes.

    Raises `CorruptFile`, naming `source`, for damage and for anything but containers, numbers, text and plain arrays.
    """
    try:
        value = _Restricted(io.BytesIO(content), encoding="bytes").load()
    except _DAMAGE as error:
        words = " ".join(str(error).split())[:200] or type(error).__name__
        raise CorruptFile(f"{source} is corrupt: {words}") from None
    if not isinstance(value, dict):
        raise CorruptFile(f"{source} is corrupt: it holds no dictionary")
    return {key.decode("latin1") if isinstance(key, bytes) else str(key): entry for key, entry in value.items()}
