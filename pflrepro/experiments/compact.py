"""Runs without their states, one small file each: what is committed beside the figures and travels in the wheel.

A file holds a run's configuration, identity, history, record and readings. Losses are numbers without pattern, which no compression
makes small: they are kept to four digits, and of a long run those of some tests.

A store reads a folder of them where it has nothing itself, so that every committed number and picture is there without data and
without training.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pflrepro.errors import CorruptFile, UserError
from pflrepro.experiments import files
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.history import NO_LOSS, agree, check_history, joined, shortened
from pflrepro.experiments.identity import identity_digest, written_down
from pflrepro.experiments.readings import FOLDER, Question, question_of, unpacked
from pflrepro.experiments.result import Run

log = logging.getLogger("pflrepro.compact")
_RUN, _HISTORY, _READING = "run", "history/", "reading/"
LOSSES = 50  # the losses of so many tests are kept, or up to twice as many, where the number of tests is no multiple
_LOST = {"loss": NO_LOSS, "train_loss": np.nan, "objective": np.nan}  # what stands for one that is not kept


def export(run: Run, folder: Path, *measured: Path) -> Path:
    """Write `<folder>/<id>.npz`: the history's times as float32, its losses as `history.shortened`, the readings as they are.

    Of a run with 2 `LOSSES` tests or more the losses of every k-th are kept, k = tests // `LOSSES`, with those of the best test and the
    last, and all where it diverged; accuracies are kept of all.

    What the file holds already stays: later rounds of the same training, readings that are nowhere else. Of two trainings the file
    holds the new one alone, or stays as it is where it has more (`Run.has_more_than`). Equal runs give equal bytes.

    Args:
        measured: further folders of readings of this run: of one that came with the package, the store's, where new readings go.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{run.id}.npz"
    try:
        old, there = (read(path), files.read_npz(path)) if path.exists() else (None, {})
    except CorruptFile as error:
        log.warning("a damaged file of a run is written anew: %s", error)
        old, there = None, {}
    if old is not None and not agree(run.history, old.history):
        if old.has_more_than(run):
            log.warning(
                "run %s was trained anew with other numbers; the longer one that is in %s stays", run.id, folder
            )
            return path
        old, there = None, {}
    readings = {name: array for name, array in there.items() if name.startswith(_READING)}
    # packed anew, since a setting that is younger than the file would make other bytes of the same run
    before = None if old is None else _pack(old, readings)
    for place in (run.folder, *measured):
        readings |= _readings(place, run.id)
    content = _pack(run if old is None else _together(run, old), readings)
    if content != before:
        files.write(path, content)
    return path


def _together(run: Run, old: Run) -> Run:
    """All that is known of one run from two requests for it."""
    asked = ((run, old), (old, run))
    whole = [one for one, other in asked if one.answering(other.experiment) is not None]
    if whole:  # both, where the stop rule ended it before either request's last round: in any order the same is kept
        return max(whole, key=lambda one: one.experiment.settings.rounds)
    history = joined(run.history, old.history)
    experiment = run.experiment.with_settings(rounds=int(history["round"][-1]), patience=0)
    return replace(run, history=history, experiment=experiment)


def _readings(place: Path, id: str) -> dict[str, np.ndarray]:
    """The readings of a run in its folder, or in its small file; damaged ones are reported and left out."""
    found = {}
    for path in [place] if place.is_file() else (place / FOLDER).glob("*.npz"):
        try:
            arrays = files.read_npz(path)
        except CorruptFile as error:
            log.warning("a reading of run %s is damaged and left out: %s", id, error)
            continue
        if path == place:
            found |= {name: array for name, array in arrays.items() if name.startswith(_READING)}
        else:
            found |= {f"{_READING}{path.name}/{name}": array for name, array in arrays.items()}
    return found


def _pack(run: Run, readings: Mapping[str, np.ndarray]) -> bytes:
    described = {
        "id": run.id,
        "experiment": written_down(run.experiment),
        "identity": dict(run.identity),
        "environment": {name: value for name, value in run.environment.items() if name != "attempts"},
    }
    arrays = {_RUN: np.frombuffer(json.dumps(described, sort_keys=True).encode(), np.uint8)}
    history = _thinned(run)
    if np.array_equal(history["objective"], history["train_loss"], equal_nan=True):
        del history["objective"]  # a method without a term of its own: a third of the file
    arrays |= {f"{_HISTORY}{name}": _small(name, array) for name, array in history.items()}
    arrays |= dict(sorted(readings.items()))
    # a client's numbers one after the other, which are more alike than those of all clients at a test
    return files.npz_bytes({name: np.asarray(array, order="F") for name, array in arrays.items()}, compress=True)


def _thinned(run: Run) -> dict[str, np.ndarray]:
    """The history with the losses of the tests that are kept, and the marks of `experiments.history` at the others."""
    tests = len(run.curve)
    step = tests // LOSSES
    if step < 2 or run.diverged:
        return dict(run.history)
    kept = np.arange(tests) % step == 0
    kept[[np.argmax(run.curve), -1]] = True
    return run.history | {name: np.where(kept[:, None], run.history[name], mark) for name, mark in _LOST.items()}


def _small(name: str, array: np.ndarray) -> np.ndarray:
    """Losses shortened, whole numbers in the smallest type, others as float32."""
    if name in _LOST:
        return shortened(array)
    if array.dtype.kind == "i":
        return array.astype(np.result_type(np.min_scalar_type(int(array.min())), np.min_scalar_type(int(array.max()))))
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def read(path: Path) -> Run:
    """The run in a file; `CorruptFile` for anything odd."""
    arrays = files.read_npz(path)
    described = _described(arrays, path)
    try:
        experiment = Experiment.from_dict(described["experiment"], recorded=described["identity"])
        wide = {
            name: array.astype({"f": np.float64, "b": np.bool_}.get(array.dtype.kind, np.int64))
            for name, array in _part(arrays, _HISTORY).items()
        }
        wide.setdefault("objective", wide["train_loss"])
        environment = described["environment"]
    except (KeyError, ValueError, TypeError, AttributeError, UserError) as error:
        raise CorruptFile(f"{path.name} is no run: {error}") from None
    return Run(path.stem, experiment, described["identity"], check_history(wide), environment, path)


def reading(path: Path, question: Question) -> dict[str, np.ndarray] | None:
    """A reading that a file holds, or None; a damaged one is reported and left out."""
    try:
        arrays = _part(_of_this_run(path), f"{_READING}{question.file}/")
        return unpacked(arrays, question) if arrays else None
    except CorruptFile as error:
        log.warning("a reading of the run %s that came with the package is damaged and left out: %s", path.stem, error)
        return None


def questions(path: Path) -> list[Question]:
    """What of a run was measured, of the readings that its file holds; nothing where there is no such file, or a damaged one."""
    try:
        arrays = _of_this_run(path)
        names = dict.fromkeys(name.split("/")[1] for name in arrays if name.startswith(_READING))
        return [question_of(_part(arrays, f"{_READING}{name}/")) for name in names]
    except CorruptFile:
        return []


def _of_this_run(path: Path) -> dict[str, np.ndarray]:
    """All arrays of a file, nothing where there is none; `CorruptFile` if they are not of the run that its name says."""
    if not path.is_file():
        return {}
    arrays = files.read_npz(path)
    _described(arrays, path)
    return arrays


def _described(arrays: Mapping[str, np.ndarray], path: Path) -> dict[str, Any]:
    """What a file says of its run, which is the one that its name says."""
    try:
        described = json.loads(arrays[_RUN].tobytes())
        same = described["id"] == identity_digest(described["identity"]) == path.stem
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise CorruptFile(f"{path.name} is no run: {error}") from None
    if not same:
        raise CorruptFile(f"{path.name} does not hold the run that its name says")
    return described


def _part(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin with `prefix`, by the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def shipped() -> Path:
    """The folder of the runs that came with the package: in the checkout, else in the installation; it may not exist."""
    package = Path(__file__).resolve().parents[1]
    checkout = package.parent / "figures" / "runs"
    return checkout if (package.parent / "pyproject.toml").exists() and checkout.is_dir() else package / "_runs"
