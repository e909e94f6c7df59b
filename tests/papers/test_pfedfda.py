"""pFedFDA's tables and figures as declared: every printed number found, claims true of print, the settings as the paper prints them."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.printed import number

from pflrepro import papers
from pflrepro.papers.claims import Grid, Sample, contrasts
from pflrepro.papers.measures import LOCAL_SECONDS, TOTAL_MINUTES, Evidence, Measure, Value, minutes_of
from pflrepro.papers.model_measures import newcomers
from pflrepro.papers.numbers import published
from pflrepro.papers.pfedfda_figures import betas_of
from pflrepro.papers.pfedfda_tables import arriving
from pflrepro.papers.relative_measures import gain_over, mean_over, overhead_over
from pflrepro.papers.settings import SCARCE_CIFAR10, SCARCE_CIFAR100, Setting
from pflrepro.papers.studies import Study

TABLES = [f"pfedfda/table{number}" for number in (1, 2, 3, 4, 5, 6, 7, 9)]
TRAINED = [*TABLES, "pfedfda/figure2", "pfedfda/figure4"]


# ---- what is printed -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("id", TABLES)
def test_every_printed_number_has_one_cell(at, id) -> None:
    """And what the file lists without a number, SB's and MB's overhead; not Local's gain over itself, which is no cell here."""
    lines = published(id.replace("/", "_"))
    lines = lines[(lines["method"] != "Local") | (lines["metric"] != "average_improvement_pp")]
    printed = [cell.printed for cell in at(id).cells.values() if cell.printed is not None]
    found = sorted(number.value for number in printed if not math.isnan(number.value))
    assert (len(printed), found) == (len(lines), sorted(lines["value"].dropna()))


def test_printed_numbers_are_in_the_unit_of_their_measure(at) -> None:
    none = math.nan
    assert number(at, "pfedfda/table1", "pfedfda", "cifar100-s/25") == (22.7, 7.0)
    assert number(at, "pfedfda/table1", "local", "cifar10-s/100") == (58.6, 12.0)
    assert number(at, "pfedfda/table2", "fedpac", "emnist") == (85.6, 9.0)
    assert number(at, "pfedfda/table2", "pfedme", "tinyimagenet/0.5") == (21.8, 4.0)
    assert number(at, "pfedfda/table3", "pfedfda", "cifar100") == (49.9, 16.0)
    assert number(at, "pfedfda/table4", "fedavg", "contrast") == (35.9, 10.0)
    assert number(at, "pfedfda/table4", "fedavg", "original") == (59.2, 7.0)
    assert number(at, "pfedfda/table5", "mb", "cifar100-25/0.5") == (27.5, 6.0)
    assert number(at, "pfedfda/table6", "fedpac", "minutes") == (146.3, none)
    assert number(at, "pfedfda/table7", "pfedfda", "25/gain") == (9.7, none)
    assert number(at, "pfedfda/table7", "fedavg", "gain") == (1.91, none)
    assert number(at, "pfedfda/table9", "pfedfda", "cifar100/estimation") == (2.861, 0.899)


@pytest.mark.parametrize("id", TABLES)
def test_the_claims_are_true_of_what_is_printed(at, id) -> None:
    study = at(id)
    values = {place: cell.published for place, cell in study.cells.items() if not math.isnan(cell.published)}
    samples = {place: Sample({0: value}, {}) for place, value in values.items()}
    artefact = study.artefact
    lower = frozenset(place for place, cell in study.cells.items() if cell.measure.better == "lower")
    labels = {each.key: each.label for each in (*artefact.rows, *artefact.columns)}
    grid = Grid(artefact.row_keys, artefact.column_keys, samples, lower, labels)
    for claim in artefact.claims:
        assert claim.source.startswith("pFedFDA ")
        found = contrasts(claim, grid)
        broken = [each for each, _ in found if sum(weight * values[place] for place, weight in each.weights) < -1e-9]
        assert found, claim
        if claim.form == "top":  # among the best k: in each column at most k - 1 are better
            k = int(dict(claim.more)["k"])
            assert all(sum(each.column == column for each in broken) < k for column in artefact.column_keys), claim
        else:
            assert not broken, claim


# ---- what is trained -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("id", TRAINED)
@pytest.mark.parametrize("scale", ["smoke", "fast", "paper"])
def test_every_cell_of_a_scale_can_be_declared(at, id, scale) -> None:
    study = at(id, scale)
    cells = [(row, column) for row in study.trained for column in study.columns if column.has(row)]
    assert cells and all(len(study.experiments(*cell)) == study.seeds for cell in cells)


def test_the_protocol_is_the_papers(at) -> None:
    study = at("pfedfda/table2")
    (run,) = study.experiments(study.artefact.row("pfedfda"), study.artefact.column("cifar100/0.1"))
    settings, data = run.settings, run.data
    assert (settings.rounds, settings.local_epochs, settings.batch_size) == (200, 5, 50)
    assert (settings.lr, settings.momentum, settings.weight_decay) == (0.01, 0.5, 5e-4)
    assert (settings.participation, settings.sampling, settings.closing, settings.patience) == (0.3, "coins", True, 0)
    assert (data.clients, data.partition, data.test_share) == (100, "pfedfda-dirichlet:0.1", 0.2)
    assert run.model == "fedpac-cnn5"
    (writers,) = study.experiments(study.artefact.row("fedavg"), study.artefact.column("emnist"))
    assert (writers.data.clients, writers.data.partition, writers.model) == (
        1000,
        "group:2+first-of=all",
        "fedpac-cnn4",
    )
    assert (writers.settings.participation, writers.settings.batch_size) == (0.03, 16)
    (tiny,) = study.experiments(study.artefact.row("fedavg"), study.artefact.column("tinyimagenet/0.5"))
    assert (tiny.data.dataset, tiny.model) == ("tiny-imagenet-110k", "pfedfda-resnet18")


def test_partitions_and_epochs_of_the_other_tables(at) -> None:
    def data(id: str, column: str, row: str = "pfedfda", scale: str = "paper") -> tuple[str, str, int]:
        study = at(id, scale)
        run = study.experiments(study.artefact.row(row), study.artefact.column(column))[0]
        return run.data.dataset, run.data.partition, run.data.clients

    assert data("pfedfda/table1", "cifar10-s/75") == ("cifar10-s", "pfedfda-dirichlet:0.5+train-share=0.75", 100)
    assert data("pfedfda/table1", "cifar100-s/100") == ("cifar100-s", "pfedfda-dirichlet:0.5", 100)
    assert data("pfedfda/table3", "cifar10") == ("cifar10", "fixed-size:0.1,63", 100)
    assert data("pfedfda/table3", "cifar10", scale="fast") == ("cifar10-half", "fixed-size:0.1,63", 100)
    assert data("pfedfda/table4", "fog") == ("cifar10", "pfedfda-dirichlet:0.5+first-of=100", 50)
    assert data("pfedfda/table5", "cifar100-s/0.1", "mb") == ("cifar100-s", "pfedfda-dirichlet:0.1", 100)
    assert data("pfedfda/table7", "50") == ("digit5", "group-dirichlet:0.5+train-share=0.5", 20)
    assert data("pfedfda/table7", "50", scale="fast") == ("digit3", "group-dirichlet:0.5+train-share=0.5", 12)
    study = at("pfedfda/table7")
    (run,) = study.experiments(study.artefact.row("local"), study.artefact.column("100"))
    assert (run.settings.participation, run.settings.sampling) == (1.0, "number")
    study = at("pfedfda/figure4")
    epochs = [
        study.experiments(study.artefact.row(f"pfedfda-{each}"), study.artefact.column("cifar100"))[0]
        for each in (1, 20)
    ]
    assert [each.settings.local_epochs for each in epochs] == [1, 20]


SCARCE_OPTIONS = {
    "fedavgft": {"tune_when": "end"},
    "ditto": {"proximal": 0.1, "personal_epochs": 5},
    "pfedfda": {},
    "fedpac": {"alignment": 1.0},
    "apfl": {"alpha": 0.25},
    "fedbabu": {"tune_parts": "head", "tune_epochs": 5, "tune_when": "end"},
    "fedrod": {},
    "pfedme": {"personal_rate": 0.01},
}


@pytest.mark.parametrize("scale", ["fast", "paper"])
def test_table_3_is_trained_with_the_settings_of_its_methods(at, scale) -> None:
    study = at("pfedfda/table3", scale)
    half = SCARCE_CIFAR10.with_(dataset="cifar10-half")
    settings: dict[str, Setting] = {
        "cifar10": SCARCE_CIFAR10 if scale == "paper" else half,
        "cifar100": SCARCE_CIFAR100,
    }
    assert {row.key for row in study.trained} == set(SCARCE_OPTIONS)
    for key, setting in settings.items():
        for row in study.trained:
            wanted = setting.experiment(row.algorithm, SCARCE_OPTIONS[row.key], 0, every=20)
            seeds = range(6 if scale == "fast" else 1)
            assert study.experiments(row, study.artefact.column(key)) == [wanted.changed(seed=seed) for seed in seeds]
    fidelities = [study.scale.fidelity(study.artefact.column(key)) for key in settings]
    assert fidelities == (["same", "same"] if scale == "paper" else ["instead", "same"])


def test_methods_that_the_text_fixes(at) -> None:
    rows = {row.key: dict(row.options) for row in at("pfedfda/table1").artefact.rows}
    assert rows["fedrep"] == {"head_epochs": 5}
    assert {key: rows[key] for key in SCARCE_OPTIONS if key != "fedavgft"} == {
        key: options for key, options in SCARCE_OPTIONS.items() if key != "fedavgft"
    }
    ablated = {row.key: dict(row.options) for row in at("pfedfda/table5").artefact.rows}
    assert ablated == {"nb": {"coefficients": "none"}, "sb": {}, "mb": {"coefficients": "separate"}}


def test_what_shares_a_training(at) -> None:
    """FedAvgFT is measured on FedAvg's run; Figure 2, Table 5 and Figure 4 take up what Tables 1 and 2 train."""

    def run(id: str, row: str, column: str, scale: str = "paper"):
        study = at(id, scale)
        return study.experiments(study.artefact.row(row), study.artefact.column(column))[0]

    for id in ("pfedfda/table1", "pfedfda/table2"):
        column = at(id).artefact.column_keys[-1]
        assert run(id, "fedavgft", column) == run(id, "fedavg", column)
    quarter = run("pfedfda/table1", "pfedfda", "cifar100-s/25")
    assert run("pfedfda/table1", "pfedfda", "cifar100-s/25", "fast") == quarter
    assert run("pfedfda/figure2", "clean", "cifar100-s", "fast") == quarter
    assert run("pfedfda/figure4", "pfedfda-5", "cifar100-s/25") == quarter
    assert run("pfedfda/table5", "sb", "cifar100-25/0.5") == run("pfedfda/table2", "pfedfda", "cifar100/0.5", "fast")


# ---- measures of these tables ----------------------------------------------------------------------------------------------------
def evidence(number: float, beside=None) -> Evidence:
    found = Evidence(None, None, beside=beside or (lambda row="", column="": None))
    object.__setattr__(found, "number", number)
    return found


NUMBER = Measure("number", "a number", lambda found: Value(found.number))


def test_the_mean_over_columns_needs_all_of_them() -> None:
    """Gains over `low`: 7 - 5 = 2 in column a, 9 - 3 = 6 in b, their mean 4."""
    numbers = {("own", "a"): 7.0, ("low", "a"): 5.0, ("own", "b"): 9.0, ("low", "b"): 3.0}

    def there(row: str, column: str) -> Evidence | None:
        def beside(row: str = row, column: str = column) -> Evidence | None:
            return there(row, column)

        return evidence(numbers[row, column], beside) if (row, column) in numbers else None

    gain = gain_over("low", NUMBER)
    assert mean_over(("a", "b"), gain).of(there("own", "b")).number == 4.0
    assert math.isnan(mean_over(("a", "b", "c"), gain).of(there("own", "b")).number)


def test_overhead_in_percent_of_another_row(monkeypatch) -> None:
    monkeypatch.setattr("pflrepro.papers.relative_measures.LOCAL_SECONDS", NUMBER)
    other = evidence(4.0)
    assert overhead_over("nb").of(evidence(5.0, lambda row="", column="": other)).number == 25.0
    assert math.isnan(overhead_over("nb").of(evidence(5.0)).number)
    assert overhead_over("nb").bounds == (-100.0, math.inf), "what takes less time has less than none"


def test_seconds_of_the_clients_alone_and_minutes_of_200_rounds() -> None:
    """Tested after rounds 1, 3 and 4; the first warms up: (12 - 2) s in 2 rounds and (8 - 1) s in one, server apart."""
    history = {
        "round": np.array([0, 1, 3, 4]),
        "seconds": np.array([0.0, 99.0, 12.0, 8.0]),
        "seconds_aggregation": np.array([0.0, 9.0, 2.0, 1.0]),
        "seconds_evaluation": np.full(4, 50.0),
        "correct": np.array([[1], [2], [3], [4]]),
        "test_samples": np.array([10]),
    }
    found = LOCAL_SECONDS.of(of_history(history))
    assert (found.number, found.each) == (pytest.approx(17 / 3), "tested rounds")
    assert (found.clients.tolist(), found.weights.tolist()) == ([5.0, 7.0], [2.0, 1.0])
    assert minutes_of(200).of(of_history(history)).number == pytest.approx(200 * 20 / 3 / 60)
    assert TOTAL_MINUTES.of(of_history(history)).number == pytest.approx(4 * 20 / 3 / 60), (
        "to the best round, tests apart"
    )
    short = LOCAL_SECONDS.of(of_history({name: each[:2] if each.size > 1 else each for name, each in history.items()}))
    assert (short.number, short.clients.tolist()) == (90.0, [90.0])
    twice = {"round": np.arange(5), "seconds": np.array([0.0, 9, 1, 8, 3]), "seconds_aggregation": np.zeros(5)}
    assert LOCAL_SECONDS.of(of_history(twice)).clients.tolist() == [1.0, 3.0], "each half warms up"


def test_a_time_does_not_wait_for_the_curve_to_settle(at, monkeypatch) -> None:
    """Eight rounds, the last the best: an accuracy still rises, seconds a round are what they are."""
    rounds = np.arange(9)
    history = {"round": rounds, "seconds": rounds, "seconds_aggregation": 0 * rounds, "seconds_evaluation": rounds}
    history |= {"correct": rounds[:, None], "test_samples": np.array([10])}
    settings = SimpleNamespace(rounds=8)
    run = SimpleNamespace(
        history=history,
        rounds=8,
        round_of=lambda moment: 8,
        experiment=SimpleNamespace(seed=0, settings=settings, data=SimpleNamespace(dataset="cifar100")),
        diverged=None,
    )
    monkeypatch.setattr(Study, "runs", lambda study, row, column: ({0: run}, ""))
    accuracy, times = at("pfedfda/table3", "fast").cells, at("pfedfda/table6", "fast").cells
    assert accuracy["ditto", "cifar100"].rising
    assert not any(cell.rising for cell in times.values())


def of_history(history) -> Evidence:
    return Evidence(SimpleNamespace(history=history), None)


def test_gains_stand_beside_a_row_that_has_no_cell_of_its_own(tmp_path) -> None:
    study = Study("pfedfda/table7", "smoke", methods=["local", "fedavg"], store=tmp_path)
    study.run(progress=False, backend="loop", workers=1)
    ours = {place: cell.ours for place, cell in study.cells.items()}
    gain = ours["fedavg", "25"] - ours["local", "25"]
    assert [ours["fedavg", key] for key in ("25/gain", "gain")] == pytest.approx([gain, gain])
    assert ("local", "25/gain") not in ours and math.isnan(ours["ditto", "25/gain"])
    shown, _ = study.tables()[0]
    spread = study.cells["fedavg", "25"].values[0].clients.std(ddof=1)
    assert f"± {spread:.2f}" in shown.iloc[1, 2]  # over clients, as the paper's


def test_new_clients_are_met_in_the_way_of_their_method(tmp_path) -> None:
    """FedBABU and FedPAC by the better of two fine-tunings; the others, FedAvgFT and pFedFDA among them, as they come."""
    study = Study("pfedfda/table4", "smoke", methods=["fedavg", "fedpac"], store=tmp_path)
    study.run(progress=False, backend="loop", workers=1)
    (plain,), (tuned,) = study.evidence("fedavg", "new"), study.evidence("fedpac", "new")
    assert arriving().of(plain).number == newcomers("own", 0).of(plain).number
    tried = [newcomers("plain", 5, part).of(tuned).number for part in ("head", "all")]
    assert arriving().of(tuned).number == max(tried) > newcomers("own", 0).of(tuned).number


def test_coefficients_of_clean_and_of_corrupted_clients(monkeypatch) -> None:
    values = Value(0.5, np.array([0.9, 0.7, 0.1, 0.3]), np.ones(4))
    monkeypatch.setattr(
        "pflrepro.papers.pfedfda_figures.by_corruption", lambda data: ["fog", "frost", "clean", "clean"]
    )
    monkeypatch.setattr("pflrepro.papers.pfedfda_figures.BETAS", Measure("betas", "betas", lambda found: values))
    found = Evidence(SimpleNamespace(experiment=SimpleNamespace(data=None)), None)
    clean, corrupted = betas_of("clean").of(found), betas_of("corrupted").of(found)
    assert (clean.number, corrupted.number) == pytest.approx((0.2, 0.8))
    assert clean.clients.tolist() == [0.1, 0.3] and corrupted.weights.tolist() == [1.0, 1.0]


def test_all_of_the_paper_is_registered() -> None:
    known = [artefact.id for artefact in papers.select("pfedfda")]
    assert set(TRAINED) <= set(known)
