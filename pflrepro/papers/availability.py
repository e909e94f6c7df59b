"""Which data are at hand: a reason behind `not run`."""

from __future__ import annotations

from pathlib import Path

from pflrepro.errors import MissingData


def missing_data(dataset: str, data_root: str | Path | None = None) -> str | None:
    """Why the data of a cell are not at hand, in words; None if they are. Looks for the files, reads nothing."""
    from pflrepro.data.datasets import DATASETS
    from pflrepro.data.frost import find_folder, needed_by

    if to_get(dataset, data_root):
        return f"data set {dataset} not downloaded (pflrepro data get {dataset})"
    try:
        if needed_by(DATASETS[dataset].shift):
            find_folder(data_root)
    except MissingData as error:
        return str(error)
    return None


def to_get(dataset: str, data_root: str | Path | None = None) -> str:
    """The set with a file of its own that `pflrepro data get` must bring for this one; "" where that is there."""
    from pflrepro.data.datasets import DATASETS
    from pflrepro.data.root import cache_path

    spec = DATASETS[dataset]
    return "" if spec.embedded or cache_path(spec.stored_as, data_root).exists() else spec.stored_as
