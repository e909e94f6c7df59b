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
    babu = {"tune_parts": "all", "tune_epochs": 10, "tune_from": "aggregate", "tune_when": "always"}
    assert list(hyperparameters("fedbabu").items()) == list(babu.items())
    assert hyperparameters("pflrepro.algorithms.fedavgft:FedAvgFT") == babu | {"tune_epochs": 5}


@pytest.mark.parametrize("method", [FineTuning, FedAvgFT, FedBABU])
def test_the_phases(method: type[FineTuning]) -> None:
    before, after = Clock(4, 5), Clock(5, 5)  # after the last round the clock stands at `rounds`
    training, tuning = method(tune_epochs=3, tune_parts="base").phases(before)
    assert (training.where, tuning.where, tuning.passes, tuning.train) == ("clients", "adapt", 3, ("base",))
    assert [len(method(tune_when="end").phases(clock)) for clock in (before, after)] == [1, 2]
    assert len(method(tune_epochs=0).phases(after)) == 1


def test_a_client_keeps_what_it_trained_only_where_tuning_starts_from_it(simulate) -> None:
    kept = {
        (method, start): set(simulate(method(tune_epochs=0, tune_from=start), rounds=1).replicas[0].clients)
        for method in (FedAvgFT, FedBABU)
        for start in ("aggregate", "local")
    }
    nothing = {"params"}  # the empty tree of personal groups
    assert kept[FedAvgFT, "aggregate"] == kept[FedBABU, "aggregate"] == nothing
    assert kept[FedAvgFT, "local"] == nothing | {"base", "head"} and kept[FedBABU, "local"] == nothing | {"base"}


@pytest.mark.parametrize(
    "options", [{"tune_epochs": -1}, {"tune_parts": "body"}, {"tune_from": "w"}, {"tune_when": "never"}]
)
def test_impossible_values_are_refused_in_the_method_s_name(options: dict) -> None:
    for method in (FedAvgFT, FedBABU):
        with pytest.raises(UserError, match=f"{next(iter(options))}.*{method.__name__}|{method.__name__}.*tune_epochs"):
            method(**options)
