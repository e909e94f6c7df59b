"""Headless runs: what is refused before a kernel starts, what comes out, what a failing cell says."""

import json
from pathlib import Path

import nbformat
import papermill
import pytest

from pflrepro.errors import RunFailed, UserError
from pflrepro.papers import notebooks
from pflrepro.papers.reproduce import reproduce


@pytest.fixture
def no_kernel(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a kernel was started")

    monkeypatch.setattr(papermill, "execute_notebook", refuse)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"seed": 3}, "unknown parameter of demo/digits.ipynb 'seed'; valid: seeds"),
        ({"seeds": "3"}, r"parameter seeds of demo/digits.ipynb must be int, not '3'"),
        ({"methods": 3}, r"parameter methods .* must be list\[str\], not 3"),
        ({"methods": ["fedavgg"]}, "unknown row of demo/digits 'fedavgg'; valid: fedavg"),
        ({"seeds": -1}, "seeds must be a whole number >= 1, not -1"),
        ({"scale": "fast"}, "parameter scale is 'fast', where the call itself says 'smoke'; set it there"),
        ({"backend": "batch"}, "unknown backend 'batch'; valid: batched"),
        ({"device": "tpu"}, "no device 'tpu' on this machine; valid: auto, cpu"),
    ],
)
def test_wrong_parameters_are_refused_before_a_kernel_starts(no_kernel, tmp_path, parameters, message):
    with pytest.raises(UserError, match=message):
        reproduce("demo/digits", "smoke", parameters, tmp_path / "figures")
    assert not (tmp_path / "figures").exists()


def test_a_place_that_cannot_be_written_to_is_refused_before_anything_is_trained(no_kernel, tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(UserError, match=r"the outputs cannot be written to .*file/figures/demo: .* is no folder"):
        reproduce("demo/digits", "smoke", {}, tmp_path / "file" / "figures", store=tmp_path / "store")
    if Path("/proc").is_dir():  # where permissions promise what nobody can do
        with pytest.raises(UserError, match=r"the outputs cannot be written to /proc/figures/demo: /proc is no folder"):
            reproduce("demo/digits", "smoke", {}, "/proc/figures", store=tmp_path / "store")


def test_wrong_names_are_refused_before_a_kernel_starts(no_kernel, tmp_path):
    with pytest.raises(UserError, match="unknown artefact 'demo/digit'; valid: demo/digits"):
        reproduce("demo/digit", "smoke", figures=tmp_path)
    with pytest.raises(UserError, match="unknown scale of demo/digits 'paper'"):
        reproduce("demo/digits", "paper", figures=tmp_path)


@pytest.mark.slow
def test_a_store_that_cannot_be_written_to_serves(tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "notebooks").write_text("no folder")
    done = reproduce("pfedfda/figure3", "fast", {"device": "cpu"}, tmp_path / "figures", store=tmp_path / "store")
    assert done.notebook == tmp_path / "figures" / "pfedfda" / "pfedfda-figure3-fast.ipynb" and done.notebook.exists()


def test_a_counted_figure_comes_out_without_data(tmp_path):
    # Options of machines reach notebooks that train; this one has no use for them.
    done = reproduce("pfedfda/figure3", "fast", {"device": "cpu"}, tmp_path / "figures", store=tmp_path / "store")
    assert [path.relative_to(tmp_path).as_posix() for path in done.outputs] == [
        f"figures/pfedfda/figure3.{ending}" for ending in ("csv", "md", "pdf", "png", "tex")
    ]
    assert done.notebook == tmp_path / "store" / "notebooks" / "pfedfda-figure3-fast.ipynb"
    executed = nbformat.read(done.notebook, as_version=4)
    assert all(cell.execution_count for cell in executed.cells if cell.cell_type == "code")
    assert 'scale = "fast"' in "\n".join(cell.source for cell in executed.cells)
    report = (tmp_path / "figures/pfedfda/figure3.md").read_text()
    assert "| CIFAR-10, alpha 0.5 | pfedfda-dirichlet:0.5 | 100 | 10 | 60,000 |" in report
    assert "pflrepro reproduce pfedfda/figure3 --scale fast" in report


@pytest.fixture
def failing(monkeypatch, tmp_path):
    """A notebook with another last cell."""

    def build(source):
        content = json.loads(notebooks.notebook_path("pfedfda/figure3.ipynb").read_text())
        content["cells"] = [cell for cell in content["cells"] if "parameters" in cell["metadata"].get("tags", [])]
        content["cells"].append(
            {"cell_type": "code", "id": "x", "metadata": {}, "outputs": [], "execution_count": None, "source": source}
        )
        path = tmp_path / "failing.ipynb"
        path.write_text(json.dumps(content))
        monkeypatch.setattr(notebooks, "notebook_path", lambda name: path)

    return build


def test_a_failing_cell_is_one_line_that_names_it(failing, tmp_path):
    failing("raise ValueError('first line\\nsecond line')")
    with pytest.raises(
        RunFailed, match=r"^notebook pfedfda/figure3.ipynb, cell \d: ValueError: first line; log: "
    ) as caught:
        reproduce("pfedfda/figure3", "smoke", figures=tmp_path / "figures", store=tmp_path / "store")
    assert "\n" not in str(caught.value)
    assert (tmp_path / "store" / "notebooks" / "pfedfda-figure3-smoke.ipynb").exists()


def test_a_users_mistake_inside_a_cell_stays_one(failing, tmp_path):
    failing("from pflrepro.errors import UserError\nraise UserError('alpha must be > 0')")
    with pytest.raises(UserError, match=r"^alpha must be > 0$"):
        reproduce("pfedfda/figure3", "smoke", figures=tmp_path / "figures", store=tmp_path / "store")
