"""The time on a device that may lag behind the program."""

from __future__ import annotations

import time

import torch


def now(device: torch.device) -> float:
    """Seconds on a clock without a meaning of its own, once the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
