"""The data of an experiment: their arrays, and the federation of clients made of them."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from pflrepro.data.datasets import find, load_arrays
from pflrepro.data.own import is_own, path_of
from pflrepro.data.root import cache_path
from pflrepro.data.root import data_root as resolve
from pflrepro.errors import UserError
from pflrepro.experiments.config import DataConfig, Experiment

if TYPE_CHECKING:
    from pflrepro.data.arrays import Arrays
    from pflrepro.data.federation import Federation
    from pflrepro.data.partition import Partition

Stamp = tuple[int, int, int] | None


def arrays_of(dataset: str, data_root: str | Path | None = None) -> Arrays:
    """The arrays of a data set; the last one read is kept in memory."""
    return _read(*place_of(dataset, data_root))


def load_federation(
    data: DataConfig | Experiment, data_root: str | Path | None = None, device: str = "cpu"
) -> Federation:
    """The clients and their samples, on a device, of an experiment too; `UserError` if the partition is impossible on these data, or
    nobody has any sample to train on, or to test with.

    Example:
        >>> load_federation(DataConfig("digits", "iid", clients=5))
        Federation(digits: 5 clients, 10 classes, 1347 training samples (269..270 a client), 450 test samples)
    """
    from pflrepro.data.federation import Federation

    data = data.data if isinstance(data, Experiment) else data
    if not isinstance(data, DataConfig):
        raise UserError(
            f"load_federation takes a DataConfig, such as DataConfig('digits'), or an experiment, not {data!r}"
        )
    arrays, spec = arrays_of(data.dataset, data_root), find(data.dataset)
    parts = partition_of(data, data_root)
    places = {"root": data_root, "device": device}
    return Federation.of(spec, arrays, parts, seed=data.partition_seed, proxy=_proxy(data, arrays, data_root), **places)


def partition_of(data: DataConfig, data_root: str | Path | None = None) -> Partition:
    """Which rows each client has, without what a data set's shift makes of them; `UserError` if that is impossible on these data.

    Example:
        >>> partition_of(DataConfig("digits", "iid", clients=5))
        Partition(iid: 5 clients, 1,797 samples (359..360 a client))
    """
    import torch

    from pflrepro.data.partition import partition

    arrays = arrays_of(data.dataset, data_root)
    parts = partition(
        data.partition,
        torch.from_numpy(arrays.y),
        data.clients,
        data.partition_seed,
        groups=None if arrays.group is None else torch.from_numpy(arrays.group),
        min_size=data.min_size,
        test_share=data.test_share,
    )
    for samples, kind in ((parts.train, "training"), (parts.test, "test")):
        if not any(map(len, samples)):
            raise UserError(f"partition {data.partition!r} gives no client {kind} samples: there is nothing to measure")
    return parts


def _proxy(data: DataConfig, arrays: Arrays, data_root: str | Path | None) -> Federation | None:
    """The proxy data as one client's samples, in their own units; `UserError` if their samples have another shape."""
    import numpy as np
    import torch

    from pflrepro.data.federation import Federation

    if not data.proxy:
        return None
    # Not through `arrays_of`, which keeps the last data set read: that should stay the one trained on.
    proxy, spec = load_arrays(data.proxy, data_root), find(data.proxy)
    if proxy.x.shape[1:] != arrays.x.shape[1:]:
        shapes = [list(x.shape[1:]) for x in (proxy.x, arrays.x)]
        raise UserError(
            f"proxy data need samples of the same shape: {data.proxy} has {shapes[0]}, {data.dataset} {shapes[1]}"
        )
    x, y = torch.from_numpy(proxy.x), torch.from_numpy(proxy.y)
    return Federation(x, y, [np.arange(len(y))], [[]], classes=spec.classes, unit=tuple(spec.to_unit), name=data.proxy)


def place_of(dataset: str, data_root: str | Path | None) -> tuple[str, str, Stamp]:
    """(data set, folder, what tells whether its file has changed), which names its arrays as long as it has not."""
    spec, root = find(dataset), resolve(data_root)
    if spec.embedded:
        return dataset, "", None
    try:
        stat = os.stat(path_of(dataset) if is_own(dataset) else cache_path(spec.stored_as, root))
    except OSError:
        return dataset, str(root), None
    return dataset, str(root), (stat.st_mtime_ns, stat.st_size, stat.st_ino)


@lru_cache(maxsize=1)
def _read(dataset: str, root: str, stamp: Stamp) -> Arrays:
    return load_arrays(dataset, root or None)
