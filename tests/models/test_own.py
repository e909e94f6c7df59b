"""Networks of one's own, `module:function`: trained like any, cut like any, known by the code of their function."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
import torch

import pflrepro
from pflrepro.errors import UserError
from pflrepro.experiments.identity import run_id
from pflrepro.models import build_model
from pflrepro.models.registry import canonical

NETS = """
import math
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
