"""An experiment as a simulation in memory."""

from __future__ import annotations

import numpy as np
import pytest

import pflrepro
from pflrepro.errors import UserError

ASKED = {"clients": 5, "rounds": 3, "model": "mlp"}


def test_its_numbers_are_those_of_a_stored_run(tmp_path) -> None:
    experiments = [pflrepro.Experiment.for_dataset("fedper", "digits", seed=seed, **ASKED) for seed in (0, 4)]
    simulation = pflrepro.simulate(experiments)
    runs = pflrepro.run(experiments, store=pflrepro.Store(tmp_path), progress=False)
    for index, run in enumerate(runs):
        np.testing.assert_array_equal(simulation.history(index)["correct"], run.history["correct"])


def test_it_can_stop_early_and_refuses_what_cannot_be_one_simulation() -> None:
    one = pflrepro.Experiment.for_dataset("fedavg", "digits", **ASKED)
    assert pflrepro.simulate(one, rounds=2).round == 2
    other = pflrepro.Experiment.for_dataset("fedper", "digits", **ASKED)
    for wrong in ([one, other], []):
        with pytest.raises(UserError, match="nothing but the seed"):
            pflrepro.simulate(wrong)
    with pytest.raises(UserError, match="rounds"):
        pflrepro.simulate(one, rounds=0)
