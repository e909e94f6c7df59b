"""How many processor cores there are to use, and processes to start."""

from __future__ import annotations

import multiprocessing
import os


def usable_cores() -> int:
    """The cores that this process may run on, which a container or a job scheduler may have limited."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def may_start_processes() -> bool:
    """Not in a worker of `multiprocessing.Pool` or another daemonic process: it may have no children."""
    return not multiprocessing.current_process().daemon


def usual_workers() -> int:
    """Worker processes where nobody says how many: one a core, as far as this process may start any."""
    return usable_cores() if may_start_processes() else 1
