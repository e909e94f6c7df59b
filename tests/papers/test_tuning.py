"""Values that a paper tunes and does not print: what its tables use follows from the committed grids, on held-out samples."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from pflrepro.data.partitions.parse import parse
from pflrepro.experiments.store import Store
from pflrepro.metrics import paired
from pflrepro.papers import find, tuning
from pflrepro.papers.outputs import report
from pflrepro.papers.studies import Study

FIGURES = Path(__file__).parents[2] / "figures"
CHOICES = [(tuned, choice) for tuned in tuning.TUNINGS for choice in tuned.choices]
each_choice = pytest.mark.parametrize(
    ("tuned", "choice"), CHOICES, ids=[f"{tuned.method}-{choice.key}" for tuned, choice in CHOICES]
)


# table, method: what the row says is chosen, and where
_OF_THE_PLATFORM = {
    "Ditto": "lambda = 1 on fmnist, har; 0.1 on cifar100",
    "FedProx": "mu = 0.001 on fmnist, cifar100, har",
    "MOON": "mu = 0.1 on har",
    "FedAvg+DBE": "kappa = 50 on har",
    "pFedMe": "eta_p = 0.01 on har",
    "FedGen": "generator rate = 0.0005 on har",
}
NOTES = {(table, method): said for table in ("dbe/table9", "gpfl/table2") for method, said in _OF_THE_PLATFORM.items()}
NOTES |= {
    ("pfedfda/table3", method): said
    for method, said in {"Ditto": "lambda = 0.1", "APFL": "alpha = 0.25", "FedPAC": "lambda = 1"}.items()
}


@each_choice
def test_the_chosen_value_is_the_usual_one_unless_another_is_better(
    tuned: tuning.Tuning, choice: tuning.Choice
) -> None:
    study = Study(find(tuned.id), "fast", store=Store(FIGURES / "no-such-folder", behind=FIGURES / "runs"))
    cells = {row.key: study.cells.get((row.key, choice.key)) for row in study.rows}
    found = {float(key): cell.values[0] for key, cell in cells.items() if cell is not None}
    shares = {value: each.clients * each.weights / each.weights.sum() for value, each in found.items()}
    assert tuple(shares) == choice.values
    assert {cell.runs[0].history["round"][-1] for cell in cells.values() if cell is not None} == {tuned.rounds}
    tests = {value: paired(share, shares[choice.usual], "permutation") for value, share in shares.items()}
    better = {value: test.difference for value, test in tests.items() if test.p < 0.05 and test.difference > 0}
    order = {value: (round(better[value], 9), -abs(math.log(value / choice.usual))) for value in better}
    assert choice.chosen == max(order, key=order.get, default=choice.usual)


@each_choice
def test_a_grid_differs_in_one_option_and_never_sees_the_test_part(
    tuned: tuning.Tuning, choice: tuning.Choice, tmp_path: Path
) -> None:
    study = Study(find(tuned.id), "fast", store=tmp_path)
    column = study.artefact.column(choice.key)
    runs = [study.experiments(row, column)[0] for row in study.rows if column.has(row)]
    assert all(parse(run.data.partition).validation == 0.2 for run in runs)
    assert [dict(run.options)[tuned.option] for run in runs] == list(choice.values)
    alike = {(run.data, run.settings, tuple(pair for pair in run.options if pair[0] != tuned.option)) for run in runs}
    assert len(alike) == 1 and runs[0].settings.rounds == tuned.rounds


@each_choice
def test_the_papers_rows_have_the_chosen_value_and_say_who_tuned_it(
    tuned: tuning.Tuning, choice: tuning.Choice
) -> None:
    chosen = {tuned.option: choice.chosen} | dict(choice.fixed)
    tables = [find(name) for name in (("dbe/table9", "gpfl/table2") if choice.data else ("pfedfda/table3",))]
    with_it = [table for table in tables if tuned.method in {row.label for row in table.rows}]
    assert with_it
    for table in with_it:
        row = table.row(tuned.method)
        assert dict(row.options) == ({} if choice.data else chosen)
        assert row.options_on(choice.setting.model, choice.setting.dataset) == chosen
        where = NOTES[table.id, tuned.method]
        assert row.note == f"{where}, not printed, tuned by us ({tuned.id})"
        said = [part.partition(" on ") for part in where.removeprefix(f"{tuned.symbol} = ").split("; ")]
        by_name = {name: value for value, _, names in said for name in names.split(", ")}
        assert by_name[choice.key if choice.data else ""] == f"{choice.chosen:g}"


def test_a_value_that_was_chosen_on_one_data_set_is_not_another_ones() -> None:
    row = find("gpfl/table3").row("ditto")
    assert row == find("dbe/table9").row("ditto")
    assert row.note == "lambda = 1 on fmnist, har; 0.1 on cifar100, not printed, tuned by us (results/tuning-ditto)"
    assert row.options_on("cnn4", "fmnist") == {"proximal": 1.0}
    assert row.options_on("cnn4", "cifar100") == {"proximal": 0.1}
    assert row.options_on("cnn4", "tiny-imagenet") == row.options_on("fasttext", "agnews") == {}
    moon = find("dbe/table4").row("moon")
    assert moon.note == "mu = 0.1 on har, not printed, tuned by us (results/tuning-moon)"
    assert moon.options_on("cnn4", "cifar100") == {}


def test_the_unit_of_columns_with_two_rules_stands_once_and_in_no_head(tmp_path: Path) -> None:
    text = (FIGURES / "results/tuning-ditto.md").read_text("utf-8")
    assert text.count("* validation accuracy in %.") == 1 and "(%)" not in text
    study = Study(find("results/tuning-ditto"), "fast", store=Store(tmp_path, behind=FIGURES / "runs"))
    assert report(study, ["tuning-ditto-sweep.png"]).partition("## How")[0] == text.partition("## How")[0]
