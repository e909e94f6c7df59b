"""What the C heap does with freed memory in a process that trains on a CPU; measured in benchmarks/heap.py."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of mallopt(3), as in malloc.h
NEVER, LARGEST = -1, 2**31 - 1
OF_THE_USER = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


@cache
def keep_freed_memory() -> bool:
    """Let the heap keep what is freed, for the next step; whether it does so now.

    By itself glibc gives large blocks back to the system as they are freed, so that each step's gradients and new parameters are mapped
    and zeroed anew. It stays as it is where the environment sets its thresholds, and on systems without glibc.
    """
    if any(name in os.environ for name in OF_THE_USER):
        return False
    return all(_call("mallopt", *pair) == 1 for pair in ((TRIM_THRESHOLD, NEVER), (MMAP_THRESHOLD, LARGEST)))


def give_back_freed_memory() -> None:
    """Give the system what is free: between runs an open notebook need not hold it."""
    _call("malloc_trim", 0)


def _call(name: str, *arguments: int) -> Any:
    """What this function of the C library returns; None where it has none."""
    try:
        return getattr(ctypes.CDLL(None), name)(*arguments)
    except (AttributeError, OSError, TypeError):  # TypeError: a library needs a name there (Windows)
        return None
