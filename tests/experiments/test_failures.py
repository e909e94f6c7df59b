"""A failing method: the one line of the error says where in its own code."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from pflrepro import cli
from pflrepro.algorithms import build_method
from pflrepro.algorithms.contract import Method
from pflrepro.catalogue import describe
from pflrepro.conformance import CHECKS, report
from pflrepro.errors import RunFailed, UserError
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


HEAD = "from dataclasses import dataclass\n\nfrom pflrepro.algorithms import Method\n\n\n"
FROZEN = "@dataclass(frozen=True)\n"


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`written(text)`: a module `own_method` with that text."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield lambda text: (tmp_path / "own_method.py").write_text(HEAD + text, encoding="utf-8")
    sys.modules.pop("own_method", None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"{FROZEN}class Own(Method):\n    mu: float\n",
            "Own has an option without a default, mu; write mu: TYPE = VALUE",
        ),
        (
            f"from dataclasses import field\n\n\n{FROZEN}class Own(Method):\n    mu: list = field(default_factory=list)\n",
            "option mu of Own is a list that a default_factory makes; an option is a number, a word, true or false: write mu: TYPE",
        ),
        (
            "class Own(Method):\n    mu: float = 0.1\n",
            "Own has no @dataclass(frozen=True) above it, so that mu would be no option; write that line above the class",
        ),
        (
            f"class Base(Method):\n    mu: float = 0.1\n\n\n{FROZEN}class Own(Base):\n    nu: float = 0.1\n",
            "Base, of which Own is made, has no @dataclass(frozen=True) above it",
        ),
        (
            "@dataclass\nclass Own(Method):\n    mu: float = 0.1\n",
            "module 'own_method' fails when imported at own_method.py:6: TypeError: cannot inherit non-frozen dataclass "
            "from a frozen one; a method has @dataclass(frozen=True) above it",
        ),
        (
            "class Own(Method):\n    mu = 0.1\n    nu = mew\n",
            "module 'own_method' fails when imported at own_method.py:8: NameError",
        ),
        (
            "class Own(Method):\n    def loss(self, params, batch, ctx):\n        return super().loss(params, batch, ctx)\n",
            "Own.loss at own_method.py:7 must take (self, params, local, batch, ctx): too many positional arguments",
        ),
        (
            "class Part:\n    def send(self, server, cohort, more):\n        return\n\n\nclass Own(Part, Method):\n    pass\n",
            "Part.send at own_method.py:7 must take (self, server, cohort): missing a required argument: 'more'",
        ),
    ],
)
def test_what_a_class_lacks_is_said_when_it_is_loaded(text, message, written, capsys) -> None:
    written(text)
    for words in (["run", "--option", "mu=1", "--algorithm"], ["plan", "demo/digits", "--also"]):
        assert cli.main([*words, "own_method:Own"]) == 2
        assert capsys.readouterr().err.startswith(f"pflrepro: error: {message}")
    with pytest.raises(UserError, match=re.escape(message)):
        describe("own_method:Own")


def test_constants_of_a_class_need_no_decorator(written) -> None:
    written("from typing import ClassVar\n\n\nclass Own(Method):\n    rate = 0.1\n    revision: ClassVar[int] = 2\n")
    assert build_method("own_method:Own").revision == 2


def test_a_function_that_nothing_calls_is_told_once(written, caplog) -> None:
    written(
        f"{FROZEN}class Own(Method):\n"
        "    def corect(self, grads, local, ctx):\n        return grads\n\n"
        "    def losses(self):\n        return []\n\n"
        "    def loss(self, *arguments):\n        return [self.losses() for _ in (1,)] and super().loss(*arguments)\n\n"
        "    def server_update(self):\n        return 1\n\n"
        "    def _schedule(self):\n        return 1\n"
        "    def horizon(self):\n        return 1\n\n"
        "    @property\n    def knows_rounds(self):\n        return self.horizon() > 0\n\n\n"
        f"{FROZEN}class Own(Own):\n"
        "    def aggregate(self, *arguments):\n        return self.mixed(super().aggregate(*arguments))\n\n"
        "    def mixed(self, server):\n        return server\n\n"
        "    def loss(self, *arguments):\n        return super().loss(*arguments)\n"
    )
    for _ in range(2):
        build_method("own_method:Own")
    assert caplog.messages == [
        "Own defines corect, which nothing calls; meant: correct?",
        "Own defines server_update, which nothing calls; if it is no hook, call it _server_update",
    ]


NOTHING = (
    FROZEN + "class Own(Method):\n    def correct(self, grads, local, ctx):\n        grads.map(lambda grad: 2 * grad)\n"
)


@pytest.mark.parametrize("backend", ["loop", "batched"])
def test_a_hook_without_a_result_is_named(backend, written, store, make) -> None:
    written(NOTHING)
    with pytest.raises(RunFailed) as failed:
        run(make.experiment("own_method:Own"), store=store, progress=False, backend=backend, workers=1)
    assert str(failed.value).endswith(" 'items'; Own.correct at own_method.py:8 may return nothing")


def test_a_report_on_a_broken_method_has_a_line_a_check(written) -> None:
    written(f"{NOTHING}\n    def aggregate(self, server, uploads, cohort, ctx):\n        pass\n")
    reasons = {each.check: each.reason for each in report("own_method:Own")}
    assert list(reasons) == list(CHECKS)
    assert reasons["resume"].endswith(
        "Own.aggregate at own_method.py:11 and Own.correct at own_method.py:8 may return nothing"
    )
    sys.modules.pop("own_method")
    written(f"{FROZEN}class Own(Method):\n    def aggregate(self, server, uploads, cohort, ctx):\n        pass\n")
    assert {each.reason for each in report("own_method:Own").failed} >= {"Own.aggregate must return a Tree, not None"}
