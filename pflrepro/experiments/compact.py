"""Runs without their states, one small file each: what is committed beside the figures and travels in the wheel.

A file holds a run's configuration, identity, history, record and readings. A store reads a folder of them where it has nothing
itself, so that every committed number and picture is there without data and without training.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pflrepro.errors import CorruptFile, UserError
from pflrepro.experiments import files
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.history import check_history
from pflrepro.experiments.identity import identity_digest
from pflrepro.experiments.readings import FOLDER, Question, unpacked
from pflrepro.experiments.result import Run

_RUN, _HISTORY, _READING = "run", "history/", "reading/"


def pack(run: Run) -> bytes:
    """A run as one npz: its history as float32 where it is a number of time or loss, its readings as they are."""
    described = {
        "id": run.id,
        "experiment": run.experiment.to_dict(),
        "identity": dict(run.identity),
        "environment": {name: value for name, value in run.environment.items() if name != "sittings"},
    }
    arrays = {_RUN: np.frombuffer(json.dumps(described, sort_keys=True).encode(), np.uint8)}
    arrays |= {f"{_HISTORY}{name}": _small(array) for name, array in run.history.items()}
    for path in sorted((run.folder / FOLDER).glob("*.npz")) if run.folder.is_dir() else ():
        arrays |= {f"{_READING}{path.name}/{name}": array for name, array in files.read_npz(path).items()}
    return files.npz_bytes(arrays, compress=True)


def _small(array: np.ndarray) -> np.ndarray:
    """Whole numbers in the smallest type, others as float32."""
    if array.dtype.kind == "i":
        return array.astype(np.result_type(np.min_scalar_type(int(array.min())), np.min_scalar_type(int(array.max()))))
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def export(run: Run, folder: Path) -> Path:
    """Write `<folder>/<id>.npz`; equal runs give equal bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{run.id}.npz"
    content = pack(run)
    if not path.exists() or path.read_bytes() != content:
        files.write(path, content)
    return path


def read(path: Path) -> Run:
    """The run in a file; `CorruptFile` for anything odd."""
    arrays = files.read_npz(path)
    try:
        described: dict[str, Any] = json.loads(arrays[_RUN].tobytes())
        id, identity = described["id"], described["identity"]
        experiment = Experiment.from_dict(described["experiment"], recorded=True)
        history = {name.removeprefix(_HISTORY): array for name, array in arrays.items() if name.startswith(_HISTORY)}
        wide = {
            name: array.astype({"f": np.float64, "b": np.bool_}.get(array.dtype.kind, np.int64))
            for name, array in history.items()
        }
        environment = described["environment"]
    except (KeyError, ValueError, TypeError, UserError) as error:
        raise CorruptFile(f"{path.name} is no run: {error}") from None
    if identity_digest(identity) != id or path.stem != id:
        raise CorruptFile(f"{path.name} does not hold the run that its name says")
    return Run(id, experiment, identity, check_history(wide), environment, path)


def reading(path: Path, question: Question) -> dict[str, np.ndarray] | None:
    """A reading that a file holds, or None."""
    prefix = f"{_READING}{question.file}/"
    arrays = {name.removeprefix(prefix): array for name, array in _arrays(path).items() if name.startswith(prefix)}
    return unpacked(arrays, question) if arrays else None


@cache
def _arrays(path: Path) -> dict[str, np.ndarray]:
    return files.read_npz(path)


def shipped() -> Path:
    """The folder of the runs that came with the package: in the checkout, else in the installation; it may not exist."""
    package = Path(__file__).resolve().parents[1]
    checkout = package.parent / "figures" / "runs"
    return checkout if (package.parent / "pyproject.toml").exists() else package / "_runs"
