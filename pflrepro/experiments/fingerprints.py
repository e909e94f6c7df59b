"""Fingerprints of data sets that were worked out before, in the user's cache folder: a file is hashed once, not in every process.

What was worked out holds as long as the file has its time, size and inode, and its set is made in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pflrepro.data.arrays import SHIFT_REVISION
from pflrepro.data.datasets import find
from pflrepro.experiments.loading import Stamp
from pflrepro.remembered import remembered


def remembered_fingerprint(dataset: str, root: str, stamp: Stamp, work_out: Callable[[], str]) -> str:
    """The fingerprint of a data set in the folder `root`, whose file `stamp` tells from others: read, or worked out and then kept.

    Data that come with a package have none to be kept: theirs is the declared one, without which they are refused.
    """
    spec = find(dataset)
    if spec.embedded and spec.fingerprint:
        return spec.fingerprint
    if stamp is None:
        return work_out()
    made_so = f"{spec.shift} {spec.part} {spec.samples} {SHIFT_REVISION} {spec.test_sets or ''}"
    key = f"{dataset} {Path(root).absolute()} {made_so} {stamp}"
    return remembered(file(), key, work_out, lambda found: isinstance(found, str))


def file() -> Path:
    """Where they are kept."""
    import platformdirs

    return platformdirs.user_cache_path("pflrepro") / "fingerprints.json"
