"""Real data -> arrays -> a partition among clients -> the federation.

`datasets` says which sets there are, `download` gets them, `arrays` is their file, `partition` divides them, `federation` holds
them on a device. Importing this package imports no framework; names load on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_EXPORTS = {
    "DATASETS": "pflrepro.data.datasets",
    "load_arrays": "pflrepro.data.datasets",
    "data_root": "pflrepro.data.root",
    "get": "pflrepro.data.download",
    "status": "pflrepro.data.download",
    "verify": "pflrepro.data.download",
    "PARTITIONS": "pflrepro.data.specs",
    "Partition": "pflrepro.data.partition",
    "Federation": "pflrepro.data.federation",
}
__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module 'pflrepro.data' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
