"""Every notebook that trains, executed at its smoke scale: the real code path on stand-in data, one kernel each."""

import nbformat
import pandas as pd
import pytest

from pflrepro import Store, papers
from pflrepro.papers.reproduce import reproduce

TRAINING = [artefact.id for artefact in papers.ARTEFACTS.values() if artefact.rows]


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory):
    """Equal stand-ins of several artefacts are trained once."""
    return tmp_path_factory.mktemp("smoke") / "store"


@pytest.mark.slow
@pytest.mark.parametrize("id", TRAINING)
def test_notebook_at_smoke(id, shared_store, tmp_path):
    done = reproduce(
        id, "smoke", figures=tmp_path, store=shared_store, executed=tmp_path / "log", progress=False, workers=1
    )
    artefact = papers.find(id)
    stem = id.split("/")[1] + "-smoke"
    names = {path.relative_to(tmp_path / artefact.paper).as_posix() for path in done.outputs}
    assert {f"{stem}.{ending}" for ending in ("pdf", "png", "csv", "md")} <= names
    frame = pd.read_csv(tmp_path / artefact.paper / f"{stem}.csv")
    assert len(frame) == len(artefact.rows) * len(artefact.columns)
    planned = papers.plan(id, "smoke", store=Store(shared_store))
    assert {entry.state for entry in planned} <= {"done", "not possible"}
    run = frame[frame["n"] > 0]
    assert len(run) >= 2
    assert run["ours"].between(0, 100).all()
    assert (run["rounds"] == 2).all()
    assert set(run["verdict"]) == {"stand-in"}
    assert (frame.loc[frame["n"] == 0, "reason"] != "").all()
    streams = [
        output.name
        for cell in nbformat.read(done.notebook, as_version=4).cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "stream"
    ]
    assert "stderr" not in streams
