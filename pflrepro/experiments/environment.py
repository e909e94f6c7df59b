"""What a run was made with. Nothing in it names a place on this machine or the machine itself."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pflrepro import __version__
from pflrepro.device import processor, product_name
from pflrepro.experiments.keeper import SAVED
from pflrepro.experiments.version import commit
from pflrepro.metrics.divergence import divergence


def attempt(facts: Mapping[str, Any], *, device: str, seeds: Sequence[int], started_at: int) -> dict[str, Any]:
    """The record of one process that works on a run: what the engine says of itself (backend, workers, chunk...), the device, the
    seeds that train side by side, the round it starts at. Filled in as it goes on: `seconds`, `peak_memory_bytes`, `test_samples` (of
    all clients), how much of the run is `asked` for, and the rounds of the states that are kept beside the checkpoint."""
    plain = {
        str(name): value for name, value in facts.items() if value is None or isinstance(value, (bool, int, float, str))
    }
    return plain | {"device": device, "seeds_together": list(seeds), "started_at_round": started_at, "seconds": 0.0}


def environment(attempts: Sequence[Mapping[str, Any]], history: Mapping[str, np.ndarray], dtype: str) -> dict[str, Any]:
    """What a run was made with, as its record keeps it.

    Top level: what the last attempt had (`backend`, `device`, `workers`, `chunk`, `threads`, `seeds_together`), `dtype`, `versions`,
    `platform`, `processor`, `peak_memory_bytes`; `timings` in seconds (`training` and `evaluation` as in the history, a share of what
    seeds side by side took; `total` of all attempts, for all their seeds); `diverged`: round and clients, or null; `attempts`: one
    record a process that worked on the run.
    """
    of_attempts = ("seconds", "started_at_round", "test_samples", "asked", SAVED)
    last = {name: value for name, value in attempts[-1].items() if name not in of_attempts}
    apart = divergence(history)
    peaks = [entry["peak_memory_bytes"] for entry in attempts if entry.get("peak_memory_bytes")]
    return last | {
        "dtype": dtype,
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": processor(),
        "versions": {
            "python": platform.python_version(),
            "pflrepro": __version__,
            "commit": commit(),
            **{name: importlib.metadata.version(name) for name in ("torch", "numpy")},
        },
        "timings": {
            "training": float(history["seconds"].sum()),
            "evaluation": float(history["seconds_evaluation"].sum()),
            "total": float(sum(entry["seconds"] for entry in attempts)),
        },
        "peak_memory_bytes": max(peaks, default=None),
        "diverged": None if apart is None else {"round": apart.round, "clients": list(apart.clients)},
        "attempts": [dict(entry) for entry in attempts],
    }


def device_name(device: str) -> str:
    """`cpu`, or a CUDA device with its product name: `cuda (NVIDIA H100)`."""
    return f"{device} ({product_name(device)})" if device.startswith("cuda") else device


def threads() -> int:
    """Threads of one operation."""
    import torch

    return torch.get_num_threads()


def peak_memory(device: str) -> int | None:
    """The largest memory so far in bytes: of the device for CUDA, else of this process; None where the system does not tell."""
    if device.startswith("cuda"):
        import torch

        return int(torch.cuda.max_memory_allocated(device))
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
