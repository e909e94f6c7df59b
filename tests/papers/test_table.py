"""The table view and how its texts become markdown and HTML: shape, marks, ranks, notes."""

from __future__ import annotations

import re
from dataclasses import replace

import pandas as pd
import pytest
from helpers.runs import ON_SKEWED, PAIRS, PRINTED, SKEWED, fill, make_artefact

from pflrepro import markup
from pflrepro.papers import texts
from pflrepro.papers.artefact import Scale, column, row
from pflrepro.papers.measures import ACCURACY, FDA_ACCURACY, Value
from pflrepro.papers.outputs import provenance
from pflrepro.papers.relative_measures import gain_over
from pflrepro.papers.settings import FMNIST_PRACTICAL
from pflrepro.papers.showing import TITLES
from pflrepro.papers.studies import Study
from pflrepro.papers.views.table import Change, Table

METHODS = (
    row("FedAvg"),
    row("Ditto", note="weight tuned by us"),
    row("FedRep"),
    row("FedAvg+DBE", "fedavg+dbe", aliases=("FedDBE",)),
)


@pytest.fixture
def shown(store) -> Study:
    """Four methods: of one column all printed and two run, of the other nothing is run."""
    found = Study(make_artefact(rows=METHODS), "paper", seeds=2, store=store)
    fill(found, "fedavg", "skewed", [10, 84, 60, 1, 1], [10, 20, 88, 1, 1])
    fill(found, "ditto", "skewed", [10, 84, 60, 1, 1])
    fill(found, "fedavg+dbe", "skewed", [10, 90, 60, 1, 1], [10, 20, 91, 1, 1])
    return found


def test_the_papers_shape_with_ours_where_something_was_run(shown: Study) -> None:
    ((table, _),) = shown.table().tables
    assert table.columns.tolist() == [
        ("", "", ""),
        ("two classes", "FMNIST", "published"),
        ("shares", "FMNIST", "published"),
        ("shares", "FMNIST", "ours"),
    ]
    assert table.iloc[:, 0].tolist() == ["FedAvg", "Ditto", "FedRep", "FedAvg+DBE"]
    assert table.iloc[:, 1].tolist() == ["80.41 ± 0.08", "99.44 ± 0.06", "<u>99.56</u> ± 0.03", "**99.74** ± 0.04"]
    assert table.iloc[:, 3].tolist() == [
        "<u>86.00</u> ± 2.00 [+0.15] ≈",
        "84.00 [-13.47] ≠",
        "",
        "**90.50** ± 0.50 [-7.19] ?",
    ]


def test_notes_say_the_unit_the_marks_and_what_was_not_run(shown: Study) -> None:
    ((_, notes),) = shown.table().tables
    assert notes == [
        "test accuracy in %",
        "ours: mean ± spread over seeds (population deviation); in brackets ours minus published",
        "Ditto: weight tuned by us",
        "≈ within tolerance: the difference is at most the tolerance",
        "? ordering undecided: no test decides a claim about this cell, which does not mean equal: few seeds or clients tell little",
        "≠ differs: outside the tolerance at the paper's setting, and no claim could be checked",
        "5 cells: no finished run in the store",
        "1 cell (Ditto): 1 of 2 seeds run",
    ]


def test_columns_outside_the_scale_and_without_anything_to_show_are_named(store) -> None:
    artefact = make_artefact()
    own = column("own", SKEWED, label="unprinted")
    found = Study(replace(artefact, columns=(*artefact.columns, own)), "paper", store=store)
    assert found.table().tables[0][1][-1] == "nothing printed, and nothing run: unprinted"
    assert found.table().tables[0][0].shape == (3, 3)
    few = Study(found.artefact, "fast", store=store)
    assert few.table().tables[0][1][-1] == "not part of the scale fast: two classes: FMNIST; unprinted"
    assert few.table().tables[0][0].shape == (3, 2)


def test_of_two_numbers_none_is_best_and_stand_ins_are_not_ranked(store) -> None:
    found = Study(make_artefact(rows=METHODS[:2], claims=()), "fast", store=store)
    assert "**" not in str(found.table())
    small = Study(make_artefact(rows=METHODS), "smoke", store=store)
    for place, method in enumerate(("fedavg", "ditto", "fedrep", "fedavg+dbe")):
        fill(small, method, "skewed", [10, 60, 70 + place])
    ((table, _),) = small.table().tables
    assert table["shares"]["FMNIST"]["stand-in, on digits"].tolist() == ["70.00", "71.00", "72.00", "73.00"]


def test_where_less_is_better_the_least_is_best_and_equals_share_a_place(store) -> None:
    lower = replace(ACCURACY, name="wrong", title="wrong answers", better="lower")
    columns = (column("w", SKEWED, lower, label="wrong"),)
    scales = (Scale("paper", ""),)
    found = Study(make_artefact(rows=METHODS, columns=columns, claims=(), scales=scales), "paper", store=store)
    for method, percent in (("fedavg", 30), ("ditto", 20), ("fedrep", 20), ("fedavg+dbe", 50)):
        fill(found, method, "w", [10, percent, 5, 5, 5])
    ((table, notes),) = found.table().tables
    assert table.iloc[:, 1].tolist() == ["<u>30.00</u>", "**20.00**", "**20.00**", "50.00"]
    assert table.columns.tolist() == [("", ""), ("wrong", "ours")], "no group, no level for it"
    assert notes[0] == "wrong answers in %"


def test_of_three_numbers_with_two_alike_the_best_are_marked_and_of_three_alike_none(store) -> None:
    scales = (Scale("paper", ""),)
    for last, marked in ((50, ["**20.00**", "**20.00**", "<u>10.00</u>"]), (100, ["20.00"] * 3)):
        made = make_artefact(
            rows=METHODS[:3], columns=(column("w", SKEWED, ACCURACY, label="right"),), claims=(), scales=scales
        )
        found = Study(made, "paper", store=store)
        for method, percent in (("fedavg", 20), ("ditto", 20), ("fedrep", last // 5)):
            fill(found, method, "w", [10, percent, 5, 5, 5])
        ((table, _),) = found.table().tables
        assert table.iloc[:, 1].tolist() == marked


def test_other_data_are_named_in_the_header_and_not_subtracted(store) -> None:
    scales = (Scale("fast", "", rounds=2, instead={"skewed": PAIRS}, columns=("skewed",)),)
    found = Study(make_artefact(scales=scales, claims=()), "fast", store=store)
    fill(found, "fedavg", "skewed", [10, 60, 50])
    ((table, _),) = found.table().tables
    assert table.columns.tolist()[-1] == ("shares", "FMNIST", "ours, on digits, pairs")
    assert table.iloc[0, -1] == "60.00"
    assert "digits, pairs in place of digits, skewed: other data or another network" in found.caption()


def test_a_spread_that_is_printed_over_clients_stands_beside_ours_over_clients(store) -> None:
    measure = replace(FDA_ACCURACY, metric="accuracy", printed=1.0)
    columns = (column("skewed", SKEWED, measure, label="S", **PRINTED, setting="beta=0.1"),)
    artefact = make_artefact(columns=columns, claims=(), spread="clients", scales=(Scale("paper", ""),))
    found = Study(artefact, "paper", store=store)
    fill(found, "fedavg", "skewed", [10, 60, 50, 50, 62])
    ((table, notes),) = found.table().tables
    # 62 of 100 are 12, 12, 12, 13, 13 of 20: 60, 60, 60, 65, 65 %, whose unbiased deviation is sqrt(30 / 4).
    assert table.iloc[0, -1] == "62.0 ± 2.7"
    assert "spread over clients, as the paper prints it" in notes[1]
    assert provenance(found)["spread"].startswith("standard deviation over clients, printed and in the table")
    own = Study(replace(artefact, sources=()), "paper", store=store)  # of no paper
    assert own.table().tables[0][1][1] == "ours: mean ± spread over clients"
    assert provenance(own)["spread"] == "standard deviation over clients, in the table; in the csv over seeds"
    ((printed, _),) = Study("pfedfda/table3", "paper", store=store).table().tables
    assert printed.iloc[0, 1] == "69.2 ± 17", "of .692 (.17): no digit that is not printed"


def test_several_measures_have_their_units_in_the_header(store) -> None:
    columns = (
        column("a", SKEWED, label="accuracy"),
        column("b", SKEWED, gain_over("fedavg"), label="gain"),
        column("c", SKEWED, replace(ACCURACY, name="n", title="count", unit="", digits=0), label="count"),
    )
    found = Study(make_artefact(columns=columns, claims=(), scales=(Scale("paper", ""),)), "paper", store=store)
    fill(found, "fedavg", "a", [10, 60, 50, 50, 62])
    ((table, notes),) = found.table().tables
    assert [names[0] for names in table.columns] == ["", "accuracy (%)", "gain (%)", "count"]
    assert notes[:3] == ["test accuracy in %", "gain in test accuracy over fedavg in %", "count"]
    assert table.iloc[0].tolist() == ["FedAvg", "62.00", "0.00", "62"]


def test_columns_of_one_name_are_told_apart_by_their_settings(store) -> None:
    columns = tuple(column(key, setting, label="D", group="G") for key, setting in (("a", SKEWED), ("b", PAIRS)))
    found = Study(make_artefact(columns=columns, claims=()), "paper", store=store)
    assert [found.artefact.name_of(each) for each in columns] == ["G: digits, skewed", "G: digits, pairs"]
    assert set(found.frame["column"]) == {"G: digits, skewed", "G: digits, pairs"}


def test_what_papers_print_in_brackets_is_computed_for_both(store) -> None:
    """Of the published numbers and of ours, against another row or another column; without both numbers nothing."""
    changes = (
        Change("points", ("skewed",), row="fedavg", rows=("fedavg+dbe", "fedrep")),
        Change("percent", ("pairs",), column="skewed"),
    )
    found = Study(make_artefact(rows=METHODS, views=(Table(changes=changes),), claims=()), "paper", store=store)
    fill(found, "fedavg", "skewed", [10, 50, 40, 1, 1])
    fill(found, "fedavg", "pairs", [10, 60, 40, 1, 1])
    fill(found, "fedavg+dbe", "skewed", [10, 90, 60, 1, 1])
    ((table, notes),) = found.table().tables
    pairs, shares = table["two classes"]["FMNIST"], table["shares"]["FMNIST"]
    assert shares["published"][0] == "85.85 ± 0.19" and shares["published"][3] == "**97.69** ± 0.05 (+11.84)"
    assert [text.rpartition(" ")[0] for text in shares["ours"][[0, 3]]] == ["50.00 [-35.85]", "90.00 (+40.00) [-7.69]"]
    assert pairs["published"][0] == "80.41 ± 0.08 (-6.34 %)"
    assert pairs["ours"][0].startswith("60.00 (+20.00 %) [-20.41]") and pairs["ours"][3] == ""
    assert [note for note in notes if "round brackets" in note] == [
        "in round brackets the difference to FedAvg's, computed from the numbers that are shown",
        "in round brackets the change in percent to FMNIST's, computed from the numbers that are shown",
    ]
    assert Change("times", ("a",), row="b").text(0.0, 5.0, 0) == ""


# ---- texts -----------------------------------------------------------------------------------------------------------------------
def test_in_a_notebook_the_header_has_levels_and_marks_say_what_they_mean(shown: Study) -> None:
    html = shown.table()._repr_html_()
    head, body = re.search(r"<thead>(.*)</thead><tbody>(.*)</tbody>", html).groups()
    lines = [re.findall(r'<th colspan="(\d)"[^>]*>([^<]*)</th>', line) for line in head.split("</tr>")[:-1]]
    assert lines == [
        [("1", ""), ("1", "two classes"), ("2", "shares")],
        [("1", ""), ("1", "FMNIST"), ("2", "FMNIST")],
        [("1", ""), ("1", "published"), ("1", "published"), ("1", "ours")],
    ]
    assert '<b>90.50</b> ± 0.50 [-7.19] <span title="ordering undecided: no test decides' in body
    assert '<u>86.00</u> ± 2.00 [+0.15] <span title="within tolerance: the difference' in body
    assert "**" not in html and "&lt;u&gt;" not in html
    assert "<li>5 cells: no finished run in the store</li>" in html
    assert shown.caption() in html
    assert not re.search(r"(?<!-)color:|background", html), "the page's own colours, light or dark"


def test_a_text_is_no_markup_of_its_own() -> None:
    frame = pd.DataFrame({"": ["<script>", "a | b"], "number": ["**1.0** ✓", "< 0.0001"]})
    html = texts.html(frame, TITLES)
    assert "&lt;script&gt;" in html and "<script>" not in html
    assert '<td style="text-align:right;white-space:nowrap"><b>1.0</b> <span title="ordering kept' in html
    assert html.count("text-align:left") == 1 + 2
    assert texts.markdown(frame) == "|  | number |\n| --- | --- |\n| <script> | **1.0** ✓ |\n| a \\| b | < 0.0001 |\n"


def test_levels_of_a_header_stand_in_one_line_of_markdown() -> None:
    names = [("", "", ""), ("G", "A", "published"), ("G", "A", "ours"), ("G", "B", "ours"), ("", "C", "ours")]
    frame = pd.DataFrame([["x"] * 5], columns=pd.MultiIndex.from_tuples(names))
    assert texts.markdown(frame).splitlines()[0] == "|  | G: A, published | ours | G: B, ours | C, ours |"


def test_texts_of_numbers() -> None:
    assert texts.span([1], "seed") == "1 seed" and texts.span([3, 2], "seed") == "2 to 3 seeds"
    assert texts.mean_and_spread(97.694, 0.051) == "97.69 ± 0.05"
    assert texts.mean_and_spread(22.7, 7.0, 1, 0) == "22.7 ± 7"
    assert texts.mean_and_spread(1234.5, float("nan"), 1) == "1,234.5" and texts.mean_and_spread(float("nan"), 1) == ""


def test_no_value_is_lost_between_published_and_shown(store) -> None:
    """A printed cell without a number says so, a cell that nobody prints is empty."""
    dagger = {"dataset": "Cifar100", "model": "CNN4", "setting": "partition=practical;beta=0.1;N=100;rho=0.5"}
    rows = (row("APPLE"), row("FedAvg"), row("Local"))
    columns = (column("c", FMNIST_PRACTICAL, label="c", **dagger),)
    found = Study(make_artefact(rows=rows, columns=columns, claims=()), "paper", store=store)
    assert found.table().tables[0][0].iloc[:, 1].tolist() == ["none", "28.81", ""]
    assert Value(1.0).clients is None


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("**90.50** ± 0.50 [-7.19] ?", r"\textbf{90.50} $\pm$ 0.50 [-7.19] ?"),
        ("<u>86.00</u> ≈", r"\underline{86.00} $\approx$"),
        ("9 ✗", r"9 $\times$"),
        ("a_b & 5 % of {x} < y", r"a\_b \& 5 \% of \{x\} $<$ y"),
        ("f^P ~ 2", r"f\textasciicircum{}P \textasciitilde{} 2"),
        ("[?] 3", "{}[?] 3"),
        ("* 3", "{}* 3"),
    ],
)
def test_signs_and_letters_that_latex_reads_otherwise(text: str, written: str) -> None:
    assert markup.latex(pd.DataFrame({"": [text]})).splitlines()[4] == f"{written} \\\\"


def test_a_note_on_options_for_other_data_is_not_shown(store) -> None:
    columns = (column("c", SKEWED, label="c", **PRINTED, **ON_SKEWED),)
    for where, seen in ((SKEWED.dataset, True), ("cifar100", False)):
        tuned = row("Ditto", note="lambda = 1 on fmnist", by_data={where: {"proximal": 1.0}})
        found = Study(make_artefact(rows=(tuned,), columns=columns, claims=()), "paper", store=store)
        ((_, notes),) = found.table().tables
        assert ("Ditto: lambda = 1 on fmnist" in notes) is seen


def test_the_brackets_are_explained_only_where_there_are_any(store) -> None:
    for dataset, seen in (("FMNIST", True), ("nowhere", False)):
        columns = (column("c", SKEWED, label="c", **PRINTED | ON_SKEWED | {"dataset": dataset}),)
        found = Study(make_artefact(columns=columns, claims=(), sources=("dbe_table5",)), "paper", store=store)
        fill(found, "fedavg", "c", [10, 84, 60, 1, 1])
        ((table, notes),) = found.table().tables
        assert any("[" in text for text in table.iloc[:, -1]) is seen
        assert any("in brackets ours minus published" in note for note in notes) is seen
