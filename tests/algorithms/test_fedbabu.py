"""FedBABU: the head that never learns, the fine-tuned copy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers.trees import assert_close

from pflrepro.algorithms import build_method
from pflrepro.errors import UserError
from pflrepro.models import build_model
from pflrepro.trees import Tree


def tuned_losses(federation, params: Tree, client: int, trained: tuple[str, ...], epochs: int, lr: float) -> float:
    """The summed test loss after full-batch SGD with momentum and weight decay on some of the parts."""
    split = build_model("mlp", federation.shape, federation.classes, 0)
    model = torch.nn.ModuleDict({"base": split.base, "head": split.head}).double()
    model.load_state_dict({path.replace("/", ".", 1): value for path, value in params.flat().items()})
    learning = [p for part in trained for p in model[part].parameters()]
    optimiser = torch.optim.SGD(learning, lr=lr, momentum=0.5, weight_decay=0.02)
    x, y = federation.batch(torch.as_tensor(federation.rows["train"][client]), torch.float64)
    for _ in range(epochs):
        optimiser.zero_grad()
        F.cross_entropy(model["head"](model["base"](x)), y).backward()
        optimiser.step()
    x, y = federation.batch(torch.as_tensor(federation.rows["test"][client]), torch.float64)
    with torch.no_grad():
        return float(F.cross_entropy(model["head"](model["base"](x)), y, reduction="sum"))


@pytest.mark.parametrize("name", ["fedbabu", "fedbabu+mr"])
def test_the_head_never_changes(simulate, name: str) -> None:
    start, end = (
        simulate(name, rounds=r, options={"tune_epochs": 1}, weight_decay=0.1, momentum=0.5).replicas[0].server.params
        for r in (0, 3)
    )
    assert_close(end.head, start.head, 0)
    with pytest.raises(AssertionError):
        assert_close(end.base, start.base, 1e-3)


@pytest.mark.parametrize(("parts", "trained"), [("all", ("base", "head")), ("head", ("head",)), ("base", ("base",))])
@pytest.mark.parametrize("name", ["fedbabu", "fedbabu+mr"])
def test_tuning_is_plain_sgd_on_a_copy(federation, simulate, name: str, parts: str, trained: tuple[str, ...]) -> None:
    """Also with MR: the copy is never uploaded, so nothing regularises it."""
    options = {"tune_parts": parts, "tune_epochs": 3}
    simulation = simulate(name, rounds=1, options=options, batch_size=100, momentum=0.5, weight_decay=0.02)
    params = simulation.replicas[0].server.params
    for client, loss in enumerate(simulation.history(0)["loss"][-1]):
        if len(federation.rows["test"][client]):
            assert loss == pytest.approx(tuned_losses(federation, params, client, trained, 3, 0.05), rel=1e-9)


def test_tuning_leaves_no_trace(simulate) -> None:
    runs = [simulate("fedbabu", options=o).replicas[0] for o in ({"tune_epochs": 0}, {}, {"tune_when": "end"})]
    for other in runs[1:]:
        assert_close(other.server, runs[0].server, 0)


def test_tuning_at_the_end_only(simulate) -> None:
    never, always, end = (
        simulate("fedbabu", options={"tune_epochs": epochs, "tune_when": when}).history(0)["loss"]
        for epochs, when in ((0, "always"), (2, "always"), (2, "end"))
    )
    assert np.array_equal(end[:-1], never[:-1]) and np.array_equal(end[-1], always[-1])
    assert not np.array_equal(never[-1], always[-1])


@pytest.mark.parametrize("options", [{"tune_epochs": -1}, {"tune_parts": "body"}, {"tune_when": "never"}])
def test_impossible_values_are_refused(options: dict) -> None:
    with pytest.raises(UserError, match=f"option {next(iter(options))} of fedbabu "):
        build_method("fedbabu", options)
