"""Data that a user hands over from Python: what is taken for samples, labels, row numbers and a normalisation, and what is refused."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pflrepro.data.partitions.rows import as_integers
from pflrepro.errors import UserError, check_range, in_short, refuse_ids

log = logging.getLogger("pflrepro.data")
Factor = float | tuple[float, ...]  # one number, or one a channel


def checked_samples(given: Any) -> Tensor:
    """Samples [n, ...] as a tensor, which shares an array's memory; `UserError` for what is none, and for NaN or infinite numbers."""
    x = _tensor("x", given)
    if x.is_complex() or x.ndim < 2 or not x.numel():
        raise UserError(f"x must be numbers [samples, ...], not {x.dtype} of shape {list(x.shape)}")
    if x.is_floating_point() and not torch.stack(x.aminmax()).isfinite().all():  # which NaN goes through
        broken = (~x.flatten(1).isfinite()).any(1).nonzero().flatten().tolist()
        raise UserError(
            f"x must be finite: {len(broken)} of {len(x)} samples have a NaN or infinite number, sample {broken[0]} first"
        )
    return x


def checked_labels(given: Any, samples: int, classes: int | None) -> tuple[Tensor, int]:
    """(labels int64 [samples], C), `classes` or the largest label + 1; `UserError` for anything but one of 0..C-1 a sample."""
    y = as_integers("y", _tensor("y", given), None)
    if len(y) != samples:
        raise UserError(f"y must have one label a sample: there are {len(y)} labels and {samples} samples")
    low, high = torch.stack(y.aminmax()).tolist()
    count = high + 1 if classes is None else check_range("classes", classes, 1, integer=True)
    if classes is None:
        refuse_ids(high, samples)
    if low < 0 or high >= count:
        valid = ">= 0" if classes is None else f"0..{count - 1}, for {count} classes"
        raise UserError(f"labels must be {valid}, not {low}..{high}")
    return y, count


def checked_parts(name: str, given: Any, samples: int) -> list[np.ndarray]:
    """The row numbers of every client, see `numbers_of`; `name`: what an error calls the rows."""
    try:
        parts = list(given)
    except TypeError:
        raise UserError(
            f"{name} rows must be one list of row numbers a client, such as [[0, 1], [2]], not {given!r}"
        ) from None
    return [numbers_of(f"{name} rows of client {client}", part, samples) for client, part in enumerate(parts)]


def numbers_of(name: str, given: Any, count: int) -> np.ndarray:
    """Numbers of 0..count-1, listed or marked in a mask of `count`, as an int64 array; else `UserError`, which calls them `name`."""
    try:
        numbers = np.asarray(given.cpu() if isinstance(given, Tensor) else given)
    except (TypeError, ValueError):  # lists of unequal lengths
        numbers = np.zeros((0, 0))
    if numbers.dtype == bool and numbers.shape == (count,):
        return np.flatnonzero(numbers)
    if numbers.ndim != 1 or (len(numbers) and numbers.dtype.kind not in "iu"):
        raise UserError(
            f"{name} must be a list of whole numbers in 0..{count - 1}, or a mask of {count} true or false, not {in_short(given)}"
        )
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= count):
        raise UserError(f"{name} must lie in 0..{count - 1}, not {numbers.min()}..{numbers.max()}")
    return np.asarray(numbers, dtype=np.int64)


def checked_unit(given: Any) -> tuple[Factor, Factor]:
    """(scale, offset) of a normalisation; `UserError` unless each is a finite number, or a list of them."""
    try:
        scale, offset = (np.asarray(factor) for factor in given)
        factors = [factor.astype(np.float64) for factor in (scale, offset) if factor.dtype.kind in "iuf"]
    except (TypeError, ValueError):
        factors = []
    if len(factors) != 2 or not all(factor.ndim < 2 and np.isfinite(factor).all() for factor in factors):
        raise UserError(
            f"unit must be (scale, offset), each a finite number or a list of one a channel, not {in_short(given)}"
        )
    return tuple(factor.item() if factor.ndim == 0 else tuple(factor.tolist()) for factor in factors)


def warn_of_shared_rows(train: Sequence[np.ndarray], test: Sequence[np.ndarray], samples: int) -> None:
    """A warning where clients are tested on rows that they train on: no mistake where that is asked, but nothing to report."""
    found = []
    trained_on = np.zeros(samples, dtype=bool)  # marks in place of sorted rows: clients may share a large test set
    for client, (own, tested) in enumerate(zip(train, test, strict=True)):
        trained_on[own] = True
        if (both := trained_on[tested]).any():
            found.append((client, tested[both][0]))
        trained_on[own] = False
    if found:
        log.warning(
            "%d of %d clients are tested on samples that they train on, client %d first, on row %d",
            *(len(found), len(train), *found[0]),
        )


def _tensor(name: str, given: Any) -> Tensor:
    """An array, or lists, as a tensor; a tensor as it is."""
    if isinstance(given, Tensor):
        return given
    try:
        array = np.asarray(given)
        # what is read-only, in reverse or of another byte order is copied
        return torch.from_numpy(np.require(array, array.dtype.newbyteorder("="), ["C", "W"]))
    except (TypeError, ValueError):
        raise UserError(f"{name} must be a tensor or an array of numbers, not {in_short(given)}") from None
