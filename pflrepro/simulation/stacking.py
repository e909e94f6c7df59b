"""The results of many rows, stacked: put there by this process, or by workers, in memory that both have mapped.

Through a pipe a model of 2 MB is copied six times, each time into pages that are new: with a thousand clients that took as long as
their training. So the stack lies in memory without a name (`memfd_create`), which a worker opens through its parent's entry in /proc,
and writes its rows into. It is freed with the last process that has it mapped, however that ends. Where a system has no such memory,
rows come through the pipe.
"""

from __future__ import annotations

import itertools
import math
import mmap
import os
import weakref
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pflrepro.trees import Tree

SMALL = 1 << 16  # bytes of a row that a pipe carries as fast
ALIGNED = 64  # bytes
POSSIBLE = hasattr(os, "memfd_create") and Path("/proc/self/fd").exists()
_numbers = itertools.count()


class Part(NamedTuple):
    """Where the rows of one leaf lie: bytes from the start, and one row's shape and type."""

    start: int
    shape: tuple[int, ...]
    dtype: torch.dtype


class Shared(NamedTuple):
    """A stack as a worker finds it.

    Attributes:
        process, file, size: the parent, its open file and the bytes of that.
        number: no two stacks of a parent have the same; a number of a file is used again.
        count: rows.
        parts: as the tree of a row.
    """

    process: int
    file: int
    size: int
    number: int
    count: int
    parts: Tree


class Room:
    """Bytes that this process and its workers have mapped.

    Attributes:
        left: whether a worker may still write to it, so that it is never used again.
    """

    def __init__(self, size: int) -> None:
        self.size, self.number, self.left = size, next(_numbers), False
        self.file = os.memfd_create("pflrepro-rows")
        os.ftruncate(self.file, size)
        self.memory = mmap.mmap(self.file, size)
        self._end = weakref.finalize(self, _emptied, self.file)
        self._end.atexit = False  # then the system frees it; a process that was forked from this one would empty it

    def leave(self) -> None:
        """Give it up to whoever may still write to it."""
        self.left = True
        if self._end.detach():
            os.close(self.file)


def _emptied(file: int) -> None:
    os.ftruncate(file, 0)  # else a worker that has nothing more to do keeps its pages
    os.close(file)


class Rooms:
    """The room of the last stack, taken again by the next one of about its size once no tensor lies in it: its pages are there."""

    def __init__(self) -> None:
        self._free: Room | None = None

    def take(self, size: int) -> tuple[Room, Tensor]:
        """A room of at least so many bytes, and all of them."""
        room, self._free = self._free, None
        if room is None or not size <= room.size <= 2 * size:
            room = Room(size)
        array = np.frombuffer(room.memory, np.uint8)
        weakref.finalize(array, _returned, weakref.ref(self), room).atexit = False
        return room, torch.from_numpy(array)  # whose views, all tensors of the stack, keep `array` alive


def _returned(rooms: weakref.ref[Rooms], room: Room) -> None:
    owner = rooms()
    if owner is not None and not room.left:
        owner._free = room


class Stacking:
    """Equal trees, stacked as they come, in any order.

    Args:
        count: of the rows.
        rooms: where large rows are stacked for workers to write to; None: nobody else writes.
        like: `parts` of a stack of the rows that are expected; None: of the first one that is put.

    Attributes:
        stacked: the rows so far, and whatever was there before them.
        parts: a `Part` for each leaf.
        shared: how a worker finds the stack; None where it cannot.
    """

    def __init__(self, count: int, rooms: Rooms | None = None, like: Tree | None = None) -> None:
        self.count, self.rooms = count, rooms
        self.stacked, self.parts = Tree(), Tree()
        self.shared: Shared | None = None
        self._room: Room | None = None
        if like is not None:
            self._share(like)

    def put(self, i: int, row: Tree) -> None:
        """Row `i` of the stack."""
        if not self.stacked or not alike(self.parts, row):
            self._share(row)
            if self.shared is None:
                self.stacked = row.map(lambda leaf: leaf.new_empty((self.count, *leaf.shape)))
        self.stacked.map(lambda store, leaf: store[i].copy_(leaf), row)

    def leave(self) -> None:
        """A worker may still write to it: nobody else shall have the room."""
        if self._room is not None:
            self._room.leave()
            self._room = self.shared = None

    def _share(self, like: Tree) -> None:
        self.leave()
        size, self.parts = laid_out(like, self.count)
        if self.rooms is None or not POSSIBLE or size < SMALL * self.count:
            return
        self._room, memory = self.rooms.take(size)
        self.shared = Shared(os.getpid(), self._room.file, self._room.size, self._room.number, self.count, self.parts)
        self.stacked = _rows(memory, self.parts, self.count)


def alike(parts: Tree, row: Tree) -> bool:
    """Whether a row has leaves of these shapes and types, by the same keys."""
    if parts.keys() != row.keys():
        return False
    pairs = ((part, dict.__getitem__(row, name)) for name, part in parts.items())
    return all(
        alike(part, leaf)
        if isinstance(part, Tree) and isinstance(leaf, Tree)
        else isinstance(part, Tree) is isinstance(leaf, Tree) and part[1:] == (leaf.shape, leaf.dtype)
        for part, leaf in pairs
    )


def laid_out(like: Tree, count: int) -> tuple[int, Tree]:
    """(bytes in all, a `Part` for each leaf) of so many rows like this one, leaf after leaf."""
    end = 0

    def placed(leaf: Tensor | Part) -> Part:
        nonlocal end
        start = -(-end // ALIGNED) * ALIGNED
        end = start + _bytes(leaf.dtype, (count, *leaf.shape))
        return Part(start, tuple(leaf.shape), leaf.dtype)

    parts = like.map(placed)
    return end, parts


def _rows(memory: Tensor, parts: Tree, count: int) -> Tree:
    """The tensors [count, ...] that lie in these bytes."""

    def rows(part: Part) -> Tensor:
        shape = (count, *part.shape)
        return memory[part.start : part.start + _bytes(part.dtype, shape)].view(part.dtype).view(shape)

    return parts.map(rows)


def _bytes(dtype: torch.dtype, shape: tuple[int, ...]) -> int:
    return math.prod(shape) * dtype.itemsize


# ---- in the worker ---------------------------------------------------------------------------------------------------------
def written(shared: Shared, i: int, row: Tree) -> bool:
    """Write row `i` of a stack; False where that cannot be: the stack is of other rows, or cannot be opened."""
    if not alike(shared.parts, row):
        return False
    try:
        memory = _opened(shared.process, shared.file, shared.size, shared.number)
    except OSError:
        return False
    _rows(memory, shared.parts, shared.count).map(lambda store, leaf: store[i].copy_(leaf), row)
    return True


@lru_cache(maxsize=1)
def _opened(process: int, file: int, size: int, number: int) -> Tensor:
    """A parent's room, mapped; the number tells two rooms of one file number apart."""
    with open(f"/proc/{process}/fd/{file}", "r+b") as opened:
        return torch.from_numpy(np.frombuffer(mmap.mmap(opened.fileno(), size), np.uint8))
