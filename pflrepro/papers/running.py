"""Run what an artefact still lacks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pflrepro.errors import MissingData, UserError
from pflrepro.papers.artefact import Artefact
from pflrepro.papers.comparing import open_store
from pflrepro.papers.planning import Planned, plan
from pflrepro.papers.registry import find

if TYPE_CHECKING:
    from pflrepro.experiments.store import Store


def run(
    artefact: str | Artefact,
    scale: str,
    *,
    store: Store | None = None,
    data_root: str | Path | None = None,
    seeds: int | None = None,
    methods: Sequence[str] | None = None,
    backend: str = "auto",
    device: str = "cpu",
    workers: int | None = None,
    progress: bool = True,
) -> list[Planned]:
    """Train what the store lacks of an artefact and return the plan as it stood before; what is there is not touched.

    Cells whose data are not at hand or whose parts are not in the package stay `not run`; if nothing at all can be
    run, the error says why.
    """
    artefact = find(artefact)
    store = open_store(store)
    planned = plan(artefact, scale, store=store, data_root=data_root, seeds=seeds, methods=methods)
    if not artefact.rows:
        return planned
    todo = [entry.experiment for entry in planned if entry.state == "to run"]
    if not todo:
        if not any(entry.state == "done" for entry in planned):
            raise _nothing(artefact, scale, planned)
        return planned
    from pflrepro.experiments.run import run as train

    train(todo, store=store, data_root=data_root, backend=backend, device=device, workers=workers, progress=progress)
    return planned


def _nothing(artefact: Artefact, scale: str, planned: list[Planned]) -> UserError:
    lacking = sorted({entry.reason for entry in planned if entry.state == "no data"})
    if lacking:
        return MissingData(f"{artefact.id} at scale {scale}: {lacking[0]}; offline works: --scale smoke")
    reasons = sorted({entry.reason for entry in planned})
    return UserError(f"nothing of {artefact.id} can be run at scale {scale}: {'; '.join(reasons[:3])}")
