"""Regenerate committed numbers aside and compare: does this machine give what was committed?"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pflrepro.errors import UserError
from pflrepro.experiments.result import Run
from pflrepro.experiments.run import run as train
from pflrepro.experiments.store import Store
from pflrepro.papers.artefact import Artefact
from pflrepro.papers.studies import Study


@dataclass(frozen=True)
class Compared:
    """One committed run beside the same run made here.

    Attributes:
        committed, here: best accuracy in percent.
        rounds: of the committed run and of that made here.
        tested_alike: whether both were tested after the same rounds.
        samples: the largest difference of correct predictions, summed over clients, over the tests that both have.
        of: the test samples.
        versions: of PyTorch, that the committed run was made with and here.
    """

    row: str
    column: str
    seed: int
    id: str
    committed: float
    here: float
    rounds: tuple[int, int]
    tested_alike: bool
    samples: int
    of: int
    versions: tuple[str, str]

    @property
    def agrees(self) -> bool:
        """Whether both were tested after the same rounds, and no test differs by more than one sample."""
        return self.tested_alike and self.samples <= 1


def verify(
    id: str,
    scale: str = "fast",
    *,
    committed: Store | None = None,
    methods: Sequence[str] = (),
    data_root: str | Path | None = None,
    **how: Any,
) -> list[Compared]:
    """Train the runs behind an artefact's committed numbers anew, in a store of their own, and compare each with its committed one.

    Raises `UserError` where nothing of the artefact is committed at that scale.

    On the kind of machine and with the version of PyTorch that made them they are equal; with another one rounding moves single
    samples, and a run may drift apart by more.

    Args:
        committed: where they are; by default those that came with the package.
        how: see `pflrepro.run`.
    """
    with tempfile.TemporaryDirectory(prefix="pflrepro-verify-") as folder:
        there = committed or Store(Path(folder) / "nothing")
        study = Study(id, scale, store=there, data_root=data_root, methods=methods)
        wanted = {row.key for row in study.trained}
        cells = [cell for cell in study.cells.values() if cell.runs and cell.row.key in wanted]
        if not cells:
            raise UserError(f"no number of {id} at scale {scale} is committed")
        experiments = [run.experiment for cell in cells for run in cell.runs.values()]
        aside = Store(Path(folder) / "aside", behind=Path(folder) / "nothing")
        made = train(experiments, store=aside, data_root=data_root, **how)
        places = [(cell, run) for cell in cells for run in cell.runs.values()]
        return [_compare(study.artefact, cell, old, new) for (cell, old), new in zip(places, made, strict=True)]


def _compare(artefact: Artefact, cell: Any, old: Run, new: Run) -> Compared:
    tested = [run.history["round"] for run in (old, new)]
    _, *places = np.intersect1d(*tested, return_indices=True)  # before any training both were tested
    theirs, ours = (run.history["correct"][place] for run, place in zip((old, new), places, strict=True))
    return Compared(
        row=cell.row.label,
        column=artefact.name_of(cell.column),
        seed=old.experiment.seed,
        id=old.id,
        committed=100 * old.accuracy(),
        here=100 * new.accuracy(),
        rounds=(old.rounds, new.rounds),
        tested_alike=np.array_equal(*tested),
        samples=int(np.abs(theirs - ours).sum(1).max()),
        of=int(old.history["test_samples"].sum()),
        versions=tuple(run.environment.get("versions", {}).get("torch", "unknown") for run in (old, new)),
    )
