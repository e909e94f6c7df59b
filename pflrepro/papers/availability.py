"""Which parts of an artefact the package holds, and which data are at hand: the reasons behind `not run`."""

from __future__ import annotations

from pathlib import Path

from pflrepro.errors import MissingData, UserError


def missing_part(algorithm: str, dataset: str, model: str) -> str | None:
    """The first part of a cell that the package has not got, in words; None if it has all."""
    from pflrepro.algorithms.entries import ALGORITHMS, PLUGINS, VARIANTS
    from pflrepro.data.datasets import DATASETS
    from pflrepro.models import find

    if dataset not in DATASETS:
        return f"data set {dataset} not in the package"
    try:
        find(model)
    except UserError:
        return f"model {model} not in the package"
    base, *plugins = algorithm.split("+")
    if base not in ALGORITHMS | VARIANTS and ":" not in base:  # `module:Class` is looked up where it is built
        return f"method {base} not in the package"
    lacking = next((plugin for plugin in plugins if plugin not in PLUGINS), None)
    return None if lacking is None else f"plug-in {lacking} not in the package"


def missing_data(dataset: str, data_root: str | Path | None = None) -> str | None:
    """Why the data of a cell are not at hand, in words; None if they are. Looks for the files, reads nothing."""
    from pflrepro.data.datasets import DATASETS
    from pflrepro.data.frost import find_folder, needed_by
    from pflrepro.data.root import cache_path

    spec = DATASETS[dataset]
    if not spec.embedded and not cache_path(spec.stored_as, data_root).exists():
        return f"data set {dataset} not downloaded (pflrepro data get {dataset})"
    try:
        if needed_by(spec.shift):
            find_folder(data_root)
    except MissingData as error:
        return str(error)
    return None
