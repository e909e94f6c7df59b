"""An experiment as a simulation in memory, to look into: nothing is read from a store and nothing is kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pflrepro.errors import UserError, check_range, is_several

if TYPE_CHECKING:
    from pflrepro.experiments.config import Experiment
    from pflrepro.simulation.simulation import Simulation


def simulate(
    experiments: Experiment | Sequence[Experiment],
    *,
    rounds: int | None = None,
    data_root: str | Path | None = None,
    backend: str = "auto",
    device: str = "cpu",
    workers: int | None = None,
) -> Simulation:
    """The simulation of an experiment, or of several that differ in nothing but the seed, run to its last round or for `rounds`.

    Its clients' models are `pflrepro.simulation.client_models(simulation)`. The numbers are those of `pflrepro.run`, whose stop rule
    (`patience`) is not applied: it trains on.

    Raises `UserError` for what is no experiment, for experiments that differ otherwise, and for more `rounds` than they have.
    """
    from pflrepro.experiments.config import check_experiment
    from pflrepro.experiments.training import Machine

    chosen = list(experiments) if is_several(experiments) else [experiments]
    for each in chosen:
        check_experiment(each, "simulate takes experiments")
    if len({each.changed(seed=0) for each in chosen}) != 1:
        raise UserError("a simulation is made of experiments that differ in nothing but the seed, one at least")
    if rounds is not None:
        check_range("rounds of this experiment", rounds, 1, chosen[0].settings.rounds, integer=True)
    machine = Machine(device=device, data_root=data_root)
    simulation = machine.simulation(chosen, backend, workers)
    while not simulation.finished and (rounds is None or simulation.round < rounds):
        simulation.step()
    return simulation
