"""The runs that came with the package, as a store looks into them where it has nothing itself."""

from __future__ import annotations

import logging
from functools import cached_property
from pathlib import Path

from pflrepro.errors import CorruptFile
from pflrepro.experiments import compact
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.history import agree
from pflrepro.experiments.identity import identity, identity_digest
from pflrepro.experiments.result import Run
from pflrepro.experiments.runs import Runs

log = logging.getLogger("pflrepro.store")


class Behind:
    """What lies behind a store.

    Attributes:
        behind: a folder of `compact` runs.
    """

    behind: Path

    def compact(self, id: str) -> Run | None:
        """The run with this id that is kept without states in `behind`, or None; a damaged file is reported."""
        path = self.behind / f"{id}.npz"
        try:
            return compact.read(path) if path.exists() else None
        except CorruptFile as error:
            log.warning("a run that came with the package is damaged and left out: %s", error)
            return None

    def recorded(self, experiment: Experiment) -> Run | None:
        """The run of an experiment in `behind`, whatever the content of its data: for those who have not got them; or None."""
        found = self._recorded.get(identity_digest(identity(experiment, "")))
        return None if found is None else found.answering(experiment)

    @cached_property
    def _recorded(self) -> dict[str, Run]:
        """The runs in `behind` by their identity without the content of their data."""
        return {identity_digest({**run.identity, "fingerprint": ""}): run for run in self.shipped()}

    def shipped(self) -> Runs:
        """The runs that came with the package (those in `behind`), without their models: of every committed table and figure.

        Example:
            pflrepro.Store().shipped().select(dataset="har-interleaved").frame()
        """
        ids = sorted(path.stem for path in self.behind.glob("*.npz"))
        return Runs(run for run in map(self.compact, ids) if run is not None)

    def _measured(self, run: Run) -> Path | None:
        """The file in `behind` whose readings are of this run's models: the run itself, or one of the same training."""
        if run.folder.is_file():
            return run.folder
        shipped = self.compact(run.id)
        return shipped.folder if shipped is not None and agree(run.history, shipped.history) else None
