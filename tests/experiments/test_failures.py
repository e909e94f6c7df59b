"""A failing method: the one line of the error says where in its own code."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from pflrepro import cli
from pflrepro.algorithms import build_method
from pflrepro.algorithms.contract import Method
from pflrepro.errors import RunFailed
from pflrepro.experiments.run import run
from pflrepro.simulation.failing import place_of

METHOD = """\
from dataclasses import dataclass

import torch

from pflrepro.algorithms import Method


def product(x):
    return x @ torch.ones(3, 7)


@dataclass(frozen=True)
class Broken(Method):
    where: str = "loss"

    def layout(self, setup):
        if self.where == "layout":
            raise KeyError("no such part")
        return super().layout(setup)

    def loss(self, *arguments):
        if self.where == "loss":
            product(torch.ones(2, 2))
        return super().loss(*arguments)

    def aggregate(self, server, uploads, cohort, ctx):
        if self.where == "aggregate":
            torch.ones(2) + product
        return super().aggregate(server, uploads, cohort, ctx)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "broken_method.py").write_text(METHOD, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "broken_method.py"
    sys.modules.pop("broken_method", None)


def line_of(words: str) -> int:
    return next(place for place, line in enumerate(METHOD.splitlines(), 1) if words in line)


@pytest.mark.parametrize(
    ("where", "how", "words", "told"),
    [
        ("loss", {"backend": "loop"}, "(3, 7)", "Broken, round 0, seed 0, client 2, phase 'train', step 0{} (product)"),
        (
            "loss",
            {"backend": "batched"},
            "(3, 7)",
            "broken_method:Broken on digits (seed 0) failed in round 1{} (product)",
        ),
        ("aggregate", {}, "+ product", "broken_method:Broken on digits (seed 0) failed in round 1{} (aggregate)"),
        ("layout", {}, "raise", "broken_method:Broken on digits (seed 0) failed before its first round{} (layout)"),
    ],
)
def test_the_error_names_the_line_of_the_method(where, how, words, told, module, store, make) -> None:
    experiment = make.experiment("broken_method:Broken", options=(("where", where),), rounds=1)
    with pytest.raises(RunFailed) as failed:
        run(experiment, store=store, progress=False, **{"backend": "loop", "workers": 1} | how)
    message = str(failed.value)
    assert message.startswith(told.format(f" at {module}:{line_of(words)}") + ": "), message


def test_the_command_says_it_in_one_line(module, capsys, monkeypatch) -> None:
    monkeypatch.chdir(module.parent)
    words = "--clients 4 --rounds 1 --model mlp --device cpu --quiet --backend loop --workers 1"
    assert cli.main(["run", "--algorithm", "broken_method:Broken", *words.split()]) == 1
    error = capsys.readouterr().err
    assert f"step 0 at broken_method.py:{line_of('(3, 7)')} (product): RuntimeError: " in error
    assert error.count("\n") == 1


def test_the_methods_of_the_package_are_named_and_the_contract_is_not() -> None:
    def place(method: Method) -> str:
        with pytest.raises(Exception) as failed:
            method.layout(None)
        return place_of(failed.value, method)

    assert place(build_method("fedavg")) == ""
    assert re.fullmatch(r" at pflrepro/algorithms/fedper.py:\d+ \(layout\)", place(build_method("fedper")))
    assert re.fullmatch(r" at pflrepro/algorithms/dbe.py:\d+ \(layout\)", place(build_method("fedavg+dbe")))
