"""FedBR's tables and figures: published numbers, claims, options and settings as paper and code say."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.printed import claimed, experiment

from pflrepro.data.sets.types import DatasetSpec
from pflrepro.papers.claims import Grid, Sample, above
from pflrepro.papers.judging import judge
from pflrepro.papers.measures import ACCURACY, Evidence, Measure, Value, accuracy_by
from pflrepro.papers.numbers import published
from pflrepro.papers.registry import select
from pflrepro.papers.relative_measures import accuracy_in_time_of
from pflrepro.papers.settings import PROXIES
from pflrepro.settings import Settings

TABLES = [f"fedbr/table{number}" for number in range(1, 7)]
TRAINED = [artefact.id for artefact in select("fedbr") if artefact.trains]


# ---- what is printed -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("id", TABLES)
def test_every_printed_number_has_one_cell(at, id) -> None:
    lines = published(id.replace("/", "_"))
    printed = [cell.printed for cell in at(id).cells.values()]
    assert None not in printed and len(printed) == len(lines)
    found = sorted(number.value for number in printed if not math.isnan(number.value))
    assert found == sorted(lines["value"].dropna())


def test_printed_numbers_stand_in_their_cells(at) -> None:
    for id, row, column, value in (
        ("table1", "moon", "cifar10", 58.23),
        ("table1", "fedavg+mixup+fedbr", "cifar100/rounds", 294),
        ("table2", "vhl-20000", "cifar10/rounds", 998),
        ("table2", "fedbr-once", "cifar100", 47.67),
        ("table3", "feddecorr", "cifar10/with FedBR", 62.70),
        ("table3", "fedcm", "cifar100/without FedBR", 46.15),
        ("table4", "no-max-step", "mnist", 81.24),
        ("table4", "min-step", "cifar100/rounds", 358),
        ("table5", "vhl", "cifar10", 40.93),
        ("table6", "vhl", "local", 32.81),
        ("table6", "fedbr-once", "aggregated", 47.67),
    ):
        assert at(f"fedbr/{id}").cells[row, column].published == value
    never = at("fedbr/table1").cells["dann", "cifar100/rounds"].printed
    assert math.isnan(never.value) and "not reached" in never.note


def test_table_7_s_seconds_are_printed_as_multiples_of_fedavg_s(at) -> None:
    """0.60 s against 0.29, and 1.97 against 0.67; what it prints besides are parameters."""
    cells = at("fedbr/table7-times").cells
    assert cells["fedbr-once", "cifar10"].published == pytest.approx(0.60 / 0.29)
    assert cells["moon", "cifar100"].published == pytest.approx(1.97 / 0.67)
    assert cells["fedavg", "cifar10"].published == cells["fedavg", "cifar100"].published == 1.0
    lines = published("fedbr_table7")
    assert len(cells) == (lines["metric"] == "mean_simulation_time_s").sum() == 10


@pytest.mark.parametrize("id", [*TABLES, "fedbr/table7-times"])
def test_the_claims_are_true_of_what_is_printed(at, id) -> None:
    found = claimed(at(id))
    assert found and [contrast.said for contrast, size in found if size <= 0] == []


@pytest.mark.parametrize("id", TRAINED)
def test_every_claim_names_its_section_or_number(at, id) -> None:
    claims = at(id).artefact.claims
    assert claims and all(each.source.startswith("FedBR ") for each in claims)


# ---- what is trained -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("id", TRAINED)
@pytest.mark.parametrize("scale", ["smoke", "fast", "paper"])
def test_every_cell_of_a_scale_can_be_declared(at, id, scale) -> None:
    study = at(id, scale)
    cells = [(row, column) for row in study.trained for column in study.columns if study.has(row, column)]
    assert cells and all(len(study.experiments(*cell)) == study.seeds for cell in cells)
    artefact = study.artefact
    assert study.seeds == artefact.trials or scale != "paper" or id in ("fedbr/figure2", "fedbr/figure3")


@pytest.mark.parametrize(
    ("column", "dataset", "partition", "numbers"),
    [
        ("mnist", "rotated-mnist", "lda:0.1", (10, 64, 0.001, 0.0, 1000)),
        ("cifar10", "rotated-cifar10", "lda:0.1", (10, 32, 0.01, 0.0, 1000)),
        ("cifar100", "augmented-cifar100", "lda-flat:0.1", (10, 32, 0.01, 0.9, 800)),
    ],
)
def test_the_settings_are_those_of_the_paper(at, column, dataset, partition, numbers) -> None:
    """Section 5.1 and appendix A: clients, batch, rate, momentum, rounds; 50 steps a round, plain averages."""
    found = experiment(at("fedbr/table1"), "fedavg", column)
    run, data = found.settings, found.data
    assert (data.clients, run.batch_size, run.lr, run.momentum, run.rounds) == numbers
    assert (data.dataset, data.partition, data.test_share) == (dataset, partition, 0.2)
    assert (run.local_steps, run.weights, run.participation, run.every) == (50, "uniform", 1.0, 1)
    networks = {"mnist": "domainbed-cnn", "cifar10": "vgg11", "cifar100": "cct-7-3x1"}
    assert found.model == networks[column]


def test_a_hundred_clients_of_which_ten_take_part(at) -> None:
    found = experiment(at("fedbr/table5"), "fedbr", "cifar10")
    assert (found.data.clients, found.settings.participation, found.settings.rounds) == (100, 0.1, 1000)


def test_fedbr_is_the_paper_s_with_the_code_s_first_round(at) -> None:
    """lambda 0.1 on CIFAR10 and 1 elsewhere, mu 0.5, tau 2, new pseudo-data every round [BR]; the first round of one step [BR-code]."""
    study = at("fedbr/table1")
    for column, weight in (("mnist", 1.0), ("cifar10", 0.1), ("cifar100", 1.0)):
        for row in ("fedbr", "fedavg+mixup+fedbr"):
            method = experiment(study, row, column).method()
            assert (method.pseudo_weight, method.contrast_weight, method.tau_1, method.tau_2) == (weight, 0.5, 2.0, 2.0)
            assert (method.pseudo, method.pseudo_refresh) == ("rsm", "round")
            protocol = experiment(study, row, column).settings
            assert (protocol.first_steps, protocol.first_weights) == (1, "slots"), "of all methods [BR-code]"
    for id, column in (("table2", "cifar10"), ("table6", "local")):
        assert experiment(at(f"fedbr/{id}"), "fedbr-once", column).method().pseudo_refresh == "once"


def test_the_components_of_table_4(at) -> None:
    study = at("fedbr/table4")
    for row, weights, max_step in (
        ("component-1", (0.1, 0.0), True),
        ("min-step", (0.1, 0.5), False),
        ("component-2", (0.0, 0.5), True),
        ("no-max-step", (0.0, 0.5), False),
        ("fedbr", (0.1, 0.5), True),
    ):
        method = experiment(study, row, "cifar10").method()
        assert (method.pseudo_weight, method.contrast_weight, method.max_step) == (*weights, max_step), row
    assert experiment(study, "component-1", "mnist").method().pseudo_weight == 1.0


def test_the_baselines_are_those_of_the_released_code(at) -> None:
    study = at("fedbr/table1")
    wanted = {
        "fedprox": {"mu": 0.1},
        "moon": {"mu": 0.01, "tau": 0.5},
        "dann": {"weight": 0.01, "hidden": 256},
        "groupdro": {"weight_step": 0.01},
        "fedmix": {"mixing": 0.1, "samples": 10},
        "fedavg+mixup": {"mixup_beta": 0.2},
    }
    for row, options in wanted.items():
        method = experiment(study, row, "cifar10").method()
        assert {name: getattr(method, name) for name in options} == options
    variants = {"moon": "", "dann": "", "groupdro": "+mixup", "fedmix": ""}
    assert all(experiment(study, row, "cifar10").algorithm == f"{row}/fedbr{more}" for row, more in variants.items())
    vhl = experiment(at("fedbr/table2"), "vhl", "cifar10").method()
    assert (vhl.virtual_samples, vhl.virtual_batch, vhl.virtual_weight) == (2000, 32, 1.0)
    assert vhl.align_epochs == 0
    assert experiment(at("fedbr/table2"), "vhl-20000", "cifar10").method().virtual_samples == 20_000
    hosts = at("fedbr/table3")
    assert experiment(hosts, "fedntd", "cifar10/without FedBR").method().ntd_beta == 1.0
    assert experiment(hosts, "feddecorr", "cifar10/without FedBR").method().decorrelation == 0.1
    assert experiment(hosts, "fedcm", "cifar10/without FedBR").method().alpha == 0.1


def test_columns_with_mixup_or_fedbr_combine_every_method(at) -> None:
    def algorithms(id: str, column: str) -> list[str]:
        study = at(id)
        return [experiment(study, row.key, column).algorithm for row in study.rows]

    hosts = ["fedavg", "fedcm/fedbr+mixup", "feddecorr", "fedntd"]  # FedCM's released code always mixes
    assert algorithms("fedbr/table3", "cifar10/without FedBR") == hosts
    assert algorithms("fedbr/table3", "cifar10/with FedBR") == [f"{host}+fedbr" for host in hosts]
    mixed = ["fedavg+mixup", "fedcm/fedbr+mixup", "feddecorr+mixup", "fedntd+mixup"]
    assert algorithms("fedbr/table3", "cifar100/without FedBR") == mixed
    assert algorithms("fedbr/table3", "cifar100/with FedBR") == [f"{host}+fedbr" for host in mixed]
    assert algorithms("fedbr/table4", "cifar100") == ["fedavg+mixup", *["fedavg+mixup+fedbr"] * 5]
    assert algorithms("fedbr/table2", "cifar100")[0] == algorithms("fedbr/table6", "local")[2] == "vhl/fedbr+mixup"


def test_mixtures_are_of_the_other_cifar_and_made_once(at) -> None:
    study = at("fedbr/table3")
    for data, proxy, weight in (("cifar10", "proxy-cifar100", 0.1), ("cifar100", "proxy-cifar10", 1.0)):
        found = experiment(study, "fedntd", f"{data}/with FedBR")
        method = found.method()
        assert (found.data.proxy, method.pseudo, method.pseudo_refresh) == (proxy, "mixture", "once")
        assert (method.mixed_samples, method.pseudo_weight) == (1, weight)
        assert experiment(study, "fedntd", f"{data}/without FedBR").data.proxy == ""
    small = experiment(at("fedbr/figure6", "fast"), "mixture-0", "cifar10")
    assert (small.data.dataset, small.data.proxy) == ("rotated-cifar10-half", "proxy-cifar100")
    assert small.method().pseudo_weight == 0.1
    from pflrepro.data.datasets import DATASETS

    pairs: list[tuple[DatasetSpec, DatasetSpec]] = [(DATASETS[one], DATASETS[other]) for one, other in PROXIES.items()]
    assert all(one.shape == other.shape for one, other in pairs)


def test_figure_6_has_what_each_panel_compares(at) -> None:
    study = at("fedbr/figure6")
    assert len(study.cells) == 8 + 2 + 5
    layer = experiment(study, "fedavg-layer", "cifar10")
    assert (layer.algorithm, layer.method().mu) == ("moon/fedbr", 0.0)
    assert experiment(study, "fedbr-layer", "cifar10").algorithm == "moon/fedbr+fedbr"
    assert experiment(study, "balanced", "cifar10").method().pseudo_balanced
    assert experiment(study, "mixture-0", "cifar10").method().mixed_samples == 0
    mixed = experiment(study, "mixture-0", "cifar100")
    assert mixed.method().mixed_samples == 0 and "+mixup" in mixed.algorithm


def test_fast_shares_its_runs_between_artefacts(at) -> None:
    """FedAvg's run of Table 1 serves five artefacts, however long each of them asks for it; times are of runs of their own."""
    kept = [
        experiment(at(f"fedbr/{id}", "fast"), "fedavg", column).changed(settings=Settings())
        for id, column in (
            ("table1", "cifar10"),
            ("table3", "cifar10/without FedBR"),
            ("table4", "cifar10/rounds"),
            ("figure5", "cifar10"),
            ("figure6", "cifar10"),
        )
    ]
    assert len(set(kept)) == 1
    for timed in ("table7-times", "figure7"):
        assert experiment(at(f"fedbr/{timed}", "fast"), "fedavg", "cifar10").changed(settings=Settings()) not in kept


@pytest.mark.parametrize("scale", ["fast", "paper"])
def test_figure_7_shows_the_runs_of_table_7(at, scale: str) -> None:
    """Its axis is time: no run that another artefact made beside others may answer for it, those that Table 7 timed do.

    In full, with rounds and tests: a history that is tested more seldom would take the other's place in the store.
    """
    figure, table = at("fedbr/figure7", scale), at("fedbr/table7-times", scale)
    assert figure.artefact.row_keys == table.artefact.row_keys
    assert figure.columns and [column.key for column in figure.columns] == [column.key for column in table.columns]
    for row in figure.artefact.row_keys:
        for column in figure.columns:
            assert experiment(figure, row, column.key) == experiment(table, row, column.key)


# ---- what is measured ------------------------------------------------------------------------------------------------------------
def test_accuracy_in_the_time_that_another_row_takes() -> None:
    """Ten percent a test, one second each against 0.75: within three seconds are the tests 0 to 3, the mean of all four is 15."""

    def evidence(curve: list[int], seconds: float) -> SimpleNamespace:
        history = {
            "correct": np.array(curve)[:, None],
            "test_samples": np.array([100]),
            "seconds": np.array([0.0] + [seconds] * (len(curve) - 1)),
        }
        return SimpleNamespace(history=history)

    fast, slow = evidence([0, 10, 20, 30, 40], 0.75), evidence([0, 10, 20, 30, 40], 1.0)
    measure = accuracy_in_time_of("fedavg")

    def of(one: SimpleNamespace, other: SimpleNamespace | None) -> Value:
        return measure.of(Evidence(one, store=None, beside=lambda row: other))

    assert of(slow, fast).number == pytest.approx(15.0)
    assert of(fast, fast).number == pytest.approx(20.0)
    assert math.isnan(of(slow, None).number)
    # its own last test lies within its own time, whatever the order of the sum: 60 tests of 0.1 s and more
    uneven = evidence(list(range(61)), 0.1)
    uneven.history["seconds"] = np.random.default_rng(1).uniform(0.1, 0.2, 61)
    assert np.cumsum(uneven.history["seconds"])[-1] > uneven.history["seconds"].sum()
    assert of(uneven, uneven).number == pytest.approx(58.0)


def _tested(dataset: str, correct: list[int], after: list[int] | None = None, measure: Measure = ACCURACY) -> Value:
    """Of a run with two tests, the second one better."""
    history = {
        "round": np.array([0, 1]),
        "correct": np.array([[0] * len(correct), correct]),
        "correct_after": np.array([[-1] * len(correct), after or correct]),
        "test_samples": np.full(len(correct), 100),
    }
    experiment = SimpleNamespace(data=SimpleNamespace(dataset=dataset))
    return measure.of(Evidence(SimpleNamespace(history=history, experiment=experiment), store=None))


def test_turns_of_one_test_set_are_no_sample_of_clients() -> None:
    """Of rotated pictures all clients have the same test images, turned, of augmented ones the same, and of others each its own."""
    correct = [*range(10, 20), *range(30, 40)]
    turned = _tested("rotated-mnist", correct)
    assert (turned.number, turned.each, turned.sampled) == (24.5, "turns of one test set", False)
    assert _tested("augmented-cifar100", [26, 24]).sampled  # of two models
    assert not _tested("augmented-cifar100", [26] * 6).sampled
    assert _tested("cifar100", correct).sampled
    after = _tested("rotated-mnist", correct, measure=accuracy_by("last_round", after=True))
    assert after.sampled and after.each == "clients"  # of as many models


def test_one_seed_on_turns_of_one_test_set_decides_nothing() -> None:
    """Each of ten turns a point better: sign flips over them would give p = 0.002."""
    values = {"a": _tested("rotated-mnist", [*range(21, 31)]), "b": _tested("rotated-mnist", [*range(20, 30)])}
    places = {
        (row, "c"): Sample({0: found.number}, {0: (found.clients, found.weights)}, each=found.each)
        for row, found in values.items()
    }
    grid = Grid(("a", "b"), ("c",), places, frozenset(), {"a": "A", "b": "B", "c": "C"})
    (found,) = judge([above("a", "b")], grid)
    assert (found.outcome, found.difference) == ("undecided", 1.0) and math.isnan(found.p)
    assert found.test == "none: one seed, and turns of one test set"


def test_a_claim_is_not_decided_by_one_test_set_counted_ten_times() -> None:
    places = {
        (row, "c"): Sample({0: found.number}, {0: (found.clients, found.weights)})
        for row, found in (
            ("a", _tested("augmented-cifar100", [27] * 10)),
            ("b", _tested("augmented-cifar100", [26] * 10)),
        )
    }
    grid = Grid(("a", "b"), ("c",), places, frozenset(), {"a": "A", "b": "B", "c": "C"})
    (found,) = judge([above("a", "b")], grid)
    assert (found.outcome, found.difference) == ("undecided", 1.0) and math.isnan(found.p)
    assert found.test == "none: one seed, and one number for all clients"
