"""A finished run at one of its moments, as a simulation to look into."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np

from pflrepro.errors import RunFailed, UserError
from pflrepro.experiments import environment
from pflrepro.experiments.checkpoint import Checkpoint
from pflrepro.experiments.identity import has_horizon, run_id
from pflrepro.experiments.result import Moment, Run
from pflrepro.experiments.run import open_store
from pflrepro.experiments.store import Store
from pflrepro.experiments.training import Machine
from pflrepro.simulation.simulation import Simulation

MOST_DIFFERING = 0.01  # share of the test samples: more is no rounding
log = logging.getLogger("pflrepro.revive")


def revive(
    run: Run,
    moment: Moment = "last",
    *,
    store: Store | str | Path | None = None,
    data_root: str | Path | None = None,
    device: str = "cpu",
) -> Simulation:
    """The simulation of a run behind the round of a moment: `best`, `last`, or a tested round.

    It is what the measures on models take. The kept state is read where there is one; else the run is trained again from the
    latest state before that moment, or from its start, which is said, and the state is kept. What comes out is compared with the run's
    own history: equal on the machine that made it; on another one rounding may move single test samples, which is said.

    Raises `UserError` for what is no run, an unknown moment and where data, partition or method are not the run's any more, `RunFailed`
    if more than one test sample in a hundred differs.
    """
    if not isinstance(run, Run):
        raise UserError(
            f"revive takes one finished run, such as pflrepro.run(experiment) or Store().select()[0], not a {type(run).__name__}"
        )
    store, round, machine = open_store(store), run.round_of(moment), Machine(device=device, data_root=data_root)
    if run_id(run.experiment, data_root) != run.id:
        raise UserError(
            f"run {run.id} cannot be made again here: its data, the file of its partition or the code of its method are others now"
        )
    experiment = run.experiment if has_horizon(run.experiment) else run.experiment.with_settings(rounds=round)
    same = run.environment.get("device") == environment.device_name(machine.device)
    backend = run.environment.get("backend", "auto") if same else "auto"
    simulation = machine.simulation([experiment], backend, None)
    own = store.holds(run)
    kept = store.state(run.id, round) if own else None
    if kept is not None:
        simulation.restore_seed(0, dict(kept.state))
    simulation.begin()
    if simulation.round < round:
        log.warning(
            "run %s: its models after round %d are not kept; training it again from round %d, to look into them",
            *(run.id, round, simulation.round),
        )
    while simulation.round < round:
        simulation.step()
    _compare(run, round, simulation)
    if own and (kept is None or kept.round != round):
        _keep(run, store, Checkpoint(round, simulation.state_of(0), kept.attempts if kept else []))
    return simulation


def _compare(run: Run, round: int, simulation: Simulation) -> None:
    """Hold a revived simulation against the run's history."""
    history = simulation.history(0)
    ours = history["correct"][history["round"] == round]
    theirs = run.history["correct"][run.history["round"] == round]
    differing = int(np.abs(ours - theirs).sum()) if len(ours) else 0
    if differing > MOST_DIFFERING * run.history["test_samples"].sum():
        raise RunFailed(
            f"run {run.id} trained again to round {round} is not what its history says: {differing} of "
            f"{int(run.history['test_samples'].sum())} test samples differ; other versions or another device made it"
        )
    if differing:
        log.warning("run %s trained again to round %d differs in %d test samples (rounding)", run.id, round, differing)


def _keep(run: Run, store: Store, state: Checkpoint) -> None:
    """Keep the state for the next time, unless somebody else works on the run or the store cannot be written to."""
    lock = store.lock(run.id)
    try:
        if lock.acquire():
            store.begin(run.id, run.experiment, run.identity)
            store.keep_state(run.id, state)
    except UserError as error:  # the simulation is there all the same
        log.warning("the state of run %s after round %d is not kept: %s", run.id, state.round, error)
    finally:
        lock.release()
