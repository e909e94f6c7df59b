"""Values that a paper tunes and does not print: what its tables use follows from the committed grids, on held-out samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from pflrepro.data.partitions.parse import parse
from pflrepro.experiments.store import Store
from pflrepro.metrics import paired
from pflrepro.papers import find, tuning
from pflrepro.papers.studies import Study

FIGURES = Path(__file__).parents[2] / "figures"
each_tuning = pytest.mark.parametrize("tuned", tuning.TUNINGS, ids=lambda tuned: tuned.method)


@each_tuning
def test_the_chosen_value_is_the_usual_one_unless_another_is_better(tuned: tuning.Tuning) -> None:
    study = Study(find(tuned.id), "fast", store=Store(FIGURES / "no-such-folder", behind=FIGURES / "runs"))
    shares = {}
    for row in study.rows:
        history = study.cells[row.key, "cifar100"].runs[0].history
        shares[dict(row.options)[tuned.option]] = history["correct"][-1] / history["test_samples"]
    assert tuple(shares) == tuned.values and history["round"][-1] == tuned.rounds
    tests = {value: paired(found, shares[tuned.usual], "permutation") for value, found in shares.items()}
    better = {value: test.difference for value, test in tests.items() if test.p < 0.05 and test.difference > 0}
    assert tuned.chosen == max(better, key=better.get, default=tuned.usual)


@each_tuning
def test_a_grid_differs_in_one_option_and_never_sees_the_test_part(tuned: tuning.Tuning, tmp_path: Path) -> None:
    study = Study(find(tuned.id), "fast", store=tmp_path)
    runs = [study.experiments(row, study.columns[0])[0] for row in study.rows]
    assert all(parse(run.data.partition).validation == 0.2 for run in runs)
    assert [dict(run.options)[tuned.option] for run in runs] == list(tuned.values)
    alike = {(run.data, run.settings, tuple(pair for pair in run.options if pair[0] != tuned.option)) for run in runs}
    assert len(alike) == 1 and runs[0].settings.rounds == tuned.rounds


@each_tuning
def test_the_papers_row_has_the_chosen_value_and_says_who_tuned_it(tuned: tuning.Tuning) -> None:
    row = find("pfedfda/table3").row(tuned.method)
    assert row == tuned.row and dict(row.options) == {tuned.option: tuned.chosen} | dict(tuned.fixed)
    assert row.note == f"{tuned.symbol} = {tuned.chosen:g}, not printed, tuned by us ({tuned.id})"
