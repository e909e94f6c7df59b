"""The declared artefacts: every published row and column, scales, claims, names."""

import pytest

from pflrepro import papers
from pflrepro.errors import UserError
from pflrepro.papers import numbers
from pflrepro.papers.comparing import published_number

TABLES = {"dbe/table5": "dbe_table5", "gpfl/table1": "gpfl_table1"}


@pytest.mark.parametrize(("id", "source"), TABLES.items())
def test_every_published_cell_is_declared_and_every_declared_cell_is_published(id, source):
    artefact = papers.find(id)
    printed = {
        (line.method, frozenset(numbers.parse_setting(line.setting).items()), line.dataset, line.model)
        for line in numbers.published(source).itertuples()
    }
    declared = {
        (
            row.label,
            frozenset(numbers.parse_setting(column.setting).items()),
            column.published_dataset,
            column.published_model,
        )
        for row in artefact.rows
        for column in artefact.columns
    }
    assert declared == printed


def test_sizes_of_the_tables():
    table5, table1 = papers.find("dbe/table5"), papers.find("gpfl/table1")
    assert (len(table5.rows), len(table5.columns)) == (12, 9)
    assert (len(table1.rows), len(table1.columns)) == (11, 8)


def test_printed_numbers_reach_the_cells():
    table5 = papers.find("dbe/table5")
    row = next(row for row in table5.rows if row.label == "FedAvg+DBE")
    found = [published_number(table5, row, column).value for column in table5.columns]
    assert found == [99.74, 73.38, 42.89, 97.69, 64.39, 63.43, 43.32, 42.98, 96.87]
    # The paper prints no spread; the leaderboard does, except for the 100-client column.
    spreads = [published_number(table5, row, column).std for column in table5.columns]
    assert spreads[:5] == [0.04, 0.18, 0.29, 0.05, 0.27]
    assert spreads[5] != spreads[5]


def test_own_rows_without_a_published_number():
    fmnist = papers.find("results/fmnist")
    printed = {row.label: published_number(fmnist, row, fmnist.columns[0]) for row in fmnist.rows}
    assert printed.pop("Local") is None
    assert {label: number.value for label, number in printed.items()} == {
        "FedAvg": 85.85,
        "FedPer": 97.44,
        "FedRep": 97.56,
        "Ditto": 97.47,
        "GPFL": 97.81,
        "FedAvg+DBE": 97.69,
    }


@pytest.mark.parametrize("id", papers.ARTEFACTS)
def test_names_in_an_artefact_refer_to_each_other(id):
    artefact = papers.find(id)
    methods, columns = {row.algorithm for row in artefact.rows}, {column.key for column in artefact.columns}
    assert len(methods) == len(artefact.rows)
    assert len(columns) == len(artefact.columns)
    for scale in artefact.scales:
        assert set(scale.rows or ()) <= methods
        assert set(scale.columns or ()) <= columns
        assert {column.key for column in scale.stand_ins} <= columns
    for claim in artefact.claims:
        assert {claim.better, claim.worse} <= (columns if artefact.counts else methods)
        assert claim.source
    assert artefact.id.split("/")[0] == artefact.paper
    assert artefact.paper in papers.PAPERS
    assert artefact.notebook == f"{artefact.id}.ipynb"


def test_the_papers_setting_of_a_paper_scale():
    for id in TABLES:
        paper = papers.find(id).scale("paper")
        assert (paper.rounds, paper.patience, paper.seeds) == (2_000, 100, 3)
        assert paper.rows is None
        assert paper.columns is None


def test_claims_of_the_papers_hold_for_the_printed_numbers():
    for id in TABLES:
        artefact = papers.find(id)
        labels = {row.algorithm: row for row in artefact.rows}
        for claim in artefact.claims:
            for column in artefact.columns:
                better, worse = (
                    published_number(artefact, labels[name], column).value for name in (claim.better, claim.worse)
                )
                assert better > worse or worse != worse, (id, column.key, claim)


def test_finding_by_id_paper_and_not_at_all():
    assert [artefact.id for artefact in papers.select("gpfl")] == ["gpfl/table1", "gpfl/figure2a"]
    assert [artefact.id for artefact in papers.select("dbe/table5")] == ["dbe/table5"]
    assert len(papers.select()) == len(papers.ARTEFACTS)
    with pytest.raises(UserError, match=r"unknown artefact 'dbe/table6'; valid: dbe/table5"):
        papers.find("dbe/table6")
    with pytest.raises(UserError, match=r"unknown paper 'gpf'; valid: gpfl"):
        papers.select("gpf")
    with pytest.raises(UserError, match=r"unknown scale of demo/digits 'paper'; valid: "):
        papers.find("demo/digits").scale("paper")


def test_choosing_methods_by_either_name():
    artefact = papers.find("dbe/table5")
    chosen = artefact.choose_rows(artefact.scale("fast"), ["fedavg+dbe", "APFL"])
    assert [row.label for row in chosen] == ["APFL", "FedAvg+DBE"]
    with pytest.raises(UserError, match="unknown method of dbe/table5 'fedavgg'"):
        artefact.choose_rows(artefact.scale("fast"), ["fedavgg"])


def test_import_stays_light():
    import subprocess
    import sys

    code = "import sys, pflrepro.papers as p; p.ARTEFACTS; p.find('dbe/table5').scale_names; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "pandas", "matplotlib", "papermill"} & set(loaded)
