"""The parameters cell: parsed, and values checked before anything starts."""

import subprocess
import sys
import tomllib
from pathlib import Path

import click
import papermill
import pytest
from papermill.engines import papermill_engines

from pflrepro import papers
from pflrepro.algorithms.fedprox import FedProx
from pflrepro.errors import CorruptFile, UserError
from pflrepro.papers import notebooks
from pflrepro.papers.engine import CheckedEngine

CELL = """scale: str = "fast"  # how much
seeds: int = 0  # number of seeds
rate: float = 0.5
methods: list[str] = []  # names # with a hash
quiet: bool = False
"""


def test_a_cell_is_read_with_types_defaults_and_comments():
    found = notebooks.parse_parameters_cell(CELL)
    assert list(found) == ["scale", "seeds", "rate", "methods", "quiet"]
    assert found["seeds"] == notebooks.Parameter("seeds", "int", 0, "number of seeds")
    assert found["methods"].comment == "names # with a hash"
    assert found["rate"].comment == ""


@pytest.mark.parametrize("source", ["scale = 'fast'", "import os", "x: dict = {}", "x: int | None = None"])
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
        (None, "int", False),
        ("1", "int", False),
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
    with pytest.raises(UserError, match=r"parameter seeds of dbe/table5.ipynb must be int, not '3'"):
        notebooks.check_parameters("dbe/table5.ipynb", {"seeds": "3"})
    assert notebooks.check_parameters("dbe/table5.ipynb", {"seeds": 3}) == {"seeds": 3}


def test_text_is_read_by_the_declared_type():
    text = {"seeds": "2", "methods": "fedavg, fedavg+dbe", "store": "", "scale": "smoke"}
    expected = {"seeds": 2, "methods": ["fedavg", "fedavg+dbe"], "scale": "smoke"}
    found = notebooks.read_values("dbe/table5.ipynb", text)
    assert {name: found[name] for name in expected} == expected
    with pytest.raises(UserError, match=r"must be int, not 'two'"):
        notebooks.read_values("dbe/table5.ipynb", {"seeds": "two"})


def test_a_list_may_be_a_text_with_commas_as_papermill_gives_it():
    assert notebooks.check_parameters("dbe/table5.ipynb", {"methods": "fedavg, ditto"}) == {
        "methods": ["fedavg", "ditto"]
    }
    for text in ('["fedavg", "a, b"]', "['fedavg', 'a, b']"):  # as a parameters cell and its help have it
        found = notebooks.check_parameters("dbe/table5.ipynb", {"methods": text})
        assert found == notebooks.read_values("dbe/table5.ipynb", {"methods": text}) == {"methods": ["fedavg", "a, b"]}
    for wrong in ('["fedavg"', "[fedavg]", '["fedavg", 3]'):
        for read in (notebooks.check_parameters, notebooks.read_values):
            with pytest.raises(
                UserError, match=r"methods of dbe/table5.ipynb must be a list of words, fedavg,ditto or \["
            ):
                read("dbe/table5.ipynb", {"methods": wrong})
    with pytest.raises(UserError, match=r"methods of dbe/table5.ipynb must be list\[str\], not 3"):
        notebooks.check_parameters("dbe/table5.ipynb", {"methods": 3})


@pytest.mark.parametrize("artefact", papers.ARTEFACTS.values(), ids=lambda artefact: artefact.id)
def test_papermill_reads_every_parameter_as_we_do(artefact):
    """What `papermill --help-notebook` prints."""
    declared = notebooks.parameters(artefact.notebook)
    read = papermill.inspect_notebook(notebooks.notebook_path(artefact.notebook))
    assert {name: each["inferred_type_name"] for name, each in read.items()} == {n: p.type for n, p in declared.items()}
    assert {name: each["help"] for name, each in read.items()} == {n: p.comment for n, p in declared.items()}


# ---- papermill's own command -------------------------------------------------------------------------------------------------------
@pytest.fixture
def asked(tmp_path, monkeypatch):
    """`papermill.execute_notebook` of the demo by our engine; a kernel that would start ends it."""
    papermill_engines.register("pflrepro", CheckedEngine)

    def start(cls, nb_man, *_, **__):
        ask.cells = [cell.source for cell in nb_man.nb.cells if "injected-parameters" in cell.metadata.get("tags", [])]
        raise InterruptedError("a kernel starts")

    monkeypatch.setattr(papermill.engines.NBClientEngine, "execute_managed_notebook", classmethod(start))

    def ask(**given):
        source = notebooks.notebook_path("demo/digits.ipynb")
        papermill.execute_notebook(source, tmp_path / "o.ipynb", given, engine_name="pflrepro", progress_bar=False)

    return ask


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"seed": 3}, "unknown parameter of the notebook 'seed'; valid: seeds"),
        ({"seeds": "two"}, "parameter seeds of the notebook must be int, not 'two'"),
        ({"methods": 3}, "parameter methods of the notebook must be list[str], not 3"),
        ({"scale": True}, "parameter scale of the notebook must be str, not True"),
        ({"scale": "tiny"}, "unknown scale of demo/digits 'tiny'; valid: "),
        ({"seeds": -1}, "seeds must be a whole number >= 1, not -1"),
        ({"methods": "nope"}, "unknown row of demo/digits 'nope'; valid: "),
        ({"columns": ["nope"]}, "unknown column of demo/digits 'nope'; valid: "),
        ({"also": ["fedpro"]}, "unknown algorithm 'fedpro' (a method of your own: module:Class); valid: fedprox"),
        ({"backend": "fast"}, "unknown backend 'fast'; valid: "),
        ({"device": "tpu"}, "no device 'tpu' on this machine; valid: "),
    ],
)
def test_papermill_with_our_engine_refuses_before_a_kernel_starts(asked, given, said):
    with pytest.raises(UserError) as refused:
        asked(**given)
    assert str(refused.value).startswith(said)
    assert isinstance(refused.value, click.ClickException) and refused.value.exit_code == 2


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"seeds": 2},
        {"methods": "fedavg"},
        {"methods": ["fedavg", "ditto"]},
        {"seeds": 0, "methods": [], "scale": "smoke", "also": "module_of_the_kernel:Mine", "store": "/dev/null/x"},
    ],
)
def test_papermill_with_our_engine_runs_what_fits(asked, given):
    with pytest.raises(InterruptedError, match="a kernel starts"):
        asked(**given)


@pytest.mark.parametrize("text", ["fedavg, ditto", '["fedavg", "ditto"]'])
def test_a_list_that_is_given_as_a_text_is_one_in_the_notebook(asked, text):
    with pytest.raises(InterruptedError):
        asked(methods=text, seeds=2)
    (cell,) = asked.cells
    assert 'methods = ["fedavg", "ditto"]' in cell and "seeds = 2" in cell


@pytest.mark.parametrize("artefact", papers.ARTEFACTS.values(), ids=lambda artefact: artefact.id)
def test_a_notebook_tells_which_artefact_it_shows(artefact):
    content = notebooks.read_notebook(notebooks.notebook_path(artefact.notebook))
    assert notebooks.artefact_shown(content) == artefact.id


def test_a_notebook_of_one_s_own_shows_no_artefact():
    content = notebooks.read_notebook(notebooks.notebook_path("tutorials/10_behind_a_number.ipynb"))
    assert notebooks.artefact_shown(content) == ""


def test_the_engine_is_named_for_papermill_and_importing_it_loads_nothing():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["papermill.engine"] == {"pflrepro": "pflrepro.papers.engine:CheckedEngine"}
    code = "import sys, pflrepro.papers.engine; print('papermill' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_study_takes_methods_as_the_command_does_and_refuses_what_is_no_list(tmp_path):
    study = papers.study("demo/digits", "smoke", methods="fedavg, ditto", also="fedper", store=tmp_path)
    assert study.methods == ("fedavg", "ditto") and study.also == ("fedper",)
    assert [row.key for row in study.trained] == ["fedavg", "ditto", "fedper"]
    assert papers.study("demo/digits", "smoke", also=[FedProx, "fedper"]).also == (
        f"{FedProx.__module__}:FedProx",
        "fedper",
    )
    with pytest.raises(UserError, match="unknown method in builtins 'int'"):
        papers.study("demo/digits", "smoke", also=["fedprox", int])
    with pytest.raises(UserError, match=r"methods must be a list of words.*, not 3"):
        papers.study("demo/digits", "smoke", methods=3)


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
