"""How far a run is: the engine's state of one seed and what to know about its making, in one npz."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pflrepro.errors import CorruptFile, OtherVersion
from pflrepro.experiments import files

FORMAT = 1
_META, _STATE, _HISTORY = "meta", "state/", "history/"


@dataclass(frozen=True)
class Checkpoint:
    """A half-done run.

    Attributes:
        round: rounds done.
        state: what `Simulation.state_of` gave.
        attempts: one record for each process that worked on the run so far (the rounds it started at, backend, device, seconds...),
            see `pflrepro.experiments.environment`.
    """

    round: int
    state: Mapping[str, np.ndarray]
    attempts: list[dict[str, Any]] = field(default_factory=list)

    @property
    def history(self) -> dict[str, np.ndarray]:
        """The tests until then, as `Simulation.history` has them; empty before the first."""
        return {name.removeprefix(_HISTORY): a for name, a in self.state.items() if name.startswith(_HISTORY)}


def write_checkpoint(path: Path, id: str, checkpoint: Checkpoint) -> None:
    """Write atomically; the run's id goes in, so that a checkpoint in a wrong folder is noticed."""
    meta = json.dumps({"format": FORMAT, "id": id, "round": checkpoint.round, "attempts": checkpoint.attempts})
    state = {f"{_STATE}{name}": array for name, array in checkpoint.state.items()}
    files.write_npz(path, {_META: np.frombuffer(meta.encode(), dtype=np.uint8)} | state)


def read_checkpoint(path: Path, id: str, *, tests_only: bool = False) -> Checkpoint:
    """Read and check; `CorruptFile` for anything odd, `OtherVersion` for a file that is not for this version to read.

    Args:
        tests_only: of the state the tests alone are read, which says how far a run is and how good.
    """
    arrays = files.read_npz(path, _of_tests) if tests_only else files.read_npz(path)
    try:
        meta = json.loads(arrays.pop(_META).tobytes().decode())
        if meta["format"] != FORMAT:
            raise OtherVersion(
                f"{path.name} of run {id} is of another version of pflrepro (format {meta['format']!r}, here {FORMAT})"
            )
        if meta["id"] != id:
            raise CorruptFile(f"{path.name} does not belong to this folder")
        checkpoint = Checkpoint(
            int(meta["round"]), {name.removeprefix(_STATE): a for name, a in arrays.items()}, meta["attempts"]
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptFile(f"{path.name} is not a checkpoint: {error!r}") from None
    if not isinstance(checkpoint.attempts, list) or not all(isinstance(entry, dict) for entry in checkpoint.attempts):
        raise CorruptFile(f"{path.name} is not a checkpoint: its records are missing")
    return checkpoint


def _of_tests(name: str) -> bool:
    return name == _META or name.startswith(_STATE + _HISTORY)
