"""FedAvgFT: FedAvg, and a fine-tuned copy for every test."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers.trees import assert_close

from pflrepro.algorithms.fedavgft import FedAvgFT
from pflrepro.models import build_model
from pflrepro.trees import Tree

SETTINGS = {"batch_size": 100, "momentum": 0.5, "weight_decay": 0.02}


def tuned_loss(federation, params: Tree, client: int, epochs: int, parts: tuple[str, ...] = ("base", "head")) -> float:
    """The summed test loss of a copy after full-batch epochs of the run's SGD with fresh momentum."""
    split = build_model("mlp", federation.shape, federation.classes, 0)
    model = torch.nn.ModuleDict({"base": split.base, "head": split.head}).double()
    model.load_state_dict({path.replace("/", ".", 1): value for path, value in params.flat().items()})
    learning = [p for part in parts for p in model[part].parameters()]
    optimiser = torch.optim.SGD(learning, lr=0.05, momentum=0.5, weight_decay=0.02)
    x, y = federation.batch(torch.as_tensor(federation.rows["train"][client]), torch.float64)
    for _ in range(epochs):
        optimiser.zero_grad()
        F.cross_entropy(model["head"](model["base"](x)), y).backward()
        optimiser.step()
    x, y = federation.batch(torch.as_tensor(federation.rows["test"][client]), torch.float64)
    with torch.no_grad():
        return float(F.cross_entropy(model["head"](model["base"](x)), y, reduction="sum"))


@pytest.mark.parametrize("options", [{}, {"tune_when": "end"}])
def test_training_is_fedavg_and_tuning_leaves_no_trace(simulate, options: dict) -> None:
    settings = {"participation": 0.6, "momentum": 0.5}
    ours, fedavg = simulate(FedAvgFT(**options), **settings), simulate("fedavg", **settings)
    assert_close(ours.replicas[0].server, fedavg.replicas[0].server, 0)
    untuned = simulate(FedAvgFT(**options | {"tune_epochs": 0}), **settings)
    for name in ("correct", "loss", "correct_after"):
        assert np.array_equal(untuned.history(0)[name], fedavg.history(0)[name])


@pytest.mark.parametrize(("parts", "trained"), [("all", ("base", "head")), ("head", ("head",)), ("base", ("base",))])
def test_tested_is_a_tuned_copy_of_the_aggregate(federation, simulate, parts: str, trained: tuple[str, ...]) -> None:
    simulation = simulate(FedAvgFT(tune_parts=parts), rounds=1, **SETTINGS)
    params = simulation.replicas[0].server.params
    for client, loss in enumerate(simulation.history(0)["loss"][-1]):
        if len(federation.rows["test"][client]):
            assert loss == pytest.approx(tuned_loss(federation, params, client, 5, trained), rel=1e-9)


def test_at_the_end_only_is_the_last_point_of_the_curve(simulate) -> None:
    never, always, end = (
        simulate(FedAvgFT(tune_epochs=epochs, tune_when=when)).history(0)["loss"]
        for epochs, when in ((0, "always"), (2, "always"), (2, "end"))
    )
    assert np.array_equal(end[:-1], never[:-1]) and np.array_equal(end[-1], always[-1])
    assert not np.array_equal(never[-1], always[-1])
