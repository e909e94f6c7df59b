"""What the digest of a user's code says of the values that the code reaches."""

from __future__ import annotations

import logging

import pytest

from pflrepro.experiments.source import code_of

USED = "class Mine:\n    def step(self, x):\n        return VALUE\n"


def digest(text: str) -> str:
    space = {"__name__": "made_by_hand"}
    exec(text, space)
    return code_of(space["Mine"])


# fmt: off
PAIRS = [
    ("torch.ones(2)", "torch.ones(3)"),
    ("torch.ones(2)", "torch.ones(2).double()"),
    ("torch.tensor(1.0)", "torch.tensor(2.0)"),
    ("torch.ones(2, dtype=torch.bfloat16, requires_grad=True)", "torch.zeros(2, dtype=torch.bfloat16)"),
    ("torch.zeros(0, 2)", "torch.zeros(0, 3)"),
    ("torch.tensor([1j]).conj()", "torch.tensor([1j])"),
    ("np.float32(1)", "np.float64(1)"),
    ("np.ones((2, 2))[:, 0]", "np.ones((2, 2))[0] * 2"),
    ("torch.float16", "torch.bfloat16"),
    ("torch.device('cpu')", "torch.device('meta')"),
    ("np.dtype('i4')", "np.dtype('i8')"),
    ("np.add", "np.multiply"),
    ("torch.add", "torch.mul"),
    ("torch.nn.functional.relu", "torch.nn.functional.gelu"),
    ("torch.nn.CrossEntropyLoss(label_smoothing=0.1)", "torch.nn.CrossEntropyLoss(label_smoothing=0.2)"),
    ("0.0", "-0.0"),
    ("1", "True"),
    ("{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}"),
    ("re.compile('a' * 300 + 'b')", "re.compile('a' * 300 + 'c')"),
    ("slice(1, 2)", "slice(1, 3)"),
    ("SimpleNamespace(a={'b': 1})", "SimpleNamespace(a={'b': 2})"),
    ("MappingProxyType({'a': 1})", "MappingProxyType({'a': 2})"),
    ("IntEnum('E', 'a b').a", "IntEnum('E', 'a b').b"),
    ("type('S', (str,), {})('a')", "type('S', (str,), {})('b')"),
    ("type('S', (), {'__slots__': 'a', '__init__': lambda s: setattr(s, 'a', 1)})()",
     "type('S', (), {'__slots__': 'a', '__init__': lambda s: setattr(s, 'a', 2)})()"),
    ("namedtuple('P', 'x y')(1, 2)", "namedtuple('P', 'x y')(1, 3)"),
    ("Tree(w=torch.ones(2))", "Tree(w=torch.zeros(2))"),
    ("Phase('a', passes=1)", "Phase('a', passes=2)"),
    ("torch.func.grad(lambda x: x)", "torch.func.grad(lambda x: 2 * x)"),
]
# fmt: on


@pytest.mark.parametrize("one, two", PAIRS)
def test_values_of_many_kinds(one, two):
    head = "import re, torch, numpy as np\nfrom types import *\nfrom enum import IntEnum\nfrom collections import namedtuple\n"
    head += "from pflrepro.trees import Tree\nfrom pflrepro.algorithms.phases import Phase\n"

    def of(value: str) -> str:
        return digest(f"{head}VALUE = {value}\n{USED}")

    assert of(one) == of(one)
    assert of(one) != of(two)


@pytest.mark.parametrize("value", ["threading.Lock()", "torch.Generator()", "torch.eye(2).to_sparse()"])
def test_what_has_no_plain_values_is_its_type(value):
    text = f"import threading, torch\nVALUE = {value}\n{USED}"
    assert digest(text) == digest(text)
    assert digest(text) != digest(f"VALUE = object()\n{USED}")


def test_the_level_of_a_logger_is_not_the_methods():
    logger = logging.getLogger("a user's")
    text = f'import logging\nVALUE = logging.getLogger("a user\'s")\n{USED}'
    one = digest(text)
    logger.setLevel(logging.DEBUG)
    assert digest(text) == one


@pytest.mark.parametrize("old, new", [("no_grad", "enable_grad"), ("return x", "return 2 * x")])
def test_a_library_s_decorator_is_looked_through(old, new):
    text = "import torch\nclass Mine:\n    @torch.no_grad()\n    def step(self, x):\n        return x\n"
    assert digest(text) == digest(text)
    assert digest(text.replace(old, new)) != digest(text)
