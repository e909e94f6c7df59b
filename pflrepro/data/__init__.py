"""Real data -> arrays -> a partition among clients -> the federation.

`datasets` says which sets there are, `download` gets them, `arrays` is their file, `partition` divides them, `federation` holds
them on a device. Importing this package imports no framework; names load on first use.
"""

from __future__ import annotations

from pflrepro.lazy import lazy_names

_NAMES = {
    "DATASETS": ".datasets",
    "load_arrays": ".datasets",
    "data_root": ".root",
    "get": ".download",
    "status": ".download",
    "verify": ".download",
    "PARTITIONS": ".partitions.parse",
    "Partition": ".partition",
    "Federation": ".federation",
}
__all__ = list(_NAMES)
__getattr__, __dir__ = lazy_names(__name__, _NAMES)
