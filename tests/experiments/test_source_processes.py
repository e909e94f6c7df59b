"""The digest of a user's code is the same in every process; in a notebook it follows the code that is in use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

HELPERS = """import enum

RATE = 0.5


class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"


def half(x):
    return x * RATE
"""
MINE = """import functools
from dataclasses import dataclass, field

import numpy as np

import helpers
from helpers import half as renamed

WORDS = frozenset({"alpha", "beta", "gamma", helpers.Mode.FAST})
ARRAY = np.arange(3)


def scaled(by):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args):
            return by * function(*args)

        return wrapper

    return decorate


class Base:
    def step(self, x):
        return x


@dataclass(frozen=True)
class Mine(Base):
    mu: float = 0.01
    names: list[str] = field(default_factory=lambda: ["one"])

    @scaled(by=2)
    def step(self, x, mode=helpers.Mode.FAST):
        if x in {"p", "q", "r"}:
            return WORDS
        return helpers.half(super().step(x)) + renamed(self.mu) * ARRAY

    def local(self, x):
        class Inner:
            def get(self):
                self.got, self.gone = x, x
                return x

        return Inner
"""
PRINT = "from pflrepro.experiments.source import code_of; from mine import Mine; print(code_of(Mine))"
NOTEBOOK = """
import os
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
def cell(text):
    shell.run_cell(text).raise_error()
"""
CELL = """import helpers
SCALE = 2


class Mine:
    def step(self, x):
        return SCALE * helpers.half(x)
"""


def write(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "mine.py").write_text(MINE)
    (folder / "helpers.py").write_text(HELPERS)
    return folder


def run(command: str, folder: Path, **environment: str) -> list[str]:
    """The words that a new Python process in `folder` prints last."""
    places = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)]), "IPYTHONDIR": str(folder / "ipython")}
    done = subprocess.run(
        [sys.executable, "-c", command],
        env=os.environ | places | environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout.splitlines()[-1].split()


def test_the_same_in_every_process(tmp_path):
    """Whatever the hash seed and the folder, read from a text or compiled before, beside a torch that marks what it sees."""
    first, second = write(tmp_path / "first"), write(tmp_path / "second")
    digests = {digest for seed in "123" for digest in run(PRINT, first, PYTHONHASHSEED=seed)}
    assert list(first.glob("__pycache__/mine.*.pyc")) or sys.dont_write_bytecode
    digests.update(run(f"import torch; {PRINT}", second, PYTHONHASHSEED="4"))
    assert len(digests) == 1
    (second / "helpers.py").write_text(HELPERS.replace("RATE = 0.5", "RATE = 0.25"))
    assert not digests & set(run(PRINT, second))


def test_a_class_of_a_notebook_cell(tmp_path):
    write(tmp_path)

    def after(*cells: str) -> list[str]:
        cells = (*cells, "from pflrepro.experiments.source import code_of", "print(code_of(Mine))")
        return run(NOTEBOOK + "".join(f"cell({text!r})\n" for text in cells), tmp_path)

    one = after(CELL)
    assert after("1 + 1", f"# more\n\n{CELL}") == one
    assert after(CELL, "SCALE = 3") != one
    assert after(CELL, CELL.replace("SCALE *", "SCALE +")) != one
    assert after(CELL, "helpers.RATE = 0.25") != one


@pytest.mark.parametrize(
    "name, old, new",
    [
        ("mine", "by * function", "by + function"),
        ("mine", "super().step(x)", "super().step(-x)"),
        ("mine", "mu: float = 0.01", "mu: float = 0.02"),
        ("helpers", "return x * RATE", "return x / RATE"),
    ],
)
def test_an_edit_under_autoreload(tmp_path, name, old, new):
    """The digest of the module's class, which is what a run looks up, is the one that a new process gives the edited text."""
    path = write(tmp_path) / f"{name}.py"
    assert path.read_text().count(old) == 1
    edited = path.read_text().replace(old, new)
    lived = f"""{NOTEBOOK}
cell('%load_ext autoreload')
cell('%autoreload 2')
cell('from pflrepro.experiments.source import code_of; import mine, helpers; from mine import Mine; before = code_of(Mine)')
open({str(path)!r}, 'w').write({edited!r})
os.utime({str(path)!r}, (4e9, 4e9))
cell('print(before, code_of(Mine), code_of(mine.Mine))')
"""
    before, held, of_the_module = run(lived, tmp_path)
    [new] = run(PRINT, tmp_path)
    assert of_the_module == new != before
    # An exchanged class still calls the function inside its old decorator: it is neither the old text's nor the new one's.
    assert (held == new) != (old == "super().step(x)")
    assert held != before
