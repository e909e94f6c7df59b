"""Which device and which backend a run can have, and what the device is called."""

from __future__ import annotations

import platform

from pflrepro.errors import UserError

BACKENDS = ("auto", "loop", "batched", "graph")


def resolve_device(name: str) -> str:
    """`auto` becomes `cuda` where there is a CUDA device, else `cpu`; a device that this machine has not got is a `UserError`."""
    import torch

    present = torch.cuda.device_count() if torch.cuda.is_available() else 0
    named = isinstance(name, str)  # an array would be compared number by number
    if named and name == "auto":
        return "cuda" if present else "cpu"
    valid = ["cpu", *(["cuda"] if present else []), *(f"cuda:{index}" for index in range(present))]
    if not named or name not in valid:
        raise UserError(f"no device {name!r} on this machine; valid: auto, {', '.join(valid)}")
    return name


def product_name(device: str) -> str:
    """The product name of a CUDA device, else that of the processor."""
    if not device.startswith("cuda"):
        return processor()
    import torch

    return torch.cuda.get_device_name(device)


def processor() -> str:
    """The processor's name where the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return next(
                (line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), platform.machine()
            )
    except OSError:
        return platform.processor() or platform.machine()
