"""The cost tables of the papers, recomputed."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from helpers import equal

from pflrepro.algorithms import build_method
from pflrepro.conformance import federation
from pflrepro.errors import UserError
from pflrepro.metrics import cost
from pflrepro.metrics.training_time import time_shares
from pflrepro.papers.numbers import published
from pflrepro.settings import Settings
from pflrepro.simulation import Simulation
from pflrepro.simulation.cost import cost_of

SIZES = (24, 3, 14, 9, 30)  # training samples of the made-up clients


def simulation(name: str, **changes) -> Simulation:
    settings = Settings(3, **({"batch_size": 5, "lr": 0.05, "drop_last": False} | changes))
    return Simulation(build_method(name), federation(), "mlp", settings, [0], backend="loop", workers=1)


def test_pfedfda_table_8_exactly() -> None:
    table = published("pfedfda_table8")
    rows = table.pivot_table(index="model", columns="metric", values="value")
    assert len(rows) == 4
    for model, row in rows.iterrows():
        size = re.search(r"D=(\d+)(?:, (\d+) classes)?", model)
        features, classes = int(size[1]), int(size[2] or 1000)
        linear = classes * (features + 1)
        if "MobileNet" in model:  # its own head of two layers, 576 -> 1024 -> 1000
            linear = 576 * 1024 + 1024 + linear
        gaussian = cost.gaussian_size(classes, features)
        assert linear == row["linear_classifier_parameters"], model
        assert gaussian == row["gaussian_parameters"], model
        overhead = cost.gaussian_overhead(int(row["backbone_parameters"]), linear, gaussian)
        assert round(overhead, 3) == pytest.approx(row["overhead_pct"], abs=1e-9), model


def test_fedbr_table_7_s_parameters_of_vgg11() -> None:
    """9.2 for FedAvg, FedCM twice as much; the printed 9.7 of Moon and FedBR are of a projection that no source gives."""
    table = published("fedbr_table7")
    table = table[(table["model"] == "VGG11") & (table["metric"] == "parameters_millions")]
    printed = dict(zip(table["method"], table["value"], strict=True))
    fedcm = cost_of(build_method("fedcm"), "vgg11", (3, 32, 32), clients=2)
    assert round(fedcm.model / 1e6, 1) == printed["FedAvg"] == printed["FedCM"] / 2
    assert fedcm.down == 2 * fedcm.model  # the model and the global momentum


def history(seconds, tests, correct=(1, 5, 9, 9), rounds=(0, 1, 2, 4)):
    return {
        "round": np.array(rounds),
        "seconds": np.array(seconds, float),
        "seconds_evaluation": np.array(tests, float),
        "correct": np.array(correct)[:, None],
        "test_samples": np.array([10]),
    }


def test_time_of_a_round() -> None:
    """The first round is warm-up; the last evaluation closes two rounds."""
    run = history([0, 100, 2, 4], [50, 9, 1, 2])
    found = cost.timing(run)
    assert (found.iteration, found.evaluation) == (3.0, 1.0)  # (2 + 4 + 1 + 2) / 3 rounds
    assert (found.iterations, found.total) == (2, 6.0)
    assert cost.timing(run, evaluation=False).iteration == 2.0


def test_a_run_of_one_round_counts_it_and_one_without_has_no_time() -> None:
    one = {
        name: values[:2] if name != "test_samples" else values
        for name, values in history([0, 7, 1, 1], [1] * 4).items()
    }
    assert cost.timing(one).iteration == 8.0
    none = {name: values[:1] for name, values in one.items()}
    with pytest.raises(UserError, match="without a round of training"):
        cost.timing(none)


def test_dbe_s_total_times_are_iterations_times_time_an_iteration() -> None:
    times, iterations = published("dbe_table6"), published("dbe_table8")
    by_metric = {
        metric: dict(zip(rows["method"], rows["value"], strict=True))
        for metric, rows in [*times.groupby("metric"), *iterations.groupby("metric")]
        if metric in ("total_time_min", "time_per_iteration_min", "iterations_to_convergence")
    }
    assert len(by_metric["total_time_min"]) == 12
    for method, total in by_metric["total_time_min"].items():
        rounds, each = (by_metric[m][method] for m in ("iterations_to_convergence", "time_per_iteration_min"))
        assert abs(rounds * each - total) <= 0.5 + 0.005 * rounds, method  # both factors are rounded


def test_shares_of_time_of_pfedfda() -> None:
    run = simulation("pfedfda")
    run.step()
    before = run.state()
    found = time_shares(run, clients=[0, 4])
    parts = np.stack([found.network, found.estimation, found.interpolation])
    assert parts.shape == (3, 2)
    assert (parts >= 0).all() and parts.sum(0) == pytest.approx(100)
    assert all(equal(value, before[name]) for name, value in run.state().items())
    with pytest.raises(UserError, match="pFedFDA's; this is FedAvg"):
        time_shares(simulation("fedavg"))


@pytest.mark.parametrize("call", [lambda: cost.gaussian_size(0, 3), lambda: cost.gaussian_size(3, 1.5)])
def test_sizes_are_whole_numbers(call) -> None:
    with pytest.raises(UserError, match=r"number of (classes|features)"):
        call()


def test_an_overhead_can_be_negative() -> None:
    assert cost.gaussian_overhead(0, 10, 5) == -50
    assert math.isclose(cost.gaussian_overhead(927008, 1615848, 1548800), -2.637, abs_tol=5e-4)


def test_a_history_without_times_is_named() -> None:
    with pytest.raises(UserError, match="the history has no 'seconds'; it has: round"):
        cost.timing({"round": [0, 1]})


@pytest.mark.parametrize("clients", [[], [5], [-1], [1.5], [True]])
def test_clients_of_a_measurement_are_some_of_the_run(clients) -> None:
    with pytest.raises(UserError, match=r"clients are numbers in 0\.\.4"):
        time_shares(simulation("pfedfda"), clients=clients)


def test_what_a_measurement_cannot_take() -> None:
    with pytest.raises(UserError, match="parameters of backbone and classifier"):
        cost.gaussian_overhead(0, 0, 5)
    with pytest.raises(UserError, match="repeat must be"):
        time_shares(simulation("pfedfda"), repeat=0)
