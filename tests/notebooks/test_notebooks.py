"""Every notebook as a file: schema, one parameters cell, stripped, short, no paths, no installation commands."""

import re
from pathlib import Path

import nbformat
import pytest

from pflrepro import papers
from pflrepro.papers import notebooks

ROOT = Path(__file__).parents[2] / "notebooks"
FILES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in ROOT.rglob("*.ipynb")
    if not {".ipynb_checkpoints", "tutorials"} & set(path.parts)  # tutorials show no artefact, see test_tutorials.py
)


def read(name):
    return nbformat.read(ROOT / name, as_version=4)


def test_every_artefact_has_its_notebook_and_every_notebook_its_artefact():
    assert sorted(artefact.notebook for artefact in papers.ARTEFACTS.values()) == FILES
    for name in FILES:
        assert notebooks.notebook_path(name) == ROOT / name


@pytest.mark.parametrize("name", FILES)
def test_schema_and_cells(name):
    book = read(name)
    nbformat.validate(book)
    assert (book.nbformat, book.nbformat_minor) == (4, 5)
    assert len(book.cells) <= 12
    assert len({cell.id for cell in book.cells}) == len(book.cells)
    assert book.cells[0].cell_type == "markdown"
    assert book.cells[0].source.startswith("# ")
    assert all(f"* `{scale}`: " in book.cells[0].source for scale in ("smoke", "fast"))
    assert any("What to try next" in cell.source for cell in book.cells)


@pytest.mark.parametrize("name", FILES)
def test_stripped(name):
    for cell in read(name).cells:
        assert set(cell.metadata) <= {"tags"}
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None
            assert len(cell.source.splitlines()) <= 15
            assert "def " not in cell.source


@pytest.mark.parametrize("name", FILES)
def test_no_paths_of_a_machine_and_no_installation(name):
    for cell in read(name).cells:
        assert not re.search(r"(^|[\s\"'`(])(/(home|tmp|root|Users|work|mnt|usr)/|[A-Z]:\\)", cell.source)
        assert not re.search(r"pip install|conda install|^!", cell.source, re.MULTILINE)


@pytest.mark.parametrize("name", FILES)
def test_parameters_are_typed_commented_and_of_their_type(name):
    found = notebooks.parameters(name)
    assert {"scale", "out"} <= set(found)
    for parameter in found.values():
        assert parameter.comment, parameter.name
        assert notebooks.fits(parameter.default, parameter.type)
    artefact = next(artefact for artefact in papers.ARTEFACTS.values() if artefact.notebook == name)
    assert found["scale"].default in artefact.scale_names
    if artefact.rows:
        assert {"seeds", "methods", "backend", "device", "data_root", "store"} <= set(found)
