"""The cost tables of the papers, recomputed; operations and memory against numbers worked out by hand."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch
from helpers import equal

from pflrepro.algorithms import build_method
from pflrepro.conformance import federation
from pflrepro.errors import UserError
from pflrepro.metrics import cost
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


def test_operations_of_a_training_by_hand() -> None:
    """64 -> 32 -> 6: forward and the weights' gradient through both layers, the input's gradient through the second only."""
    each = 2 * (2 * 64 * 32 + 3 * 32 * 6)
    found = cost.training_flops(simulation("fedavg"))
    assert found.tolist() == [each * n for n in SIZES]
    assert cost.training_flops(simulation("fedavg"), clients=[1, 4]).tolist() == [each * 3, each * 30]
    assert cost.training_flops(simulation("ditto"), clients=[1]).tolist() == [2 * each * 3]
    assert cost.training_flops(simulation("fedavg", local_epochs=2), clients=[1]).tolist() == [2 * each * 3]


def test_operations_of_a_convolution_by_hand() -> None:
    """3 -> 8 channels, 3 x 3, on 2 images of 5 x 5 with padding: 2 * 25 * 8 * 27 multiply-adds."""
    layer = torch.nn.Conv2d(3, 8, 3, padding=1)
    assert cost.count_flops(layer, torch.ones(2, 3, 5, 5)) == 2 * (2 * 25 * 8 * 27)


@pytest.mark.parametrize("clients", [[], [5], [-1]])
def test_clients_that_do_not_exist(clients) -> None:
    with pytest.raises(UserError, match=r"clients are numbers in 0\.\.4"):
        cost.training_flops(simulation("fedavg"), clients=clients)


def test_shares_of_time_of_pfedfda() -> None:
    run = simulation("pfedfda")
    run.step()
    before = run.state()
    found = cost.time_shares(run, clients=[0, 4])
    parts = np.stack([found.network, found.estimation, found.interpolation])
    assert parts.shape == (3, 2)
    assert (parts >= 0).all() and parts.sum(0) == pytest.approx(100)
    assert all(equal(value, before[name]) for name, value in run.state().items())
    with pytest.raises(UserError, match="pFedFDA's; this is FedAvg"):
        cost.time_shares(simulation("fedavg"))


def test_derivatives_of_derivatives_are_counted_too() -> None:
    """FedMix: one pass and its input gradient, differentiated: about two FedAvg steps a sample, as `cost_of` counts."""
    plain, mixed = (cost.training_flops(simulation(name), clients=[1])[0] for name in ("fedavg", "fedmix"))
    assert 1.2 < mixed / plain < 3


def test_memory_on_a_gpu() -> None:
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match="there is no CUDA device"):
            cost.peak_device_memory(torch.ones, 10)
        return
    found = cost.peak_device_memory(lambda: torch.ones(1_000_000, device="cuda").sum().item())
    assert found.result == 1e6 and 4e6 <= found.increase < 2e7


def test_peak_memory_of_a_fresh_process() -> None:
    found = cost.peak_memory(np.ones, 5_000_000)
    assert found.result.shape == (5_000_000,)
    assert 38e6 < found.increase < 80e6  # 40 MB
    assert found.peak == found.before + found.increase


@pytest.mark.parametrize("call", [lambda: cost.gaussian_size(0, 3), lambda: cost.gaussian_size(3, 1.5)])
def test_sizes_are_whole_numbers(call) -> None:
    with pytest.raises(UserError, match=r"number of (classes|features)"):
        call()


def test_an_overhead_can_be_negative() -> None:
    assert cost.gaussian_overhead(0, 10, 5) == -50
    assert math.isclose(cost.gaussian_overhead(927008, 1615848, 1548800), -2.637, abs_tol=5e-4)


def doubled(a: np.ndarray) -> float:
    return float((2.0 * a).sum())


def test_what_the_function_needs_is_not_hidden_behind_its_arguments() -> None:
    """80 MB of argument, 80 MB of work: the second 80 are what it needs."""
    found = cost.peak_memory(doubled, np.ones(10_000_000))
    assert 75e6 < found.increase < 110e6 and found.before > 80e6


def test_a_history_without_times_is_named() -> None:
    with pytest.raises(UserError, match="the history has no 'seconds'; it has: round"):
        cost.timing({"round": [0, 1]})


def test_clients_of_a_measurement_are_whole_numbers() -> None:
    for wrong in ([1.5], [True]):
        with pytest.raises(UserError, match="clients are numbers in"):
            cost.training_flops(simulation("fedavg"), clients=wrong)
    with pytest.raises(UserError, match="parameters of backbone and classifier"):
        cost.gaussian_overhead(0, 0, 5)
    with pytest.raises(UserError, match="repeat must be"):
        cost.time_shares(simulation("pfedfda"), repeat=0)
