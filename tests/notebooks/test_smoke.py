"""Every notebook, executed at its smoke scale: the real code path on stand-in data, one kernel each."""

import nbformat
import pandas as pd
import pytest

from pflrepro import Store, papers
from pflrepro.errors import MissingData
from pflrepro.papers.reproduce import reproduce


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory):
    """Equal stand-ins of several artefacts are trained once."""
    return tmp_path_factory.mktemp("smoke") / "store"


def streams(notebook):
    cells = [cell for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "code"]
    return [output.name for cell in cells for output in cell.outputs if output.output_type == "stream"]


@pytest.mark.slow
@pytest.mark.parametrize("id", papers.ARTEFACTS)
def test_notebook_at_smoke(id, shared_store, tmp_path):
    how = {"figures": tmp_path / "figures", "store": shared_store, "progress": False}
    done = reproduce(id, "smoke", {"data_root": str(tmp_path / "none")}, workers=1, **how)
    study = papers.study(id, "smoke", store=Store(shared_store), data_root=tmp_path / "none")
    stem = id.split("/")[1] + ("-smoke" if study.artefact.trains else "")
    names = {path.name for path in done.outputs}
    assert {f"{stem}.csv", f"{stem}.md"} <= names and (f"{stem}.tex" in names) is bool(study.tables())
    assert {name.rpartition(".")[0] for name in names if name.endswith(".png")} == {
        f"{stem}-{name}".rstrip("-") for name in study.figures()
    }
    assert "stderr" not in streams(done.notebook)
    refused = {(row.label, reason) for row in study.rows for reason in _refusals(study, row)}
    plan = study.plan()
    assert {(entry.row, entry.reason) for entry in plan if entry.state == "not possible"} == refused
    assert {entry.state for entry in plan} <= {"done", "not possible"}, "every other cell of the scale was run"
    frame = study.frame
    run = frame[(frame["n"] > 0) & (frame["fidelity"] == "stand-in")]
    if study.artefact.trains:
        assert len(run) and set(run["verdict"]) == {"stand-in"} and (run["rounds"] == 2).all()
        assert (frame.loc[(frame["n"] == 0) & (frame["ours"].isna()), "reason"] != "").all()
        assert study.outcomes == []
    assert len(pd.read_csv(tmp_path / "figures" / study.artefact.paper / f"{stem}.csv"))


@pytest.mark.slow
def test_what_needs_data_says_how_to_get_them(tmp_path):
    places = {"store": tmp_path / "store", "progress": False}
    with pytest.raises(
        MissingData, match=r"^grpfed/table1 at scale fast: data set mitbih not downloaded \(pflrepro data"
    ):
        reproduce("grpfed/table1", "fast", {"data_root": str(tmp_path / "none")}, tmp_path, **places)


def _refusals(study, row) -> list[str]:
    """Why a row can have no number in some columns, as its measure there says."""
    here = (
        (dict(study.measure(row, column).without), column.method(row))
        for column in study.columns
        if study.has(row, column)
    )
    return [without[method] for without, method in here if method in without]
