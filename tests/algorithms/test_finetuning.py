"""Fine-tuning before a test: what FedBABU and FedAvgFT share."""

from __future__ import annotations

import pytest

from pflrepro.algorithms.fedavgft import FedAvgFT
from pflrepro.algorithms.fedbabu import FedBABU
from pflrepro.algorithms.finetuning import FineTuning
from pflrepro.algorithms.phases import Clock
from pflrepro.algorithms.registry import hyperparameters
from pflrepro.errors import UserError


def test_the_hyperparameters_keep_their_order_and_defaults() -> None:
    """They are part of the identity of finished runs."""
    babu = {"tune_parts": "all", "tune_epochs": 10, "tune_when": "always"}
    assert list(hyperparameters("fedbabu").items()) == list(babu.items())
    assert hyperparameters("pflrepro.algorithms.fedavgft:FedAvgFT") == babu | {"tune_epochs": 5}


@pytest.mark.parametrize("method", [FineTuning, FedAvgFT, FedBABU])
def test_the_phases(method: type[FineTuning]) -> None:
    before, after = Clock(4, 5), Clock(5, 5)  # after the last round the clock stands at `rounds`
    training, tuning = method(tune_epochs=3, tune_parts="base").phases(before)
    assert (training.where, tuning.where, tuning.passes, tuning.train) == ("clients", "adapt", 3, ("base",))
    assert [len(method(tune_when="end").phases(clock)) for clock in (before, after)] == [1, 2]
    assert len(method(tune_epochs=0).phases(after)) == 1


def test_what_comes_before_the_last_test_only_needs_everybody_there(simulate) -> None:
    with pytest.raises(UserError, match="without tune, which comes before the last test only"):
        simulate(FedAvgFT(tune_when="end"), receivers="selected", participation=0.5)
    for allowed in ({"receivers": "selected"}, {"participation": 0.5}):
        simulate(FedAvgFT(tune_when="end"), rounds=1, **allowed)
    simulate(FedAvgFT(), rounds=1, receivers="selected", participation=0.5)


@pytest.mark.parametrize("options", [{"tune_epochs": -1}, {"tune_parts": "body"}, {"tune_when": "never"}])
def test_impossible_values_are_refused_in_the_name_of_the_class_that_declares_them(options: dict) -> None:
    option = next(iter(options))
    for method, declares in (
        (FedAvgFT, "FineTuning"),
        (FedBABU, "FedBABU" if option == "tune_epochs" else "FineTuning"),
    ):
        with pytest.raises(UserError, match=f"{option} of {declares} "):
            method(**options)


def test_what_comes_before_the_last_test_only_needs_a_last_test(simulate) -> None:
    with pytest.raises(
        UserError, match=r"patience=2 may end the run early, without tune, which comes before the test after round 9"
    ):
        simulate(FedAvgFT(tune_when="end"), rounds=9, patience=2)
    simulate(FedAvgFT(), rounds=1, patience=2)
