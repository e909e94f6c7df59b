"""The tutorials: short, stripped, with a typed parameters cell, and executed headlessly."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import papermill
import pytest

from pflrepro.errors import UserError
from pflrepro.papers import notebooks
from pflrepro.papers.kernels import execute

ROOT = Path(__file__).parents[2] / "notebooks"
FILES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tutorials").glob("*.ipynb"))
# Executed as their readers run them, smaller where a notebook knows how: values for the parameters that it declares.
SMALL = {"scale": "smoke"}


def test_there_are_tutorials_in_an_order() -> None:
    assert {name[10:12] for name in FILES} == {f"{number:02}" for number in range(1, 12)}
    assert all(re.match(r"tutorials/\d\d_[a-z_]+\.ipynb", name) for name in FILES)


def test_the_readme_links_every_tutorial() -> None:
    readme = (ROOT.parent / "README.md").read_text("utf-8")
    assert [name for name in FILES if f"(notebooks/{name})" not in readme] == []


@pytest.mark.parametrize("name", FILES)
def test_short_stripped_and_in_the_house_form(name: str) -> None:
    book = nbformat.read(ROOT / name, as_version=4)
    nbformat.validate(book)
    assert (book.nbformat, book.nbformat_minor) == (4, 5)
    assert len(book.cells) <= 40 and len({cell.id for cell in book.cells}) == len(book.cells)
    assert book.cells[0].source.startswith(f"# {int(Path(name).name[:2])}. ")
    assert "What it costs" in book.cells[1].source
    last = book.cells[-1].source
    assert last.startswith("## Exercises") and 2 <= last.count("<details>") == last.count("</details>") <= 3
    for cell in book.cells:
        assert set(cell.metadata) <= {"tags"}
        assert not re.search(r"(^|[\s\"'`(])(/(home|tmp|root|Users|work|mnt|usr)/|[A-Z]:\\)", cell.source)
        assert not re.search(r"pip install|conda install|^!", cell.source, re.MULTILINE)
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None
            assert len(cell.source.splitlines()) <= 16 and not re.search(r"^def ", cell.source, re.MULTILINE)


@pytest.mark.parametrize("name", FILES)
def test_every_picture_answers_a_question_above_it(name: str) -> None:
    draws = r"\.plot|size_scatter\(|client_map\(|\.curves\(|bubbles\(|embedding\.planes|predictions\(|subplots\("
    draws += r"|share_figure\(|trade_off\(|best_betas\(|by_layer\(|learning_curves\(|psnr_bars\(|recovered\("
    above = ""
    for cell in nbformat.read(ROOT / name, as_version=4).cells:
        if cell.cell_type == "code" and re.search(draws, cell.source):
            assert "Question:" in above, cell.source
        above = cell.source if cell.cell_type == "markdown" else above


@pytest.mark.parametrize("name", FILES)
def test_parameters_are_typed_commented_and_of_their_type(name: str) -> None:
    for parameter in notebooks.parameters(name).values():
        assert parameter.comment, parameter.name
        assert notebooks.fits(parameter.default, parameter.type)


@pytest.mark.parametrize("name", FILES)
def test_papermill_lists_the_parameters_as_we_read_them(name: str) -> None:
    """What `papermill --help-notebook` prints."""
    declared = notebooks.parameters(name)
    read = papermill.inspect_notebook(ROOT / name)
    assert {key: each["inferred_type_name"] for key, each in read.items()} == {k: p.type for k, p in declared.items()}
    assert {key: each["help"] for key, each in read.items()} == {k: p.comment for k, p in declared.items()}


# What a tutorial is about is no parameter of it: 2 varies the partition, 4 to 6 look at digits one by one, 10 trains nothing.
DATA = {"dataset", "partition", "clients", "rounds"}
FIXED = {"02": {"partition"}, "04": {"dataset"}, "05": {"dataset", "partition"}, "06": {"dataset"}, "10": DATA}


@pytest.mark.parametrize("name", FILES)
def test_data_and_protocol_are_parameters_and_the_text_says_what_it_is_about(name: str) -> None:
    assert DATA - set(notebooks.parameters(name)) == FIXED.get(name[10:12], set())
    cells = nbformat.read(ROOT / name, as_version=4).cells
    if name[10:12] != "10":
        assert re.search(r"(The text is about|in the text are those of) the default parameters", cells[1].source)
    if "dataset" in notebooks.parameters(name):
        code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
        assert not re.search(r'(for_dataset|DataConfig|explore)\([^)]*"digits"', code)


SCALED = [name for name in FILES if "scale" in notebooks.parameters(name)]


@pytest.mark.parametrize("name", SCALED)
def test_a_scale_that_it_does_not_have_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the first cell behind the parameters, before anything is computed or written."""
    monkeypatch.chdir(tmp_path)
    parameters, setup = [
        cell.source for cell in nbformat.read(ROOT / name, as_version=4).cells if cell.cell_type == "code"
    ][:2]
    setup = re.sub(r"^%.*$", "", setup, flags=re.MULTILINE)
    for scale in ("paper", "quick"):
        with pytest.raises(UserError, match=rf"unknown scale '{scale}'; valid: .*smoke"):
            exec(f"{parameters}\nscale = {scale!r}\n{setup}", {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_an_exercise_that_names_a_parameter_runs_with_it(tmp_path: Path) -> None:
    """Twice as many clients, of which some get nothing in the most unlike draws."""
    values = SMALL | {"clients": 20, "store": str(tmp_path / "store")}
    execute(ROOT / "tutorials/02_heterogeneity.ipynb", tmp_path / "executed.ipynb", values)


@pytest.mark.slow
@pytest.mark.parametrize(
    "artefact", ["dbe/table2", "dbe/table9", "pfedfda/table1", "fedbr/table6", "results/tuning-ditto"]
)
def test_it_looks_behind_any_table_of_accuracies(artefact: str, tmp_path: Path) -> None:
    """Of the best, the last and the five best tests, of one seed and of several, beside cells that are no accuracies."""
    execute(ROOT / "tutorials/10_behind_a_number.ipynb", tmp_path / "executed.ipynb", {"artefact": artefact})


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_it_runs(name: str, tmp_path: Path) -> None:
    declared = notebooks.parameters(name)
    values = {key: value for key, value in SMALL.items() if key in declared}
    values |= {key: str(tmp_path / key) for key in ("out", "store") if key in declared}
    execute(ROOT / name, tmp_path / "executed.ipynb", values)
    cells = [
        cell for cell in nbformat.read(tmp_path / "executed.ipynb", as_version=4).cells if cell.cell_type == "code"
    ]
    assert all(cell.execution_count for cell in cells)
    streams = [output for cell in cells for output in cell.outputs if output.output_type == "stream"]
    assert [output.text for output in streams if output.name == "stderr"] == []
    if "out" in declared:
        assert any((tmp_path / "out").rglob("*.png"))
