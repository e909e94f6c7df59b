"""What the C heap does with freed memory in a process that trains on a CPU; measured in benchmarks/heap.py."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of mallopt(3), as in malloc.h
NEVER = -1
LARGEST = (2**31 - 1, 32 << 20)  # an older glibc takes no more than the second
OF_THE_USER = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


@cache
def keep_freed_memory() -> bool:
    """Let the heap keep what is freed, for the next step; whether it does so now.

    By itself glibc gives large blocks back to the system as they are freed, so that each step's gradients and new parameters are mapped
    and zeroed anew. It stays as it is where the environment sets its thresholds, and on systems without glibc.
    """
    if any(name in os.environ for name in OF_THE_USER):
        return False
    # In this order: either threshold, once it is set, ends glibc's own raising of both, which does more than the second one alone.
    mapped = any(_call("mallopt", MMAP_THRESHOLD, size) == 1 for size in LARGEST)
    return mapped and _call("mallopt", TRIM_THRESHOLD, NEVER) == 1


def give_back_freed_memory() -> None:
    """Give the system what is free: between runs an open notebook need not hold it."""
    _call("malloc_trim", 0)


def _call(name: str, *arguments: int) -> Any:
    """What this function of the C library returns; None where it has none."""
    try:
        return getattr(ctypes.CDLL(None), name)(*arguments)
    except (AttributeError, OSError, TypeError):  # TypeError: a library needs a name there (Windows)
        return None
