"""The notebooks of figures of partitions, executed without any data: what is drawn, what is said of the rest."""

import pytest

from pflrepro import papers
from pflrepro.errors import MissingData
from pflrepro.papers.partitions import table
from pflrepro.papers.reproduce import reproduce

FIGURES = [artefact.id for artefact in papers.ARTEFACTS.values() if artefact.counts]


@pytest.mark.slow
@pytest.mark.parametrize("id", FIGURES)
def test_notebook_at_smoke(id, tmp_path):
    places = {"store": tmp_path / "store", "executed": tmp_path / "log"}
    done = reproduce(id, "smoke", {"data_root": str(tmp_path / "none")}, tmp_path, progress=False, **places)
    result = papers.result(id, "smoke", data_root=tmp_path / "none")
    stem = id.split("/")[1] + ("-smoke" if result.stand_in else "")
    assert {f"{stem}.{ending}" for ending in ("pdf", "png", "csv", "md")} <= {path.name for path in done.outputs}
    text = (tmp_path / f"{id.split('/')[0]}" / f"{stem}.md").read_text()
    for line in table(result).itertuples(index=False):
        assert " | ".join(line[:5]) in text


@pytest.mark.slow
def test_figure1b_without_its_data_says_how_to_get_them(tmp_path):
    places = {"store": tmp_path / "store", "executed": tmp_path / "log"}
    with pytest.raises(
        MissingData, match=r"^grp-fed/figure1b at scale fast: data set mitbih not downloaded \(pflrepro data get"
    ):
        reproduce("grp-fed/figure1b", "fast", {"data_root": str(tmp_path / "none")}, tmp_path, progress=False, **places)
