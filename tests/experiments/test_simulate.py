"""An experiment as a simulation in memory."""

from __future__ import annotations

import numpy as np
import pytest

import pflrepro
from pflrepro.errors import UserError
from pflrepro.experiments.revive import revive

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
    with pytest.raises(UserError, match="rounds of this experiment must be a whole number >= 1 and <= 3, not 99"):
        pflrepro.simulate(one, rounds=99)  # it has a schedule of three
    for wrong in ("fedavg", ["fedavg"], 5):
        with pytest.raises(UserError, match=r"simulate takes experiments, not (str|int)"):
            pflrepro.simulate(wrong)


@pytest.mark.parametrize("device", ["gpu", "cuda:99"])
def test_a_device_that_is_not_there_is_refused_before_anything_is_made(device: str, tmp_path) -> None:
    one = pflrepro.Experiment.for_dataset("fedavg", "digits", **ASKED | {"rounds": 0})
    made = pflrepro.run(one, store=tmp_path, device="auto", progress=False)
    for call in (
        lambda: pflrepro.simulate(one, device=device),
        lambda: pflrepro.run(one.changed(seed=1), store=tmp_path, device=device),
        lambda: revive(made, store=tmp_path, device=device),
    ):
        with pytest.raises(UserError, match=f"no device '{device}' on this machine; valid: auto, cpu"):
            call()
