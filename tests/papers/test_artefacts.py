"""The declared artefacts: names, every printed number in its cell, claims that hold for the printed numbers, experiments, notebooks."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from pflrepro import papers
from pflrepro.errors import UserError
from pflrepro.papers import dbe, numbers, template
from pflrepro.papers.artefact import SAME, Artefact
from pflrepro.papers.claims import Grid, Sample, contrasts
from pflrepro.papers.measures import Value
from pflrepro.papers.model_measures import newcomers
from pflrepro.papers.relative_measures import gain_over
from pflrepro.papers.result import VERDICTS, Cell
from pflrepro.papers.studies import Study

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
each_artefact = pytest.mark.parametrize("artefact", papers.ARTEFACTS.values(), ids=list(papers.ARTEFACTS))
PRINTED = [artefact for artefact in papers.ARTEFACTS.values() if artefact.sources and artefact.rows]
# Printed in a table of trainings, but not of a training: the row is what the others of its column are compared with.
NOT_A_CELL = {"pfedfda_table7": {("Local", "average_improvement_pp")}}


def find(artefact: Artefact, row, column) -> numbers.PublishedNumber | None:
    where = dict(column.printed) | dict(row.printed)
    return numbers.find_number(artefact.sources, (row.label, *row.aliases), where, _measure(row, column).metric)


def _measure(row, column):
    return row.measure or column.measure


def cells(artefact: Artefact):
    return [(row, column) for row in artefact.rows for column in artefact.columns if column.has(row)]


# ---- names ---------------------------------------------------------------------------------------------------------------------
@each_artefact
def test_names_in_an_artefact_refer_to_each_other(artefact: Artefact) -> None:
    for names in (artefact.row_keys, artefact.column_keys, artefact.scale_names):
        assert len(set(names)) == len(names)
    columns = [artefact.name_of(column) for column in artefact.columns]
    assert len(set(columns)) == len(columns), "a reader can tell the columns apart"
    for row, column in cells(artefact):
        assert set(column.rows or ()) <= set(artefact.row_keys) and row.label
    for scale in artefact.scales:
        assert set(scale.rows or ()) <= set(artefact.row_keys)
        assert set(scale.columns or ()) <= set(artefact.column_keys)
        assert not scale.instead or set(scale.instead) & set(
            artefact.column_keys
        )  # one of several artefacts may serve all
        assert set(scale.options) <= set(artefact.row_keys)
        assert scale.note
    assert all(claim.source for claim in artefact.claims)
    assert artefact.scale_names[0] == "smoke" and artefact.views and artefact.about[-1] in ".?"
    assert set(artefact.sources) <= set(numbers.published_tables())


@each_artefact
def test_the_title_names_paper_and_number(artefact: Artefact) -> None:
    assert artefact.paper in papers.PAPERS and artefact.notebook == f"{artefact.id}.ipynb"
    found = re.fullmatch(r"(table|figure|theorem)(\d+)", artefact.id.split("/")[1])
    if found:  # not one of our own
        paper, (kind, number) = papers.PAPERS[artefact.paper].partition(":")[0], found.groups()
        assert re.match(rf"{paper} {kind.capitalize()} {number}\b", artefact.title), artefact.title
        assert artefact.kind == ("figure" if kind == "figure" else "table")


def test_finding_by_id_paper_and_not_at_all() -> None:
    assert [artefact.id for artefact in papers.select("dbe/table5")] == ["dbe/table5"]
    assert {artefact.paper for artefact in papers.select("gpfl")} == {"gpfl"}
    assert papers.select() == list(papers.ARTEFACTS.values())
    with pytest.raises(UserError, match=r"unknown artefact 'dbe/table55'; valid: dbe/table5"):
        papers.find("dbe/table55")
    with pytest.raises(UserError, match="unknown paper 5; valid: "):
        papers.select(5)
    with pytest.raises(UserError, match=r"unknown paper 'gpf'; valid: gpfl"):
        papers.select("gpf")
    with pytest.raises(UserError, match=r"unknown scale of demo/digits 'paper'; valid: "):
        papers.find("demo/digits").scale("paper")


def test_import_stays_light() -> None:
    code = "import sys, pflrepro.papers as p; p.ARTEFACTS; p.find('dbe/table5').scale_names; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "pandas", "matplotlib", "papermill"} & set(loaded)


# ---- printed numbers -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("artefact", PRINTED, ids=lambda artefact: artefact.id)
def test_every_printed_number_is_found_in_exactly_one_cell(artefact: Artefact) -> None:
    """Of the table's own file; a number may also be one that the paper does not print (then it has a note)."""
    own = artefact.id.replace("/", "_")
    if own not in artefact.sources:
        part_of_a_table = "-" in artefact.id
        assert artefact.kind == "figure" or part_of_a_table or artefact.paper in ("demo", "results")
        return
    found = Counter()
    parts = [other for id, other in papers.ARTEFACTS.items() if id == artefact.id or id.startswith(f"{artefact.id}-")]
    for row, column in (cell for part in parts if own in part.sources for cell in cells(part)):
        labels, where = (row.label, *row.aliases), dict(column.printed) | dict(row.printed)
        found.update(_lines(own, labels, where, _measure(row, column).metric))
    table = numbers.published(own)
    printed = {
        place
        for place, line in enumerate(table.itertuples(index=False))
        if not math.isnan(line.value) and (line.method, line.metric) not in NOT_A_CELL.get(own, ())
    }
    assert printed <= set(found), table.loc[sorted(printed - set(found))]
    assert set(found.values()) <= {1}, "no number stands in two cells"


def _lines(source: str, labels: tuple[str, ...], where: dict[str, str], metric: str) -> list[int]:
    """The places of the lines of a published table that a cell means: those of its first label that has any."""
    lines = numbers.published(source).to_dict("records")
    for label in labels:
        found = [
            place
            for place, line in enumerate(lines)
            if (line["method"], line["metric"]) == (label, metric)
            and all(numbers._holds(line[name], wanted, name) for name, wanted in where.items())
        ]
        if found:
            return found
    return []


# pFedFDA prints its gains over Local behind the accuracies, the file lists them behind all of them.
OTHER_ORDER = {"pfedfda/table7"}


@pytest.mark.parametrize("artefact", PRINTED, ids=lambda artefact: artefact.id)
def test_rows_and_columns_stand_in_the_printed_order(artefact: Artefact) -> None:
    """That of the table's own file: along a row and along a column its lines come one after the other."""
    own = artefact.id.replace("/", "_")
    if own not in artefact.sources or artefact.id in OTHER_ORDER:
        return
    places = {
        (row.key, column.key): found[0]
        for row, column in cells(artefact)
        if (
            found := _lines(
                own,
                (row.label, *row.aliases),
                dict(column.printed) | dict(row.printed),
                _measure(row, column).metric,
            )
        )
    }
    for keys, place in ((artefact.row_keys, 0), (artefact.column_keys, 1)):
        for key in keys:
            others = artefact.column_keys if place == 0 else artefact.row_keys
            line = [
                places[cell] for other in others if (cell := (key, other) if place == 0 else (other, key)) in places
            ]
            assert line == sorted(line), (key, line)


@each_artefact
def test_a_cheaper_measure_stands_beside_the_same_printed_numbers(artefact: Artefact) -> None:
    for row, column in cells(artefact):
        for _, cheaper in _measure(row, column).cheaper:
            whole = _measure(row, column)
            assert (cheaper.metric, cheaper.printed, cheaper.unit) == (whole.metric, whole.printed, whole.unit)


@pytest.mark.parametrize("artefact", PRINTED, ids=lambda artefact: artefact.id)
def test_no_printed_digit_is_lost(artefact: Artefact) -> None:
    """What is shown with the cell's decimals is the printed number, and so is its spread."""
    own = artefact.id.replace("/", "_")
    for row, column in cells(artefact):
        measure, found = _measure(row, column), find(artefact, row, column)
        cell = Cell(row, column, measure, SAME, found)
        if found is None or found.source != own:
            continue
        for value, digits in ((cell.published, cell.digits), (cell.published_std, cell.spread_digits)):
            assert math.isnan(value) or found.std_source not in ("", own) or abs(round(value, digits) - value) < 1e-9, (
                row.label,
                column.key,
                value,
            )


def test_printed_numbers_reach_the_cells() -> None:
    table5 = papers.find("dbe/table5")
    assert (len(table5.rows), len(table5.columns)) == (12, 9)
    found = [find(table5, table5.row("fedavg+dbe"), column) for column in table5.columns]
    assert [each.value for each in found] == [99.74, 73.38, 42.89, 97.69, 64.39, 63.43, 43.32, 42.98, 96.87]
    # The paper prints no spread; the leaderboard does, except for the 100-client column.
    assert [each.std for each in found][:5] == [0.04, 0.18, 0.29, 0.05, 0.27]
    assert math.isnan(found[5].std)
    table1 = papers.find("gpfl/table1")
    assert (len(table1.rows), len(table1.columns)) == (11, 8)
    assert [find(table1, table1.row("gpfl"), column).std for column in table1.columns][4] == 0.31


@pytest.mark.parametrize("artefact", [each for each in PRINTED if each.claims], ids=lambda artefact: artefact.id)
def test_what_is_claimed_holds_for_the_printed_numbers(artefact: Artefact) -> None:
    samples, lower = {}, set()
    for row, column in cells(artefact):
        measure, number = _measure(row, column), find(artefact, row, column)
        if measure.better == "lower":
            lower.add((row.key, column.key))
        if number is not None and not math.isnan(number.value):
            samples[row.key, column.key] = Sample({0: number.value * measure.printed}, {})
    labels = {each.key: each.label for each in (*artefact.rows, *artefact.columns)}
    board = Grid(artefact.row_keys, artefact.column_keys, samples, frozenset(lower), labels)
    for claim in artefact.claims:
        reversed_in = Counter()
        for contrast, bound in contrasts(claim, board):
            total = sum(weight * samples[place].numbers[0] for place, weight in contrast.weights)
            reversed_in[contrast.column] += total < bound  # equal to the last printed digit is not reversed
        allowed = dict(claim.more)["k"] - 1 if claim.form == "top" else 0
        assert all(count <= allowed for count in reversed_in.values()), (claim, reversed_in)


@each_artefact
def test_no_contrast_is_counted_twice(artefact: Artefact) -> None:
    """Holm's adjustment goes by their number."""
    samples = {(row.key, column.key): Sample({0: 1.0}, {}) for row, column in cells(artefact)}
    labels = {each.key: each.label for each in artefact.rows} | {c.key: artefact.name_of(c) for c in artefact.columns}
    board = Grid(artefact.row_keys, artefact.column_keys, samples, frozenset(), labels)
    found = Counter(
        (c, bound) for claim in artefact.claims if claim.form != "top" for c, bound in contrasts(claim, board)
    )
    assert [contrast.said for (contrast, _), times in found.items() if times > 1] == []


# ---- experiments -----------------------------------------------------------------------------------------------------------------
@each_artefact
def test_every_cell_can_be_declared_at_every_scale(artefact: Artefact, store) -> None:
    """All parts are in the package: methods, their options, data sets, networks, partitions, settings."""
    for scale in artefact.scales:
        study = Study(artefact, scale.name, store=store)
        for row, column in cells(artefact):
            if scale.setting(column) is None:
                continue
            if column.method(row) in dict(study.measure(row, column).without):
                with pytest.raises(UserError, match="none for a new one"):
                    study.experiments(row, column)
                continue
            experiments = study.experiments(row, column)
            first = 1000 if artefact.timed else 0
            assert [each.seed for each in experiments] == list(range(first, first + study.seeds))
            assert len({each.changed(seed=0).canonical() for each in experiments}) == 1
            assert not (artefact.timed and experiments[0].settings.evaluate_after), "a test in the time of the training"
            if scale.stand_in:
                settings = experiments[0].settings
                assert experiments[0].data.dataset == "digits" and settings.rounds == 2
                assert settings.local_epochs <= 2 and settings.local_steps <= 2


def test_the_papers_setting_of_a_paper_scale() -> None:
    for id in ("dbe/table5", "gpfl/table1"):
        study = Study(id, "paper")
        (first, *_) = study.experiments(study.rows[0], study.columns[0])
        settings = first.settings
        assert (settings.rounds, settings.patience, study.seeds) == (2_000, 100, 3)
        assert (settings.batch_size, settings.local_epochs, settings.lr, first.data.test_share) == (10, 1, 0.005, 0.25)
        assert study.trained == study.rows and study.columns == study.artefact.columns


@pytest.mark.parametrize(
    ("id", "row", "column", "options"),
    [
        ("dbe/table5", "fedavg+dbe", "practical/fmnist", {}),
        ("dbe/table5", "fedavg+dbe", "practical/tiny-resnet18", {"kappa": 1.0, "mr_momentum": 0.1}),
        ("dbe/table5", "fedavg+dbe", "practical/agnews", {"kappa": 0.1, "mr_momentum": 1.0}),
        ("gpfl/table1", "gpfl", "practical/fmnist", {}),
        ("gpfl/table1", "gpfl", "practical/tiny-resnet18", {"guidance": 1e-4, "decay": 0.0}),
        ("gpfl/table2", "gpfl", "har", {"guidance": 0.01, "decay": 1.0}),
    ],
)
def test_options_of_the_papers_run_scripts(id: str, row: str, column: str, options: dict) -> None:
    study = Study(id, "paper")
    (first, *_) = study.experiments(study.artefact.row(row), study.artefact.column(column))
    assert dict(first.options) == options


def test_the_columns_with_mr_train_the_row_s_method_with_it() -> None:
    """DBE Table 6 has the numbers with MR beside the others of a method, not in rows of their own; the gain is over its column."""
    study = Study("dbe/table6", "paper")
    for host in dbe.HOSTS:
        row = study.artefact.row(host)
        plain, mixed, gain = (study.experiments(row, study.artefact.column(key))[0] for key in ("plain", "mr", "gain"))
        assert mixed == gain and mixed.algorithm == f"{plain.algorithm}+mr" and mixed.options == plain.options
        assert mixed.changed(algorithm=plain.algorithm) == plain
    seen = []
    evidence = SimpleNamespace(history={}, beside=lambda **where: seen.append(where))
    measure = replace(dbe.ACCURACY, of=lambda _: Value(50.0))
    assert math.isnan(gain_over(column="plain", measure=measure).of(evidence).number) and seen == [{"column": "plain"}]


def test_new_clients_of_a_model_without_parts_of_its_own_fine_tune_all_of_it(tmp_path: Path) -> None:
    """DBE Table 8: Per-FedAvg's start is never scored as it is; DBE's new clients train as its old ones did."""
    study = Study("dbe/table8", "smoke", methods=["per-fedavg", "fedavg+dbe"], store=tmp_path)
    study.run(progress=False, backend="loop", workers=1)
    for key, how in (("per-fedavg", "plain"), ("fedavg+dbe", "own")):
        (found,) = study.evidence(key, "new1")
        assert (
            study.cells[key, "new1"].ours == newcomers(how, 10).of(found).number != newcomers("own", 0).of(found).number
        )


def test_a_network_that_is_cut_elsewhere_keeps_the_options_of_the_network() -> None:
    """DBE Table 7 moves the split of ResNet-18; kappa stays that of ResNet-18."""
    for id in ("dbe/table1", "dbe/table7"):
        study = Study(id, "paper")
        for row, column in cells(study.artefact):
            (first, *_) = study.experiments(row, column)
            if "dbe" in row.algorithm and first.model.startswith("resnet18"):
                assert dict(first.options) == {"kappa": 1.0, "mr_momentum": 0.1}, (id, row.key, first.model)


# ---- notebooks -----------------------------------------------------------------------------------------------------------------
@each_artefact
def test_the_notebook_is_the_template_s(artefact: Artefact) -> None:
    """Byte for byte: who changes one changes the template, and writes all anew (python -m pflrepro.papers.template)."""
    written = (NOTEBOOKS / artefact.notebook).read_text("utf-8")
    assert written == template.text_of(template.notebook(artefact))
    assert json.loads(written)["nbformat"] == 4


def test_the_words_of_the_verdicts_are_told_apart() -> None:
    assert len(set(VERDICTS.values())) == len(VERDICTS)


def test_pfedmes_personal_rate_is_the_authors_for_the_kind_of_data() -> None:
    """At 0.1 it diverges on CIFAR: examples of its authors' platform have 0.01 there and on AG News, 0.1 on images like MNIST's.

    On HAR, of which they have none, it is what a grid on held-out samples chose (`tuning.PFEDME`).
    """
    slow = ("cifar", "tiny", "agnews", "har")
    for id in ("dbe/table5", "gpfl/table1", "gpfl/table2", "pfedfda/table1", "pfedfda/table2", "pfedfda/table3"):
        artefact = papers.find(id)
        for column in artefact.columns:
            name = column.setting.dataset
            rate = artefact.row("pfedme").options_on(column.setting.model, name).get("personal_rate", 0.1)
            assert rate == (0.01 if name.startswith(slow) else 0.1), (id, name)
