"""How artefacts, cells, claims and plans show themselves: a line as text, a page in a notebook."""

from __future__ import annotations

import re
from html import unescape

import pytest
from helpers.runs import SKEWED, fill, make_artefact

from pflrepro import papers
from pflrepro.experiments.store import Store
from pflrepro.papers.artefact import row
from pflrepro.papers.claims import Claim, above, best, falls, gain_grows, peaks, rises_across, top, wider, within
from pflrepro.papers.studies import Study


@pytest.fixture
def study(tmp_path) -> Study:
    return Study(make_artefact(), "paper", store=Store(tmp_path, behind=tmp_path / "nothing"))


@pytest.mark.parametrize("artefact", papers.ARTEFACTS.values(), ids=lambda artefact: artefact.id)
def test_nothing_of_an_artefact_prints_a_screen_long_dataclass(artefact) -> None:
    parts = [
        artefact,
        *artefact.columns,
        *artefact.scales,
        *artefact.claims,
        *(each.setting for each in artefact.columns),
    ]
    parts += [column.measure for column in artefact.columns]
    assert [repr(part) for part in parts if len(repr(part)) > 300] == []
    assert [repr(each) for each in artefact.rows if len(repr(each)) > 500] == []
    html = unescape(artefact._repr_html_())
    assert all(text in html for text in (artefact.id, *(scale.note for scale in artefact.scales)))


def test_a_row_is_printed_by_what_it_has() -> None:
    assert repr(row("beta = 0.3", "grp-fed", key="b", beta=0.3)) == (
        "Row(key='b', label='beta = 0.3', algorithm='grp-fed', options=(('beta', 0.3),))"
    )
    assert repr(SKEWED) == "Setting(digits, skewed: digits, dirichlet:0.5, 5 clients, mlp)"


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (above("a", "b"), "a is better than b in every column"),
        (best("a", ["x", "y"]), "a is better than every other row in x, y"),
        (top("a", 3), "a is among the best 3 in every column"),
        (gain_grows("a", "b", ["x", "y", "z"]), "the lead of a over b grows from x to z"),
        (wider(("a", "b"), ("c", "d")), "the lead of a over b is wider than that of c over d in every column"),
        (falls(["a", "b", "c"], ["x"]), "it falls from a to c in x"),
        (rises_across("a", ["x", "y"]), "a rises from x to y"),
        (peaks(["a", "b", "c"], "b"), "it is larger at b than at a and c in every column"),
        (within("a", "b", 0.5), "a and b differ by less than 0.5 in every column"),
    ],
)
def test_a_claim_is_a_sentence(claim: Claim, said: str) -> None:
    assert claim.said == said
    assert repr(claim) == f"Claim({said})"
    assert said.replace("<", "&lt;") in claim._repr_html_()


def test_a_cell_says_what_is_printed_and_what_was_run(study: Study) -> None:
    assert repr(study.cells["fedavg", "skewed"]) == "Cell(FedAvg, digits, skewed: published 85.85 ± 0.19, ours not run)"
    runs = fill(study, "fedavg", "skewed", [10, 50, 50, 50, 60], [10, 50, 50, 50, 62])
    cell = study.cells["fedavg", "skewed"]
    assert repr(cell) == "Cell(FedAvg, digits, skewed: published 85.85 ± 0.19, ours 61.00 ± 1.00 % of 2 runs)"
    html = cell._repr_html_()
    for text in ("85.85 ± 0.19", "61.00 ± 1.00", "(t, 2 seeds)", "2 of 3 seeds run", *(run.id for run in runs)):
        assert text in html, text


def test_the_cell_of_a_stand_in_says_so(tmp_path) -> None:
    small = Study(make_artefact(), "smoke", store=Store(tmp_path, behind=tmp_path / "nothing"))
    fill(small, "fedavg", "skewed", [10, 86, 80])
    cell = small.cells["fedavg", "skewed"]
    assert repr(cell).endswith("published 85.85 ± 0.19, a stand-in 86.00 % of 1 run)")
    assert ">a stand-in<" in cell._repr_html_() and "nothing is judged" in cell._repr_html_()


def test_an_outcome_says_what_came_of_a_claim(study: Study) -> None:
    for key, best_rounds in (("fedavg", (60, 61, 60)), ("fedavg+dbe", (70, 71, 71))):
        fill(study, key, "skewed", *([10, percent, 5, 5, 5] for percent in best_rounds))
    assert re.match(r"Outcome\(kept: FedAvg\+DBE > FedAvg in skewed by \+10\.33; ", repr(study.outcomes[0]))


def test_a_plan_is_a_line_and_in_a_notebook_a_table(study: Study) -> None:
    fill(study, "fedavg", "skewed", [10, 20, 30, 40, 50])
    plan = study.plan()
    assert re.match(r"Plan\(11 to run, 1 done, 2 not possible; to run: about [\d.]+ (s|min)", repr(plan))
    html = plan._repr_html_()
    assert html.count("<tr>") == 1 + len(plan) and "FedAvg+DBE" in html and "absent" in html
    assert len(repr(plan[0])) < 600
