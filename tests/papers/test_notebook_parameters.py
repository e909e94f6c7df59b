"""The parameters cell: parsed, and values checked before anything starts."""

import pytest

from pflrepro.errors import CorruptFile, UserError
from pflrepro.papers import notebooks

CELL = """scale: str = "fast"  # how much
seeds: int | None = None  # number of seeds
rate: float = 0.5
methods: list[str] = []  # names # with a hash
quiet: bool = False
"""


def test_a_cell_is_read_with_types_defaults_and_comments():
    found = notebooks.parse_parameters_cell(CELL)
    assert list(found) == ["scale", "seeds", "rate", "methods", "quiet"]
    assert found["seeds"] == notebooks.Parameter("seeds", "int | None", None, "number of seeds")
    assert found["methods"].comment == "names # with a hash"
    assert found["rate"].comment == ""


@pytest.mark.parametrize("source", ["scale = 'fast'", "import os", "x: dict = {}"])
def test_a_cell_of_another_shape_is_refused(source):
    with pytest.raises(CorruptFile):
        notebooks.parse_parameters_cell(source)


@pytest.mark.parametrize(
    ("value", "declared", "expected"),
    [
        (1, "int", True),
        (True, "int", False),
        (True, "bool", True),
        (1, "bool", False),
        (1.5, "int", False),
        (1, "float", True),
        (False, "float", False),
        (None, "int | None", True),
        (None, "int", False),
        ("1", "int | None", False),
        ([], "list[str]", True),
        (["a", 1], "list[str]", False),
        (("a",), "list[str]", False),
    ],
)
def test_whether_a_value_fits(value, declared, expected):
    assert notebooks.fits(value, declared) is expected


def test_unknown_and_ill_typed_parameters_are_refused_in_one_line():
    with pytest.raises(UserError, match=r"unknown parameter of dbe/table5.ipynb 'seed'; valid: seeds"):
        notebooks.check_parameters("dbe/table5.ipynb", {"seed": 3})
    with pytest.raises(UserError, match=r"parameter seeds of dbe/table5.ipynb must be int \| None, not '3'"):
        notebooks.check_parameters("dbe/table5.ipynb", {"seeds": "3"})
    assert notebooks.check_parameters("dbe/table5.ipynb", {"seeds": 3}) == {"seeds": 3}


def test_text_is_read_by_the_declared_type():
    text = {"seeds": "2", "methods": "fedavg, fedavg+dbe", "store": "none", "scale": "smoke"}
    expected = {"seeds": 2, "methods": ["fedavg", "fedavg+dbe"], "scale": "smoke"}
    found = notebooks.read_values("dbe/table5.ipynb", text)
    assert {name: found[name] for name in expected} == expected
    assert notebooks.read_values("dbe/table5.ipynb", {"seeds": "none"}) == {"seeds": None}
    with pytest.raises(UserError, match=r"must be int \| None, not 'two'"):
        notebooks.read_values("dbe/table5.ipynb", {"seeds": "two"})


def test_none_as_text_for_an_optional_string_means_nothing():
    assert notebooks.read_values("dbe/table5.ipynb", {"store": "None"}) == {"store": None}


def test_a_missing_notebook_and_a_broken_one_are_reported(tmp_path):
    with pytest.raises(CorruptFile, match="missing from the installation"):
        notebooks.notebook_path("dbe/table99.ipynb")
    broken = tmp_path / "broken.ipynb"
    broken.write_text("{")
    with pytest.raises(CorruptFile, match="cannot be read as a notebook"):
        notebooks.read_notebook(broken)
    broken.write_text("[]")
    with pytest.raises(CorruptFile, match="no list of cells"):
        notebooks.read_notebook(broken)
