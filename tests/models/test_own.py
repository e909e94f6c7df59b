"""Networks of one's own, `module:function`: trained like any, cut like any, known by the code of their function."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest
import torch

import pflrepro
from pflrepro.errors import UserError
from pflrepro.experiments.identity import run_id
from pflrepro.models import build_model
from pflrepro.models.own import own_plan
from pflrepro.models.registry import canonical

NETS = """
import math
import torch.nn.utils.prune
from torch import nn

def net(shape, classes):
    return {"fc1": [nn.Flatten(), nn.Linear(math.prod(shape), 16), nn.ReLU()], "fc2": [nn.Linear(16, 8), nn.ReLU()],
            "logits": [nn.Linear(8, classes)]}

def one_layer(shape, classes):
    return {"logits": [nn.Flatten(), nn.Linear(math.prod(shape), classes)]}

def no_list(shape, classes):
    return {"fc1": nn.Flatten(), "logits": nn.Linear(math.prod(shape), classes)}

def unfit(shape, classes):
    return {"fc1": [nn.Flatten(), nn.Linear(3, 4)], "logits": [nn.Linear(4, classes)]}

def few(shape, classes):
    return {"fc1": [nn.Flatten(), nn.Linear(math.prod(shape), 4)], "logits": [nn.Linear(4, 3)]}

def dropping(shape, classes):
    return {"fc1": [nn.Flatten(), nn.Dropout()], "logits": [nn.Linear(math.prod(shape), classes)]}

def beside(shape, classes, *modules):
    width = math.prod(shape)
    return {"fc1": [nn.Flatten(), *modules, nn.Linear(width, 8)], "fc2": [nn.Linear(8, 8)], "logits": [nn.Linear(8, classes)]}

class Holding(nn.Module):
    def __init__(self, buffer=None, **held):
        super().__init__()
        self.register_buffer("order", buffer)
        vars(self).update(held)

    def forward(self, x):
        return x

def tied(shape, classes):
    plan = beside(shape, classes)
    plan["fc2"].append(nn.Linear(8, 8))
    plan["fc2"][1].weight = plan["fc2"][0].weight
    return plan

def shared(shape, classes):
    plan, act = beside(shape, classes), nn.ReLU()
    return {"fc1": plan["fc1"] + [act], "fc2": plan["fc2"], "fc3": [nn.Sequential(act, *plan["fc2"])], "logits": plan["logits"]}

class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(8, 6, batch_first=True)

    def forward(self, x):
        return self.gru(x.flatten(1, 2))[0][:, -1]

def recurrent(shape, classes):
    return {"gru": [Recurrent()], "logits": [nn.Linear(6, classes)]}

class Net(nn.Module):
    pass

def no_arguments():
    return {}
"""


@pytest.fixture
def nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "nets_of_mine.py"
    file.write_text(NETS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "nets_of_mine", raising=False)
    return file


def experiment(model: str = "nets_of_mine:net", **changes: object) -> pflrepro.Experiment:
    return pflrepro.Experiment.for_dataset("fedper", "digits", model=model, clients=3, **({"rounds": 2} | changes))


def test_its_last_layer_is_the_head_unless_it_is_cut_elsewhere(nets: Path) -> None:
    whole, cut = (build_model(f"nets_of_mine:net{at}", (8, 8), 10, seed=3) for at in ("", "@fc1"))
    assert (whole.features, cut.features) == (8, 16)
    x = torch.arange(128.0).reshape(2, 1, 8, 8) / 64
    assert torch.equal(whole.head(whole.base(x)), cut.head(cut.base(x))), "where it is cut changes no number"
    assert canonical("nets_of_mine:net@fc1") == "nets_of_mine:net@fc1"


def test_it_is_trained_by_every_backend_alike_and_found_again(nets: Path, tmp_path: Path) -> None:
    store = pflrepro.Store(tmp_path / "store")
    runs = [
        pflrepro.run(experiment(seed=seed, dtype="float64"), store=store, progress=False, backend=backend, workers=1)
        for seed, backend in ((0, "loop"), (1, "loop"))
    ]
    both = pflrepro.simulate([experiment(seed=seed, dtype="float64") for seed in (0, 1)], backend="batched")
    for seed, run in enumerate(runs):
        assert both.history(seed)["correct"].tolist() == run.history["correct"].tolist()
    assert pflrepro.run(experiment(dtype="float64"), store=store, progress=False).id == runs[0].id


def test_auto_takes_the_loop_where_vmap_has_no_rule(nets: Path, caplog: pytest.LogCaptureFixture) -> None:
    of_mine = experiment("nets_of_mine:recurrent", rounds=1)
    made = {name: pflrepro.simulate(of_mine, backend=name, workers=1) for name in ("auto", "loop")}
    assert [made[name].facts["backend"] for name in made] == ["loop", "loop"]
    assert made["auto"].history(0)["loss"].tolist() == made["loop"].history(0)["loss"].tolist()
    (message,) = caplog.messages
    assert message.startswith("taking the backend loop, since batched cannot run this: ") and "\n" not in message
    with pytest.raises(RuntimeError):
        pflrepro.simulate(of_mine, backend="batched")


def test_an_edited_network_is_another_run(nets: Path) -> None:
    before = run_id(experiment())
    assert run_id(experiment("nets_of_mine:net@fc1")) != before
    nets.write_text(NETS.replace("16", "24"))
    importlib.invalidate_caches()
    module = sys.modules["nets_of_mine"]
    exec(compile(nets.read_text(), str(nets), "exec"), module.__dict__)
    assert run_id(experiment()) != before
    exec(compile(NETS + "\n# a comment\n", str(nets), "exec"), module.__dict__)
    assert run_id(experiment()) == before


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("nn.BatchNorm1d(64, momentum=None)", "BatchNorm1d(momentum=None), whose running statistics would never move"),
        (
            "nn.InstanceNorm1d(64, momentum=None, track_running_stats=True)",
            "InstanceNorm1d(momentum=None), whose running",
        ),
        ("nn.BatchNorm1d(64, track_running_stats=False)", "BatchNorm1d(track_running_stats=False), for which padded"),
        (
            "nn.MultiheadAttention(8, 2, dropout=0.1)",
            "MultiheadAttention(dropout=0.1), whose masks no run could repeat",
        ),
        ("nn.LSTM(8, 8, 2, dropout=0.5)", "LSTM(dropout=0.5), whose masks no run could repeat"),
        ("nn.Sequential(nn.RReLU())", "RReLU, whose random numbers no run could repeat"),
        ("nn.FractionalMaxPool2d(2, 4)", "FractionalMaxPool2d, whose random numbers no run could repeat"),
        ("nn.LazyLinear(64)", "LazyLinear, whose weights would not be drawn from the run's seed"),
        ("Holding(torch.arange(3))", "a buffer of torch.int64, Holding.order, which no run keeps: make it in forward"),
        ("Holding(mask=torch.ones(3))", "a tensor that is neither parameter nor buffer, Holding.mask, which stays on"),
    ],
)
def test_modules_that_no_run_could_repeat_or_keep_are_refused(nets: Path, module: str, message: str) -> None:
    nets.write_text(f"{NETS}\ndef net(shape, classes):\n    return beside(shape, classes, {module})\n")
    with pytest.raises(UserError, match=rf"^model 'nets_of_mine:net' has {re.escape(message)}"):
        build_model("nets_of_mine:net", (8, 8), 10, seed=0)


@pytest.mark.parametrize(
    "module",
    [
        "nn.Identity()",
        "nn.BatchNorm1d(64)",
        "Holding(torch.ones(3))",
        "Holding(mask=[1.0])",
        "nn.MultiheadAttention(64, 2)",
        "nn.GRU(64, 64)",
        "nn.utils.prune.identity(nn.Linear(64, 64), 'weight')",
    ],
)
def test_modules_that_a_run_can_repeat_are_taken(nets: Path, module: str) -> None:
    nets.write_text(f"{NETS}\ndef net(shape, classes):\n    return beside(shape, classes, {module})\n")
    own_plan("nets_of_mine:net", (8, 8), 10)


def test_a_tensor_has_one_place_and_a_module_with_numbers_one_side(nets: Path) -> None:
    with pytest.raises(
        UserError, match=r"has one tensor in two places \(Linear.weight and Linear.weight\): use one module"
    ):
        build_model("nets_of_mine:tied", (8, 8), 10, seed=0)
    for cut in ("@fc1", ""):  # the ReLU, which has no numbers, may stand in both
        build_model(f"nets_of_mine:shared{cut}", (8, 8), 10, seed=0)
    with pytest.raises(
        UserError, match=r"has one Linear in base and head \(layers fc2 and fc3\), which would be trained as"
    ):
        build_model("nets_of_mine:shared@fc2", (8, 8), 10, seed=0)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("nets_of_mine:one_layer", "must give two named layers or more, each a list of modules"),
        ("nets_of_mine:no_list", "must give two named layers or more, each a list of modules"),
        ("nets_of_mine:unfit", r"does not take samples of shape \[1, 8, 8\]: mat1 and mat2"),
        ("nets_of_mine:few", r"gives \[3\] for a sample; 10 logits are wanted"),
        ("nets_of_mine:dropping", "has torch's dropout, whose masks no run could repeat"),
        ("nets_of_mine:net@fc3", "unknown split of nets_of_mine:net 'fc3'; valid: fc"),
        ("nets_of_mine:Net", "must be a function of nets_of_mine"),
        ("nets_of_mine:nothing", "must be a function of nets_of_mine"),
        ("nets_of_mine:no_arguments", r"must be a function \(shape, classes\): too many positional arguments"),
        ("no_such_nets:net", "no module 'no_such_nets' for model 'no_such_nets:net'; give module:function"),
        ("nets of mine:net", "an own model is given as module:function, not 'nets of mine:net'"),
        ("mlq", r"unknown model 'mlq' \(a network of your own: module:function\); valid: mlp, "),
    ],
)
def test_odd_networks_are_refused_in_one_line(nets: Path, model: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        pflrepro.simulate(experiment(model), workers=1)
