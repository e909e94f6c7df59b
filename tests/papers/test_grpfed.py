"""GRP-FED's table and figures as declared: every printed number found, claims true of print, the settings as the paper prints them."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.printed import claimed, experiment, number

from pflrepro.algorithms import build_method
from pflrepro.metrics.predictions import Predictions, predict
from pflrepro.papers import grpfed
from pflrepro.papers.numbers import published
from pflrepro.papers.registry import select
from pflrepro.simulation import Simulation
from pflrepro.simulation.cost import generated

TRAINED = [artefact.id for artefact in select("grpfed")]
PRINTED = {"grpfed/table1": "grpfed_table1", "grpfed/figure5": "grpfed_fig5_tables"}


@pytest.mark.parametrize("id", PRINTED)
def test_every_printed_number_has_one_cell_in_percent(at, id) -> None:
    lines, cells = published(PRINTED[id]), at(id).cells.values()
    assert len(cells) == len(lines)
    assert sorted(cell.published for cell in cells) == pytest.approx(sorted(100 * lines["value"]))


def test_printed_numbers_stand_in_their_cells(at) -> None:
    assert number(at, "grpfed/table1", "grp-fed", "mitbih/T_l") == (55.3, 1.1)
    assert number(at, "grpfed/table1", "lg-fedavg", "cifar10/T_p") == (67.6, 1.7)
    assert number(at, "grpfed/table1", "q-ffl", "mitbih/T_r") == (55.1, 0.1)
    assert number(at, "grpfed/figure5", "lg-fedavg", "farthest/T_l") == (17.8, math.nan)
    assert number(at, "grpfed/figure5", "per-fedavg", "nearest/T_g") == (99.0, math.nan)
    assert number(at, "grpfed/figure5", "grp-fed", "nearest/T_p") == (99.8, math.nan)


@pytest.mark.parametrize("id", PRINTED)
def test_the_claims_are_true_of_what_is_printed(at, id) -> None:
    found = claimed(at(id))
    assert found and [contrast.said for contrast, size in found if size <= 0] == []


@pytest.mark.parametrize("id", TRAINED)
@pytest.mark.parametrize("scale", ["smoke", "fast", "paper"])
def test_every_cell_of_a_scale_can_be_declared(at, id, scale) -> None:
    study = at(id, scale)
    cells = [(row, column) for row in study.trained for column in study.columns]
    assert cells and all(len(study.experiments(*cell)) == study.seeds for cell in cells)


def test_the_settings_are_those_of_the_paper(at) -> None:
    """Section 4.1: 5 epochs, batch 64, SGD with rate 0.005 and momentum 0.9; the rest is [?]."""
    for column, clients, partition, model in (
        ("mitbih/T_g", 46, "group+stratified", "ecg-resnet"),
        ("cifar10/T_g", 50, "long-tail:0.7,0.5+stratified", "resnet30"),
    ):
        found = experiment(at("grpfed/table1"), "fedavg", column)
        run = found.settings
        assert (run.local_epochs, run.batch_size, run.lr, run.momentum) == (5, 64, 0.005, 0.9)
        assert (run.rounds, run.participation, found.data.test_share) == (200, 0.2, 0.2)
        assert (found.data.clients, found.data.partition, found.model) == (clients, partition, model)


def test_fedavg_has_a_global_model_to_be_tested(at) -> None:
    """T_g and Figure 1 are of one model, which there is none of where clients keep the statistics of their norm layers."""
    settings = experiment(at("grpfed/figure1"), "fedavg", "T_g").settings
    for statistics, there in ((settings.statistics, True), ("personal", False)):
        short = replace(settings, rounds=1, batch_size=8, local_epochs=1, participation=1.0, statistics=statistics)
        simulation = Simulation(build_method("fedavg"), generated((64,), 2, 12), "ecg-resnet", short, [0], workers=1)
        assert (predict(simulation).global_scores is not None) == there


def test_the_methods_of_the_paper(at) -> None:
    study = at("grpfed/table1")
    method = experiment(study, "grp-fed", "mitbih/T_g").method()
    assert (method.beta, method.q0, method.q_step) == (0.5, 10.0, 0.5)
    assert experiment(study, "q-ffl", "mitbih/T_g").method().q == 10.0
    swept = at("grpfed/figure4")
    assert [experiment(swept, row.key, "T_l").method().beta for row in swept.rows] == [0, 0.1, 0.3, 0.5, 0.7, 0.9, 1]


def test_one_run_serves_all_scores_and_figures(at) -> None:
    """Four scores of Table 1, six of Figure 5, and the middle of Figure 4's sweep are of one training."""
    found = {
        experiment(at("grpfed/table1", "fast"), "grp-fed", "mitbih/T_g"),
        experiment(at("grpfed/table1", "fast"), "grp-fed", "mitbih/T_l"),
        experiment(at("grpfed/figure3", "fast"), "grp-fed", "largest"),
        experiment(at("grpfed/figure5", "fast"), "grp-fed", "farthest/T_p"),
    }
    assert len(found) == 1
    (one,) = found
    middle = experiment(at("grpfed/figure4", "fast"), "beta-0.5", "T_l")
    assert middle.method() == one.method() and middle.changed(options=()) == one


def test_figures_1_and_5_show_the_clients_that_their_numbers_are_of(at, monkeypatch) -> None:
    """Test samples by class: of the 46 records the first is nearest to all, the last farthest."""
    counts = np.tile([[4, 2, 2]], (46, 1))
    counts[-1] = [0, 0, 8]
    owner, labels = (np.repeat(each, counts.ravel()) for each in (np.repeat(np.arange(46), 3), np.tile([0, 1, 2], 46)))
    right = np.eye(3)[labels]
    found = Predictions(3, False, labels, owner, right, np.tile(labels, (46, 1)), right, right, clients=46)
    monkeypatch.setattr(grpfed, "predictions_of", lambda evidence: found)
    data = at("grpfed/figure5").experiments(grpfed.FEDAVG, grpfed.FIGURE5.columns[0])[0].data
    evidence = SimpleNamespace(run=SimpleNamespace(experiment=SimpleNamespace(data=data)))
    study = SimpleNamespace(artefact=grpfed.FIGURE5, evidence=lambda row, column: [evidence])
    monkeypatch.setitem(
        grpfed.DATASETS, data.dataset, replace(grpfed.DATASETS[data.dataset], class_names=("N", "L", "R"))
    )
    shown = grpfed.classes_of_two(study)
    assert [name.split(",")[0] for name in shown] == [
        "all 46 clients",
        "upper client (nearest): patient 100",
        "lower client (farthest): patient 234",
    ]
    np.testing.assert_allclose(shown.iloc[:, 1], [50, 25, 25])
    np.testing.assert_allclose(shown.iloc[:, 2], [0, 0, 100])
    bars = grpfed.f1_of_clients(study)
    assert bars["FedAvg"].tolist() == [100.0] * 5 and bars.index[0] == "all 46 clients"
    assert bars.index[-1].startswith("patient 234 (0.7")
    nothing = SimpleNamespace(artefact=grpfed.FIGURE5, evidence=lambda row, column: [])
    assert grpfed.classes_of_two(nothing) is None and grpfed.f1_of_clients(nothing) is None


def test_figure_1_keeps_the_order_of_its_panels(at) -> None:
    assert [view.name for view in at("grpfed/figure1").artefact.views if view.name] == ["a", "b", "c"]
