"""Every notebook as a file: schema, one parameters cell, stripped, short, no paths, no installation commands."""

import re
import shlex
import subprocess
import sys
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


EVERY = sorted(
    path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts
)


def as_saved(book):
    """A notebook that was run in JupyterLab and saved."""
    said = {"codemirror_mode": {"name": "ipython", "version": 3}, "file_extension": ".py", "mimetype": "text/x-python"}
    said |= {"name": "python", "nbconvert_exporter": "python", "pygments_lexer": "ipython3", "version": "3.12.1"}
    book.metadata.kernelspec["display_name"], book.metadata["language_info"] = "Python 3 (ipykernel)", said
    book.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {}}}
    for count, cell in enumerate(cell for cell in book.cells if cell.cell_type == "code"):
        cell.execution_count, cell.outputs = count + 1, [nbformat.v4.new_output("stream", text="x\n")]
        cell.metadata["execution"] = {"iopub.status.idle": "2030-01-01T00:00:00Z"}
    return book


def test_running_a_notebook_is_no_change_behind_the_filter(tmp_path):
    """What `make strip` sets, over notebooks that were run: their committed bytes come out."""
    pytest.importorskip("nbstripout")
    makefile = (ROOT.parent / "Makefile").read_text("utf-8")
    prefix, names = re.search(r"^ADDED := \$\(addprefix (\S+),(.*)\)$", makefile, re.MULTILINE).groups()
    options = re.search(r"-m nbstripout (.*)\"$", makefile, re.MULTILINE)[1]
    options = options.replace("$(ADDED)", " ".join(prefix + name for name in names.split()))
    for place, name in enumerate(EVERY):
        nbformat.write(as_saved(read(name)), tmp_path / f"{place}.ipynb")
    saved = [tmp_path / f"{place}.ipynb" for place in range(len(EVERY))]
    subprocess.run(
        [sys.executable, "-m", "nbstripout", *shlex.split(options), *map(str, saved)], check=True, timeout=60
    )
    assert [
        name for name, path in zip(EVERY, saved, strict=True) if path.read_bytes() != (ROOT / name).read_bytes()
    ] == []
