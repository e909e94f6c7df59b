"""What a study trains, and what it leaves to be trained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.runs import SKEWED, make_artefact

from pflrepro.errors import RunFailed, UserError
from pflrepro.experiments.store import Store
from pflrepro.papers.artefact import Scale, column, row
from pflrepro.papers.claims import above
from pflrepro.papers.measures import ACCURACY, SECONDS, TRAIN_LOSS
from pflrepro.papers.prediction_measures import grp_fed
from pflrepro.papers.relative_measures import ratio_to
from pflrepro.papers.studies import Study, study

OWN_METHOD = """
from dataclasses import dataclass
from pflrepro.algorithms.fedavg import FedAvg

@dataclass(frozen=True)
class Mine(FedAvg):
    title = "mine"
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """The demo at its smoke scale, two rows of it trained."""
    place = tmp_path_factory.mktemp("trained")
    found = study(
        "demo/digits", "smoke", store=Store(place / "store", behind=place / "no"), methods=["FedAvg", "local"]
    )
    found.run(progress=False, workers=1, backend="loop")
    return found


def test_only_the_methods_asked_for_are_trained_and_the_table_shows_what_there_is(trained: Study) -> None:
    assert [row.key for row in trained.trained] == ["local", "fedavg"]
    assert {key[0] for key, cell in trained.cells.items() if cell.runs} == {"local", "fedavg"}
    everything = study("demo/digits", "smoke", store=trained.store)
    assert everything.frame.equals(trained.frame), "rows that nobody asked for are shown as far as they are there"
    other = study("demo/digits", "smoke", store=trained.store, methods=["fedrep"])
    assert other.cells["fedavg", "practical/digits"].runs and not other.cells["fedrep", "practical/digits"].runs
    assert {entry.row: entry.state for entry in other.plan()} == {"FedRep": "to run"}


def test_what_is_there_is_not_trained_again(trained: Study, monkeypatch) -> None:
    monkeypatch.setattr("pflrepro.papers.studies.train", lambda *_, **__: pytest.fail("something was trained"))
    planned = trained.run(progress=False)
    assert {entry.state for entry in planned} == {"done"} and len(planned) == 2


def test_what_is_measured_on_models_is_measured_with_the_training_and_a_bar_says_how_far(make, monkeypatch) -> None:
    bars = []

    class Bar(SimpleNamespace):
        def __init__(self, total: int, unit: str) -> None:
            super().__init__(total=total, unit=unit, n=0, initial=0, labels=[])
            bars.append(self)

        def set_description_str(self, text: str, refresh: bool) -> None:
            self.labels.append(text)

        def update(self, steps: int) -> None:
            self.n += steps

        set_postfix_str = refresh = close = lambda *_, **__: None

    monkeypatch.setattr("pflrepro.experiments.progress._bar", Bar)
    columns = (column("skewed", SKEWED, ACCURACY), column("all", SKEWED, grp_fed("T_r"), label="all"))
    asked = make("smoke", make_artefact(rows=(row("FedAvg"), row("Local")), columns=columns, claims=()))
    asked.run(workers=1, backend="loop")
    (bar,) = (bar for bar in bars if bar.unit == "cell")
    assert (bar.initial, bar.n, bar.total) == (1, 4, 4), "the accuracy of the first row is there with its training"
    assert bar.labels == [f"measuring predictions of {name}, seed 0" for name in ("fedavg", "local")]
    again = make("smoke", asked.artefact)
    assert again.cells["local", "all"].values.keys() == {0} and len([bar for bar in bars if bar.unit == "cell"]) == 1


def test_one_run_serves_two_columns_and_is_trained_where_the_launcher_trains(make) -> None:
    skewed, losses = (
        column(key, SKEWED, measure, label=key) for key, measure in (("skewed", ACCURACY), ("losses", TRAIN_LOSS))
    )
    scales = (Scale("fast", "few", rounds=2),)
    found = make("fast", make_artefact(columns=(skewed, losses), claims=(), scales=scales), methods=["fedavg"])
    assert [(entry.column, entry.seed) for entry in found.plan()] == [(SKEWED.label, 0)]
    seen = []

    def launcher(tasks, work, jobs):
        for task in tasks:
            seen.append(task)
            yield task, work(task)

    found.run(progress=False, workers=1, backend="loop", launcher=launcher)
    assert len(seen) == 1
    (run,), (same,) = (found.cells["fedavg", key].runs.values() for key in ("skewed", "losses"))
    assert run.id == same.id and set(found.store.states(run.id)) == {2}, "the models after the last round are kept"


def test_a_study_on_which_something_was_trained_forgets_what_it_saw(make) -> None:
    found = make("fast", methods=["fedavg"], seeds=1)
    assert found.verdict == "6 – not run"
    planned = found.run(progress=False, workers=1, backend="loop")
    assert found.cells["fedavg", "skewed"].rounds == 2 and found.anything_run
    assert planned and {entry.state for entry in planned} == {"done"}, "what is shown behind a run is what is true then"


def test_times_are_taken_in_halves_there_and_back_of_runs_that_no_other_table_shares(make, tmp_path: Path) -> None:
    scales = (Scale("fast", "few", rounds=4, every=1),)
    columns = (column("skewed", SKEWED, SECONDS), column("ratio", SKEWED, ratio_to("fedavg")))
    artefact = make_artefact(columns=columns, claims=(above("fedavg", "fedavg+dbe"),), scales=scales, timed=True)
    found, seen = make("fast", artefact, seeds=1), []

    def launcher(tasks, work, jobs):
        for task in tasks:
            seen.extend((each.algorithm, each.settings.rounds, each.seed) for each in task)
            yield task, work(task)

    found.run(progress=False, workers=1, backend="loop", launcher=launcher)
    there, back = [("fedavg", 2, 1000), ("fedavg+dbe", 2, 1000)], [("fedavg+dbe", 4, 1000), ("fedavg", 4, 1000)]
    assert seen == there + back
    ratio, seconds = (found.cells["fedavg+dbe", key].values[1000] for key in ("ratio", "skewed"))
    (own,) = found.cells["fedavg", "skewed"].runs.values()
    other = own.history["seconds"][[2, 4]].mean()  # without the first round of each half
    assert ratio.number == pytest.approx(seconds.number / other) and ratio.each == "tested rounds"
    assert ratio.clients == pytest.approx(seconds.clients / own.history["seconds"][[2, 4]]), "round by round, in pairs"
    assert np.average(ratio.clients, weights=ratio.weights) == pytest.approx(ratio.number)
    low, high, _ = found.cells["fedavg", "ratio"].interval()
    assert (low, high) == (1.0, 1.0), "to itself it is one, however the rounds differ"
    assert np.isnan(found.cells["fedavg", "skewed"].over_clients), "rounds are no clients"
    page = next(path for path in found.write(tmp_path) if path.suffix == ".md").read_text()
    assert "tests over tested rounds: they say nothing of another machine or hour" in page


# ---- own methods -----------------------------------------------------------------------------------------------------------------
def test_methods_of_ones_own_stand_in_a_block_of_their_own(make, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "my_methods_in_a_test.py").write_text(OWN_METHOD)
    monkeypatch.syspath_prepend(tmp_path)
    artefact = make_artefact(
        columns=(replace(make_artefact().columns[1], rows=("fedavg", "fedavg+dbe")),),
        claims=(above("fedavg+dbe", "fedavg"),),
        scales=(Scale("fast", "few", rounds=2),),
    )
    found = make("fast", artefact, also=["my_methods_in_a_test:Mine", "fedavg"], methods=["fedavg"])
    assert [row.key for row in found.trained] == ["fedavg", "my_methods_in_a_test:Mine", "own fedavg"]
    assert found.command.endswith("--methods fedavg --also my_methods_in_a_test:Mine --also fedavg")
    found.run(progress=False, workers=1, backend="loop")
    plain, mine, again = (found.cells[key, "skewed"] for key in ("fedavg", "my_methods_in_a_test:Mine", "own fedavg"))
    assert mine.ours == plain.ours == again.ours and mine.printed is None
    assert mine.runs[0].id != plain.runs[0].id == again.runs[0].id
    ((table, _),) = found.table().tables
    assert table.iloc[:, 0].tolist() == ["FedAvg", "FedAvg+DBE", "Nothing", "own methods", "Mine", "fedavg"]
    assert "".join(table.iloc[3, 1:]) == ""
    assert found.outcomes == [], "claims are the paper's rows'"
    asked = [(each.said, each.difference, each.outcome) for each in found.own_outcomes]
    assert asked == [("Mine > FedAvg", 0.0, "still rising"), ("fedavg > FedAvg", 0.0, "still rising")]
    page = next(path for path in found.write(tmp_path) if path.suffix == ".md").read_text()
    assert "## Own rows" in page and "| Mine > FedAvg |" in page and "corrected by Holm over these lines alone" in page
    assert [len(table) for table, _ in found.claims().tables] == [2]


@pytest.mark.parametrize("kind", [RunFailed, UserError])
def test_one_method_that_fails_does_not_keep_the_others_from_being_timed(kind, make, monkeypatch) -> None:
    columns = (column("skewed", SKEWED, SECONDS, label="skewed"),)
    artefact = make_artefact(columns=columns, claims=(), scales=(Scale("fast", "few", rounds=4),), timed=True)
    asked, found = [], make("fast", artefact)

    def train(part, **how) -> None:
        asked.append([each.settings.rounds for each in part])
        if len(asked) == 1:
            raise kind("fedavg: enough")

    monkeypatch.setattr("pflrepro.papers.studies.train", train)
    with pytest.raises(kind, match="enough"):
        found.run(progress=False)
    assert asked == [[2, 2], [4, 4]]
    with pytest.raises(UserError, match=r"demo/fake takes times, .* no launcher but serial"):
        found.run(progress=False, launcher="processes:2")


def test_rows_without_a_cell_in_the_columns_are_nothing_to_train(make) -> None:
    artefact = make_artefact(columns=(column("pairs", SKEWED, rows=("fedavg",)),), claims=())
    found = make("paper", artefact, methods=["fedavg+dbe"])
    with pytest.raises(UserError, match="nothing of demo/fake is in these rows and columns at scale paper"):
        found.run(progress=False)


def test_a_row_of_ones_own_has_a_name_of_its_own(make) -> None:
    columns = (column("ditto", SKEWED, label="a column"),)
    found = make("paper", make_artefact(columns=columns), also=["fedavg", "ditto"])
    assert found.also == ("own fedavg", "own ditto")
    assert [row.label for row in found.rows if row.key in found.also] == ["fedavg", "ditto"]
    paper = make_artefact(columns=columns, rows=(row("ditto", "fedavg"),), claims=())
    assert [row.label for row in make("paper", paper, also=["ditto"]).rows] == ["ditto", "ditto (own)"]


def test_a_row_of_ones_own_has_its_options(make) -> None:
    """Tuned ones, which are not the class's own defaults, so that the tuned runs are those of the table."""
    found = make("paper", make_artefact(), also=["fedprox mu=0.5", "fedprox"])
    assert found.also == ("fedprox mu=0.5", "fedprox")
    tuned, plain = (found.artefact.row(key) for key in found.also)
    assert (tuned.label, tuned.options, plain.options) == ("fedprox mu=0.5", (("mu", 0.5),), ())
    assert found.experiments(tuned, found.artefact.columns[0])[0].options == (("mu", 0.5),)
    assert found.command.endswith(" --also 'fedprox mu=0.5' --also fedprox")
    asked = make("paper", make_artefact(), also="fedprox mu=0.5", methods="fedprox mu=0.5")
    assert "--methods 'fedprox mu=0.5' --also" in asked.command
    with pytest.raises(UserError, match="also has 'fedprox' several times, which are one row"):
        make("paper", make_artefact(), also=["fedprox", "ditto", "fedprox"])
    for wrong, told in (
        ("fedprox nu=1", "unknown option of fedprox 'nu'; valid: mu"),
        ("fedprox mu=x", "option mu of fedprox"),
    ):
        with pytest.raises(UserError, match=told):
            make("paper", make_artefact(), also=[wrong])
