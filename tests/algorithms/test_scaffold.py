"""SCAFFOLD: its control variates."""

from __future__ import annotations

import pytest
import torch
from helpers.trees import assert_close

from pflrepro.algorithms import build_method
from pflrepro.algorithms.momentum import effective_steps
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError


def equal_clients(federation: Federation, count: int = 3) -> Federation:
    train, test = ([federation.rows[split][0]] * count for split in ("train", "test"))
    return Federation(federation.x, federation.y, train, test, classes=federation.classes)


def test_the_first_round_is_fedavg_with_uniform_weights(federation, simulate) -> None:
    start = simulate("fedavg", rounds=0).replicas[0].server.params
    personal = simulate("local", rounds=1).replicas[0].clients.params  # w_i of the same batches
    uniform = torch.full((federation.clients,), 1 / federation.clients, dtype=torch.float64)
    assert_close(simulate("scaffold", rounds=1).replicas[0].server.params, personal.mix(uniform))
    half = simulate("scaffold", rounds=1, options={"server_rate": 0.5}).replicas[0].server.params
    assert_close(half, 0.5 * start + 0.5 * personal.mix(uniform))


def test_equal_clients_and_batches_are_fedavg_for_ever(federation, simulate) -> None:
    settings = {"federation": equal_clients(federation), "rounds": 4, "batch_size": 100, "local_epochs": 2}
    ours, fedavg = (simulate(name, **settings) for name in ("scaffold", "fedavg"))
    assert_close(ours.replicas[0].server.params, fedavg.replicas[0].server.params)


@pytest.mark.parametrize("name", ["scaffold", "scaffold+dbe"])
def test_c_is_the_mean_over_all_clients_whoever_takes_part(simulate, name: str) -> None:
    """c = (1/N) sum over all clients of c_i, also with clients that have less than a batch; the bias of DBE has none."""
    settings = {"rounds": 4, "participation": 0.6, "drop_last": True, "momentum": 0.3}
    replica = simulate(name, **settings).replicas[0]
    controls = replica.clients.control
    assert sorted(replica.server.control) == sorted(controls) == ["base", "head"]
    assert_close(replica.server.control, controls.map(lambda leaf: leaf.mean(0)))
    assert all(bool((leaf[1] == 0).all()) for leaf in controls.leaves())  # client 1 never took a step
    assert any(bool((leaf[0] != 0).any()) for leaf in controls.leaves())


def test_the_control_variate_of_one_step_is_the_gradient(simulate) -> None:
    start = simulate("local", rounds=0).replicas[0].clients.params
    step = (start - simulate("local", rounds=1, batch_size=100).replicas[0].clients.params) / 0.05
    assert_close(simulate("scaffold", rounds=1, batch_size=100).replicas[0].clients.control, step)


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_the_steps_count_a_constant_gradient(momentum: float) -> None:
    """v_k = rho v_{k-1} + g, w - y = eta sum v_k: for g = 1 the sum over T steps."""
    v = total = 0.0
    for steps in range(1, 9):
        v = momentum * v + 1.0
        total += v
        assert float(effective_steps(torch.tensor(steps), momentum, torch.tensor(0.0).double())) == pytest.approx(
            total, rel=1e-12
        )


def test_a_rate_of_zero_leaves_everything_finite_and_still(simulate) -> None:
    start, end = (simulate("scaffold", rounds=rounds, lr=0.0).replicas[0] for rounds in (0, 2))
    assert_close(end.server, start.server, 0)
    assert_close(end.clients, start.clients, 0)


def test_a_wrong_rate_is_refused() -> None:
    with pytest.raises(UserError, match="option server_rate of scaffold must be a number > 0"):
        build_method("scaffold", {"server_rate": 0.0})
