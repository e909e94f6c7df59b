"""How many processor cores there are to use."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """The cores that this process may run on, which a container or a job scheduler may have limited."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
