"""What data an experiment means: their fingerprint, the content of partition files, and the federation itself."""

from __future__ import annotations

import hashlib
import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from pflrepro.errors import CorruptFile, UserError
from pflrepro.experiments.config import DataConfig, Experiment
from pflrepro.experiments.files import read_npz

if TYPE_CHECKING:
    import numpy as np

    from pflrepro.data.arrays import Arrays
    from pflrepro.data.federation import Federation

_Stamp = tuple[int, int, int] | None
_fingerprints: dict[tuple[str, str, _Stamp], str] = {}
_sources: WeakKeyDictionary[type, str] = WeakKeyDictionary()


def run_id(experiment: Experiment, data_root: str | Path | None = None) -> str:
    """The id of the experiment's run with the data of this data root; `MissingData` if they are not there."""
    return experiment.digest(fingerprint_of(experiment.data, data_root))


def fingerprint_of(data: DataConfig, data_root: str | Path | None = None) -> str:
    """The fingerprint of the data set, and behind a `+` that of the proxy data where there are some."""
    names = [data.dataset, data.proxy] if data.proxy else [data.dataset]
    return "+".join(data_fingerprint(name, data_root) for name in names)


def data_fingerprint(dataset: str, data_root: str | Path | None = None) -> str:
    """`Arrays.fingerprint` of a data set, remembered as long as its file does not change."""
    key = _key(dataset, data_root)
    if key not in _fingerprints:
        _fingerprints[key] = arrays_of(dataset, data_root).fingerprint()
    return _fingerprints[key]


def arrays_of(dataset: str, data_root: str | Path | None = None) -> Arrays:
    """The arrays of a data set; the last one read is kept in memory."""
    return _read(*_key(dataset, data_root))


def load_federation(data: DataConfig, data_root: str | Path | None = None, device: str = "cpu") -> Federation:
    """The clients and their samples, on a device; `UserError` if the partition is impossible on these data.

    Example:
        >>> load_federation(DataConfig("digits", "iid", clients=5))
        Federation(digits: 5 clients, 10 classes, 1347 training samples (269..270 a client), 450 test samples)
    """
    import torch

    from pflrepro.data.datasets import DATASETS
    from pflrepro.data.federation import Federation
    from pflrepro.data.partition import partition

    arrays, spec = arrays_of(data.dataset, data_root), DATASETS[data.dataset]
    labels = torch.from_numpy(arrays.y)
    groups = None if arrays.group is None else torch.from_numpy(arrays.group)
    parts = partition(
        data.partition,
        labels,
        data.clients,
        data.partition_seed,
        groups=groups,
        min_size=data.min_size,
        test_share=data.test_share,
    )
    places = {"root": data_root, "device": device}
    return Federation.of(spec, arrays, parts, seed=data.partition_seed, proxy=_proxy(data, arrays, data_root), **places)


def _proxy(data: DataConfig, arrays: Arrays, data_root: str | Path | None) -> Federation | None:
    """The proxy data as one client's samples, in their own units; `UserError` if their samples have another shape."""
    import numpy as np
    import torch

    from pflrepro.data.datasets import DATASETS, load_arrays
    from pflrepro.data.federation import Federation

    if not data.proxy:
        return None
    # Not through `arrays_of`, which keeps the last data set read: that should stay the one trained on.
    proxy, spec = load_arrays(data.proxy, data_root), DATASETS[data.proxy]
    if proxy.x.shape[1:] != arrays.x.shape[1:]:
        shapes = [list(x.shape[1:]) for x in (proxy.x, arrays.x)]
        raise UserError(
            f"proxy data need samples of the same shape: {data.proxy} has {shapes[0]}, {data.dataset} {shapes[1]}"
        )
    x, y = torch.from_numpy(proxy.x), torch.from_numpy(proxy.y)
    return Federation(x, y, [np.arange(len(y))], [[]], classes=spec.classes, unit=tuple(spec.to_unit), name=data.proxy)


def partition_content(text: str) -> str | None:
    """`kind:sha256:...` of the decoded arrays, and the options, for a partition that is read from a file; None for one drawn."""
    from pflrepro.data.specs import Counts, File, parse

    spec = parse(text)
    if isinstance(spec, Counts):
        from pflrepro.data.published import published_counts, read_counts

        counts = read_counts(spec.source) if spec.is_file else published_counts(spec.source)
        return f"counts:sha256:{_hash([counts])}{spec.options}"
    if isinstance(spec, File):
        return f"file:sha256:{_hash(_read_partition(Path(spec.path)))}"
    return None


def without_path(text: str) -> str:
    """A partition's text with a file's folder left out: what is written down names no place on this machine."""
    from pflrepro.data.specs import Counts, File, parse

    spec = parse(text)
    if isinstance(spec, File) or (isinstance(spec, Counts) and spec.is_file):
        return f"{spec.kind}:{Path(spec.value.replace(chr(92), '/')).name}"
    return text


def user_source(algorithm: str) -> str | None:
    """SHA-256 of the module that a user's own method (`module:Class`) comes from; None for the package's methods.

    A method under development has no revision that anyone keeps: its source stands in for it, as it was when the class was first
    seen, since a file that is edited later is not what runs until the module is loaded anew.
    """
    from pflrepro.algorithms.registry import build_method

    host = algorithm.split("+")[0]
    if ":" not in host:
        return None
    method = type(build_method(host))
    if method not in _sources:
        path = getattr(sys.modules.get(method.__module__), "__file__", None)
        if path is None:
            raise UserError(f"the source of {algorithm} cannot be read: define the method in a module of its own")
        _sources[method] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return _sources[method]


def _key(dataset: str, data_root: str | Path | None) -> tuple[str, str, _Stamp]:
    from pflrepro.data.datasets import find
    from pflrepro.data.root import cache_path
    from pflrepro.data.root import data_root as resolve

    spec = find(dataset)
    if spec.embedded:
        return dataset, "", None
    try:
        stat = os.stat(cache_path(spec.stored_as, data_root))
    except OSError:
        return dataset, str(resolve(data_root)), None
    return dataset, str(resolve(data_root)), (stat.st_mtime_ns, stat.st_size, stat.st_ino)


@lru_cache(maxsize=1)
def _read(dataset: str, root: str, stamp: _Stamp) -> Arrays:
    from pflrepro.data.datasets import load_arrays

    return load_arrays(dataset, root or None)


def _read_partition(path: Path) -> list[np.ndarray]:
    """`client` and `is_test` of a partition file in one number type, so that equal partitions have one identity."""
    if not path.is_file():
        raise UserError(f"there is no partition file {path}")
    arrays = read_npz(path)
    if not {"client", "is_test"} <= set(arrays):
        raise CorruptFile(f"{path} is no partition file: it must hold the arrays client and is_test")
    return [arrays["client"].astype("<i8"), arrays["is_test"].astype("u1")]


def _hash(arrays: list[np.ndarray]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
