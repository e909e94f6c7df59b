"""The digest of a user's code follows what the code does, and nothing else."""

from __future__ import annotations

import copyreg
import sys
import typing
from pathlib import Path
from types import ModuleType

import pytest

from pflrepro.algorithms.registry import build_method
from pflrepro.experiments.source import code_of

HELPERS = '''"""Helpers."""
import enum
import helpers_more

RATE = 0.5
UNUSED = 1


class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"


def half(x):
    """Halves."""
    return x * RATE


def late(x):
    return x - 3


def by_name(x):
    return x + 8


def unused(x):
    return x
'''
MORE = """def deep(x):
    return x ** 2


def made_one():
    return 1
"""
MINE = '''"""A method."""
from __future__ import annotations

import functools
import logging
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

import helpers
from helpers import half as renamed

log = logging.getLogger(__name__)
SCALE = 3.0
TABLE = {"a": 1, "b": [2, 3]}
WORDS = frozenset({"alpha", "beta", "gamma"})
PAIRS = {(1, 2), (3, 4)}
ARRAY = np.arange(3)
power = functools.partial(pow, exp=2)
TABLE["self"] = TABLE


class Config:
    def __init__(self):
        self.depth = 4
        self.inner = [self, {"width": 7}]


CONFIG = Config()


def scaled(by):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return by * function(*args, **kwargs)

        return wrapper

    return decorate


class Base:
    shift = 1.5

    def based(self, x):
        return x + self.shift

    def plain(self, x):
        return x


def even(n):
    return True if n == 0 else odd(n - 1)


def odd(n):
    return False if n == 0 else even(n - 1)


@dataclass(frozen=True)
class Mine(Base):
    """Mine."""

    trees: ClassVar[tuple[str, ...]] = ("params",)
    mu: float = 0.01
    names: list[str] = field(default_factory=lambda: ["one"])

    def step(self, x, k=2, *, z=5):
        """A step."""
        # a comment
        log.info("step")
        y = renamed(x) * SCALE
        if y in {"p", "q", "r"}:
            return None
        try:
            y = helpers.helpers_more.deep(y)
        except ValueError:
            y = 0
        else:
            y = even(y)
        return [v * k for v in (y, TABLE, WORDS, PAIRS, ARRAY, power, CONFIG.depth, z)]

    def local(self, x):
        class Inner:
            """Inner."""

            value = 9

            def get(self):
                self.got = x
                return x

        return Inner

    def lately(self, x):
        from helpers import late

        return late(x)

    def dynamic(self, x):
        return getattr(helpers, "by_name")(x)

    @scaled(by=2)
    def decorated(self, x):
        return x

    @property
    def size(self):
        return 11

    @staticmethod
    def fixed(x):
        return x + 12

    @classmethod
    def made(cls, mode=helpers.Mode.FAST):
        return cls()

    @functools.lru_cache
    def remembered(self):
        return 13

    def plain(self, x):
        return super().plain(x)
'''


@pytest.fixture
def digest(tmp_path, monkeypatch):
    """`digest(mine, helpers, more)`: of `Mine` in modules of these texts, which are loaded anew; they stay until the test ends."""

    def load(mine: str = MINE, helpers: str = HELPERS, more: str = MORE, folder: Path = tmp_path) -> str:
        for name, text in (("helpers_more", more), ("helpers", helpers), ("mine", mine)):
            module = ModuleType(name)
            module.__file__ = str(folder / f"{name}.py")
            monkeypatch.setitem(sys.modules, name, module)
            exec(compile(text, module.__file__, "exec"), vars(module))
        return code_of(sys.modules["mine"].Mine)

    return load


def changed(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in the text"
    return text.replace(old, new)


def method(body: str, before: str = "") -> str:
    """A module with a class `Mine` that has one function."""
    return f"{before}\n\nclass Mine:\n    def step(self, x):\n        {body}\n"


LAYOUT = [
    ('"""A method."""', "# nothing\n\n\n"),
    ('    """Mine."""\n', ""),
    ('        """A step."""\n', ""),
    ('            """Inner."""\n', ""),
    ('"""A step."""', '"""Another text,\n\n        longer."""'),
    ("        # a comment\n", "\n\n        # two\n        # comments\n\n"),
    ("        # a comment\n", "        pass\n"),
    ("mu: float = 0.01", "mu: int = 0.01"),
    ("y = renamed(x) * SCALE", "y = (\n            renamed(x)\n            * SCALE\n        )"),
    ("return True if n == 0", "'text'\n    return True if n == 0"),
    ("    def step(self, x, k=2, *, z=5):", "    def step(self, x: int, k: float = 2, *, z: str = 5) -> None:"),
    ('"alpha", "beta", "gamma"', '"gamma", "beta", "alpha"'),
    ("{(1, 2), (3, 4)}", "{(3, 4), (1, 2)}"),
    ('{"p", "q", "r"}', '{"r", "p", "q"}'),
    ("SCALE = 3.0\n", "UNSEEN = 0\nSCALE = 1.5 + 1.5\n"),
    ("    shift = 1.5\n\n    def based(self, x):\n        return x + self.shift\n", "{moved}    shift = 1.5\n"),
]


@pytest.mark.parametrize("old, new", LAYOUT)
def test_layout_and_comments_do_not_count(digest, old, new):
    moved = "    def based(self, x):\n        return x + self.shift\n\n"
    assert digest(changed(MINE, old, new.replace("{moved}", moved))) == digest()


EDITS = [
    ("SCALE = 3.0", "SCALE = 3"),
    ('"b": [2, 3]', '"b": [2, 4]'),
    ('"b": [2, 3]', '"b": (2, 3)'),
    ('"alpha"', '"delta"'),
    ("(1, 2), (3, 4)", "(1, 4), (3, 2)"),
    ("np.arange(3)", "np.array([0, 1, 3])"),
    ("exp=2", "exp=3"),
    ("self.depth = 4", "self.depth = 5"),
    ('{"width": 7}', '{"width": 8}'),
    ("return by * function", "return by + function"),
    ("@scaled(by=2)", "@scaled(by=4)"),
    ("    @scaled(by=2)\n", ""),
    ("return x + self.shift", "return x - self.shift"),
    ("even(n - 1)", "even(n - 2)"),
    ("class Mine(Base)", "class Mine"),
    ("@dataclass(frozen=True)", "@dataclass"),
    ('("params",)', '("params", "personal")'),
    ("mu: float = 0.01", "mu: float = 0.02"),
    ("mu: float = 0.01", "mu: ClassVar[float] = 0.01"),
    ('lambda: ["one"]', 'lambda: ["two"]'),
    ("k=2", "k=3"),
    ("z=5", "z=6"),
    ("k=2, *, z=5", "*, k=2, z=5"),
    ("k=2, *, z=5", "k=2, /, *, z=5"),
    ("class Base:", "class Base(metaclass=type('Meta', (type,), {})):"),
    ("renamed(x) * SCALE", "SCALE * renamed(x)"),
    ("y in {", "y not in {"),
    ("            return None\n", "            return\n        y = 1\n"),
    ("            y = even(y)\n", "            y = odd(y)\n"),
    ("value = 9", "value = 10"),
    ("return late(x)", "return late(-x)"),
    ('getattr(helpers, "by_name")', 'getattr(helpers, "unused")'),
    ("return 11", "return 10"),
    ("return x + 12", "return x + 10"),
    ("    @staticmethod\n    def fixed(x)", "    def fixed(x)"),
    ("helpers.Mode.FAST", "helpers.Mode.SLOW"),
    ("return 13", "return 14"),
    ("return super().plain(x)", "return x"),
]


@pytest.mark.parametrize("old, new", EDITS)
def test_an_edit_of_the_module_counts(digest, old, new):
    assert digest(changed(MINE, old, new)) != digest()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Fraction(1, 2)", "Fraction(1, 3)"),
        ("timedelta(1)", "timedelta(2)"),
        ("deque([1.0])", "deque([2.0])"),
        ("bytearray(b'a')", "bytearray(b'b')"),
        ("torch.nn.Linear(1, 1).requires_grad_(False).half()", "torch.nn.Linear(1, 1).requires_grad_(False)"),
    ],
)
def test_another_value_of_a_librarys_type_counts(digest, old, new):
    heads = (
        "import torch\nfrom collections import deque\nfrom datetime import timedelta\nfrom fractions import Fraction\n"
    )
    found = [digest(f"{MINE.replace('SCALE = 3.0', f'{heads}SCALE = {value}')}") for value in (old, new)]
    assert found[0] != found[1]


@pytest.mark.parametrize(
    "old, new, counts",
    [
        ("RATE = 0.5", "RATE = 0.6", True),
        ("return x * RATE", "return x / RATE", True),
        ("return x - 3", "return x - 4", True),
        ("return x + 8", "return x + 9", True),
        ('FAST = "fast"', 'FAST = "slower"', True),
        ('"""Halves."""', '"""Half of it."""', False),
        ("UNUSED = 1", "UNUSED = 2", False),
        ("def unused(x):\n    return x", "def unused(x):\n    return 2 * x", False),
    ],
)
def test_a_helper_module_counts_by_what_is_used_of_it(digest, old, new, counts):
    assert (digest(helpers=changed(HELPERS, old, new)) != digest()) == counts


def test_a_module_within_a_module_counts(digest):
    assert digest(more=changed(MORE, "x ** 2", "x ** 3")) != digest()
    assert digest(more=changed(MORE, "return 1", "return 2")) == digest()


def test_a_module_that_is_used_without_naming_what_of_it_counts_whole(digest):
    mine = method("return getattr(helpers_more, 'made_' + x)", "import helpers_more")
    one = digest(mine)
    assert digest(mine, more=changed(MORE, "return 1", "return 2")) != one
    assert digest(mine, more=changed(MORE, "x ** 2", "x ** 3")) != one


def test_the_end_of_a_try_counts(digest):
    """The instructions are the same; the table of handlers is not."""
    inside = "try:\n            y = x.a()\n            x.b(y)\n        except ValueError:\n            pass"
    behind = (
        "try:\n            y = x.a()\n        except ValueError:\n            pass\n        else:\n            x.b(y)"
    )
    assert digest(method(inside)) != digest(method(behind))


def test_two_decorated_functions_are_not_confused(digest):
    text = "def times(n):\n    def f(x):\n        return n * x\n    return f\na, b = times(1), times(2)\n"
    one = digest(method("return a(x) - b(x)", text))
    assert digest(method("return a(x) - b(x)", text.replace("times(1), times(2)", "times(2), times(1)"))) != one
    assert digest(method("return a(x) - b(x)", text.replace("times(2)", "times(1)"))) != one


def test_an_equal_copy_of_a_helper_is_the_helper(digest):
    """As after an edit in a notebook, where old and new objects of one function live side by side."""
    used = method("return f(x) + g(x)", "def f(x):\n    return x + h\nh = 2\ng = f")
    copied = method("return f(x) + g(x)", "def f(x):\n    return x + h\nh = 2\ndef g(x):\n    return x + h")
    assert digest(used) == digest(copied)
    assert digest(used) != digest(copied.replace("def g(x):\n    return x + h", "def g(x):\n    return x - h"))


def test_a_long_function_with_a_docstring(digest):
    """Beyond 256 constants or names an instruction has a prefix, and jumps go further."""
    lines = "".join(f"\n            x = x + {n}.5" for n in range(300))
    body = "while x:" + lines + "\n            if x > 1:\n                return None\n        return x"
    assert digest(method('"""Text."""\n        ' + body)) == digest(method(body))
    assert digest(method(body.replace("299.5", "299.75"))) != digest(method(body))


def test_order_of_definition_does_not_count(digest):
    one = "def f(x):\n    return g(x)\n"
    two = "def g(x):\n    return x\n"
    three = "class Mine:\n    a = 1\n    def s(self):\n        return f(1)\n    def t(self):\n        return g(1)\n"
    four = "class Mine:\n    def t(self):\n        return g(1)\n    def s(self):\n        return f(1)\n    a = 1\n"
    assert digest(one + two + three) == digest(two + one + four)


def test_the_place_of_the_files_does_not_count(digest):
    located = method("return x + len(__file__)")
    assert digest(located, folder=Path("elsewhere")) == digest(located)


def test_use_does_not_count(digest):
    """Code that ran is specialised, classes that were copied or looked at carry marks."""
    first, cls = digest(), sys.modules["mine"].Mine
    for _ in range(1000):
        cls().based(1.0)
        cls.fixed(2)
    copyreg._slotnames(cls)
    cls._torchdynamo_noted = cls.step._torchscript_noted = True
    typing.get_type_hints(cls)
    cls.remembered(cls.fixed)
    assert code_of(cls) == first


def test_code_that_is_exchanged_under_its_class_counts(digest):
    first = digest()
    module = sys.modules["mine"]
    module.Mine.step.__code__ = module.Mine.lately.__code__.replace(co_freevars=())
    second = code_of(module.Mine)
    module.SCALE = 4.0
    assert len({first, second}) == 2
    assert code_of(module.Mine) == second  # nothing reads it any more


METHOD = """from dataclasses import dataclass
from pflrepro.algorithms import Method

RATE = 0.5


@dataclass(frozen=True)
class Mine(Method):
    mu: float = 0.01

    def correct(self, grads, local, ctx):
        return super().correct(grads, local, ctx) * (RATE * self.mu)
"""


def test_a_method_with_a_plug_in_is_the_users_in_its_part(digest):
    def composed() -> str:
        return code_of(type(build_method("mine:Mine+dbe")))

    alone, together = digest(METHOD), composed()
    assert digest(METHOD) == alone and composed() == together and alone != together
    digest(changed(METHOD, "RATE = 0.5", "RATE = 0.6"))
    assert composed() != together
    assert code_of(type(build_method("mine:Mine+mixup"))) not in (alone, together)
