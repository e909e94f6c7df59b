"""The examples in the docstrings of the measures, and that importing the package loads nothing heavy."""

from __future__ import annotations

import dataclasses
import doctest
import functools
import importlib
import pkgutil
import re
import subprocess
import sys
import types

import pytest

import pflrepro.metrics
from pflrepro.markup import BriefArrays

LIGHT = (
    *("accuracy", "classification", "comparison", "cost", "curves", "divergence", "fairness", "intervals", "selection"),
    "theory",
)
MODULES = (
    *LIGHT,
    *(
        "leakage",
        "mdl",
        "newcomers",
        "personalisation",
        "predictions",
        "representations",
        "separation",
        "toy",
        "training_time",
    ),
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    found = doctest.testmod(importlib.import_module(f"pflrepro.metrics.{name}"))
    assert found.failed == 0
    assert found.attempted > 0


def test_every_public_name_is_there() -> None:
    for name in pflrepro.metrics.__all__:
        assert getattr(pflrepro.metrics, name).__name__ == name
    # these are what the measures are built of, no measures
    found = {module.name for module in pkgutil.iter_modules(pflrepro.metrics.__path__)}
    assert found - set(MODULES) == {"lbfgs", "probe_training", "sets"} and set(MODULES) <= found


@pytest.mark.parametrize("name", MODULES)
def test_every_public_function_is_documented(name: str) -> None:
    module = importlib.import_module(f"pflrepro.metrics.{name}")
    own = [thing for thing in vars(module).values() if getattr(thing, "__module__", None) == module.__name__]
    documented = [thing for thing in own if isinstance(thing, type | types.FunctionType)]
    members = [member for thing in documented if isinstance(thing, type) for member in vars(thing).values()]
    documented += [each for each in members if isinstance(each, property | functools.cached_property | classmethod)]
    documented += [
        each for each in members if isinstance(each, types.FunctionType) and each.__module__ == module.__name__
    ]
    assert documented
    lacking = [_name(each) for each in documented if not _name(each).startswith("_") and not each.__doc__]
    assert lacking == []


@pytest.mark.parametrize("name", MODULES)
def test_what_holds_arrays_is_printed_by_their_shapes(name: str) -> None:
    module = importlib.import_module(f"pflrepro.metrics.{name}")
    own = [each for each in vars(module).values() if getattr(each, "__module__", None) == module.__name__]
    records = [each for each in own if dataclasses.is_dataclass(each) and not each.__name__.startswith("_")]
    holding = [
        each for each in records if re.search(r"Tensor|ndarray", str([f.type for f in dataclasses.fields(each)]))
    ]
    assert [each.__name__ for each in holding if not issubclass(each, BriefArrays)] == []


def _name(thing: object) -> str:
    function = getattr(thing, "fget", None) or getattr(thing, "func", None) or thing
    return function.__name__


def test_importing_the_measures_of_arrays_loads_no_framework() -> None:
    modules = ", ".join(f"pflrepro.metrics.{name}" for name in LIGHT)
    code = f"import sys, {modules}; print(sorted({{'torch', 'pandas', 'scipy', 'sklearn', 'matplotlib'}} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
