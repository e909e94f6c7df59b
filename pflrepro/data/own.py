"""Data of one's own: `file:FILE.npz` in place of a data set's name.

The file has `x` [N, ...] and `y` [N], labels 0 .. C-1, and may have `group` [N] and `classes` [C], see `arrays.Arrays`; who trains on
what and is tested on what is the partition's, `file:` ones included. A run's id has the content of the file, not its place.
"""

from __future__ import annotations

import logging
import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from pflrepro.data.sets.types import PIXELS, RAW, DatasetSpec, SourceFile, preset
from pflrepro.errors import CorruptFile, UserError

if TYPE_CHECKING:
    from pflrepro.data.arrays import Arrays

PREFIX = "file:"
READ = ("x", "y", "group", "classes")
log = logging.getLogger("pflrepro.data")
# An MLP takes any shape; rate and rounds were chosen by trial on digits, no paper's.
PRESET = preset("mlp", 10, lr=0.05, rounds=50)


def is_own(name: str) -> bool:
    """Whether a data set's name is that of a file of one's own."""
    return isinstance(name, str) and name.startswith(PREFIX)


def path_of(name: str) -> Path:
    """The file behind such a name."""
    return Path(os.path.expanduser(name.removeprefix(PREFIX)))  # which leaves the ~ of nobody as it is


def without_folder(name: str) -> str:
    """A data set's name with the folder of one's own file left out, as a store keeps it."""
    return PREFIX + Path(name.removeprefix(PREFIX).replace("\\", "/")).name if is_own(name) else name


def own_arrays(name: str) -> Arrays:
    """The arrays in the file; `UserError` where there is none, `CorruptFile` for arrays of anything else.

    The last file that was read is kept in memory, as long as it does not change.
    """
    path = path_of(name)
    try:
        stat = os.stat(path)
    except OSError as error:
        raise UserError(f"there is no array file {path}: {error.strerror or error}") from None
    return _read(name, path.absolute(), (stat.st_mtime_ns, stat.st_size, stat.st_ino))


@lru_cache(maxsize=1)
def _read(name: str, path: Path, stamp: tuple[int, int, int]) -> Arrays:
    from pflrepro.data.arrays import names_in, read_arrays

    try:
        arrays = read_arrays(path, name)
    except CorruptFile as error:
        if "allow_pickle" not in str(error):
            raise
        raise CorruptFile(
            f"{path} has arrays of Python objects, such as text labels of a table: make numbers of them, "
            "y, classes = pandas.factorize(labels), before np.savez"
        ) from None
    if strange := sorted({*names_in(path)} - {*READ}):
        log.warning(
            "%s has %s, which is not read: only %s are; who is tested on what is a partition's, file:WHO.npz included",
            path.name,
            ", ".join(strange),
            ", ".join(READ),
        )
    count = len(_class_names(arrays))
    if empty := set(range(count)).difference(arrays.labels()):
        raise CorruptFile(f"{path} has no sample of class {min(empty)}: labels count from 0, here to {count - 1}")
    return arrays


def own_spec(name: str) -> DatasetSpec:
    """The description of the file; what an experiment on it uses where nothing is said is `PRESET`.

    Whole numbers of one byte in two or more axes are taken for pixels and scaled to [-1, 1]; other numbers stay as they are.
    """
    arrays, file = own_arrays(name), path_of(name)
    return DatasetSpec(
        name=name,
        title=f"{len(arrays):,} samples of shape {list(arrays.shape)} from {file.name}",
        shape=arrays.shape,
        samples=len(arrays),
        train_samples=None,
        class_names=_class_names(arrays),
        origin="a file of one's own",
        licence="",
        citation="",
        preset=PRESET,
        to_unit=PIXELS if arrays.x.dtype == "uint8" and len(arrays.shape) > 1 else RAW,
        files=(SourceFile("arrays", file.name),),
    )


def _class_names(arrays: Arrays) -> tuple[str, ...]:
    """Those in the file, else the numbers up to the largest label."""
    return tuple(map(str, range(int(arrays.y.max()) + 1) if arrays.classes is None else arrays.classes))
