"""FedCM: the global direction, every group with its own; FedBR's variant with its momentum rule."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from helpers.trees import assert_close

from pflrepro.algorithms.dbe import PRBM
from pflrepro.algorithms.fedcm import FedCM
from pflrepro.algorithms.phases import Part
from pflrepro.algorithms.variants.fedcm import FedBRFedCM
from pflrepro.errors import UserError
from pflrepro.settings import Settings
from pflrepro.simulation import Simulation
from pflrepro.trees import Tree

RATE = 0.05


@pytest.mark.parametrize("kind", [FedCM, FedBRFedCM])
def test_alpha_one_is_fedavg(simulate, kind: type[FedCM]) -> None:
    settings = {"rounds": 3, "participation": 0.6, "momentum": 0.5, "weight_decay": 0.02}
    ours = simulate(kind(alpha=1.0), **settings).replicas[0].server.params
    assert_close(ours, simulate("fedavg", **settings).replicas[0].server.params, 0)


# ---- written again in plain PyTorch ----------------------------------------------------------------------------------------------
class Spy:
    """Keeps the batches, round by round and client by client."""

    batches = {}  # noqa: RUF012

    def step(self, local, batch, ctx):
        key = (int(ctx.scalars.t), int(ctx.info.id))
        self.batches.setdefault(key, []).append((batch.x, batch.y))
        return super().step(local, batch, ctx)


SPIES = {"clean": type("CleanSpy", (Spy, FedCM), {}), "code": type("CodeSpy", (Spy, FedBRFedCM), {})}


def plain_client(w: dict, delta: dict, batches: list, mode: str, momentum: float, decay: float, scaled: bool) -> dict:
    """The rule of the released code (`code`), or the paper's under a momentum buffer (`clean`), for alpha = 0.1."""
    w, buffer = dict(w), {path: torch.zeros_like(value) for path, value in w.items()}
    for x, y in batches:
        leaves = {path: value.clone().requires_grad_() for path, value in w.items()}
        z = F.relu(F.linear(x.flatten(1), leaves["base/1.weight"], leaves["base/1.bias"]))
        F.cross_entropy(F.linear(z, leaves["head/weight"], leaves["head/bias"]), y).backward()
        for path, leaf in leaves.items():
            g = leaf.grad + decay * w[path]
            if mode == "code":
                b = momentum * buffer[path] + g
                buffer[path] = 0.1 * b + 0.9 * delta[path] if scaled else b
            else:
                buffer[path] = momentum * buffer[path] + 0.1 * g + 0.9 * delta[path]
            w[path] = w[path] - RATE * buffer[path]
    return w


@pytest.mark.parametrize("mode", ["clean", "code"])
@pytest.mark.parametrize("momentum", [0.0, 0.6])
def test_three_rounds_in_plain_pytorch(federation, simulate, mode: str, momentum: float) -> None:
    """With unequal numbers of steps, weight decay (mixed like the gradient) and a client that never takes one."""
    Spy.batches.clear()
    settings = {"momentum": momentum, "weight_decay": 0.02, "drop_last": True, "local_epochs": 2}
    ours = simulate(SPIES[mode](), rounds=3, **settings).replicas[0].server
    sizes = {i: len(rows) for i, rows in enumerate(federation.rows["train"])}
    w = dict(simulate("fedavg", rounds=0).replicas[0].server.params.flat())
    delta = {path: torch.zeros_like(value) for path, value in w.items()}
    for t in range(3):
        steps = {i: len(Spy.batches.get((t, i), [])) for i in sizes}
        assert steps[1] == 0 and len(set(steps.values())) > 2
        new, direction, weight = dict.fromkeys(w, 0.0), dict.fromkeys(w, 0.0), 0.0
        for i, n in sizes.items():
            scaled = t > 0 or mode == "clean"
            mine = plain_client(w, delta, Spy.batches.get((t, i), []), mode, momentum, 0.02, scaled)
            # what a constant v moves: sum over k of 1 + rho + ... + rho^(k-1)
            moves = sum(sum(momentum**j for j in range(k)) if mode == "clean" else 1.0 for k in range(1, steps[i] + 1))
            weight += n if steps[i] else 0
            for path in w:
                new[path] = new[path] + n / sum(sizes.values()) * mine[path]
                if steps[i]:
                    direction[path] = direction[path] + n * (w[path] - mine[path]) / (RATE * moves)
        w, delta = new, {path: value / weight for path, value in direction.items()}
    for path, value in ours.params.flat().items():
        torch.testing.assert_close(value, w[path], rtol=0, atol=1e-12, msg=path)
    for path, value in ours.delta.flat().items():
        torch.testing.assert_close(value, delta[path], rtol=0, atol=1e-11, msg=path)


# ---- a given direction ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Scaled(FedCM):
    """A further shared group, as a plug-in may add one: a factor for every feature."""

    def layout(self, setup):
        return super().layout(setup) | {"factor": Part("shared", Tree(f=setup.zeros(setup.features) + 1))}

    def embed(self, params, z, ctx):
        return super().embed(params, z * params.factor.f, ctx)


BiasedScaled = dataclass(frozen=True)(type("BiasedScaled", (PRBM, Scaled), {}))


def with_direction(federation, method: FedCM, **settings) -> tuple[Tree, Tree, Simulation]:
    """(the server before, the server after one round with Delta given, the simulation)."""
    given = {"batch_size": 5, "lr": RATE, "drop_last": True} | settings
    simulation = Simulation(
        method, federation, "mlp", Settings(1, **given), [0], backend="loop", dtype="float64", workers=1
    )
    replica = simulation.replicas[0]
    stream = torch.Generator().manual_seed(3)
    delta = replica.server.delta.map(lambda leaf: torch.randn(leaf.shape, generator=stream, dtype=leaf.dtype))
    replica.server = before = replica.server | Tree(delta=delta)
    simulation.step()
    return before, replica.server, simulation


@pytest.mark.parametrize("momentum", [0.0, 0.7])
@pytest.mark.parametrize("method", [FedCM, Scaled, BiasedScaled])
def test_a_vanishing_alpha_moves_every_client_along_delta(federation, method: type[FedCM], momentum: float) -> None:
    """By -eta T_i Delta (times what momentum makes of it), whatever group it is; Delta is then the same again."""
    before, after, simulation = with_direction(federation, method(alpha=1e-15), local_epochs=2, momentum=momentum)
    n = torch.tensor([len(rows) for rows in federation.rows["train"]], dtype=torch.float64)
    moves = [
        sum(sum(momentum**j for j in range(k)) for k in range(1, 2 * (len(rows) // 5) + 1))
        for rows in federation.rows["train"]
    ]
    assert moves[1] == 0  # client 1 has less than a batch; it counts in w and not in Delta
    length = RATE * float((n / n.sum() * torch.tensor(moves, dtype=torch.float64)).sum())
    assert set(before.delta) == set(before.params) and ("factor" in before.delta) == (method is not FedCM)
    assert_close(after.params, before.params - length * before.delta)
    assert_close(after.delta, before.delta, 1e-11)
    if method is BiasedScaled:  # a personal group has no direction: plain SGD
        bias = simulation.replicas[0].clients.params.bias.b
        assert bool((bias[1] == 0).all()) and bool((bias[0] != 0).any())


def test_if_nobody_takes_a_step_delta_stays(federation) -> None:
    for settings in ({"batch_size": 64}, {"lr": 0.0}):
        before, after, _ = with_direction(federation, FedCM(), **settings)
        assert_close(after, before, 1e-15)  # an average of equal models, rounded


def test_the_first_round(federation, simulate) -> None:
    """Delta = 0: it is FedAvg at a tenth of the rate, FedBR's is FedAvg."""
    tenth = simulate("fedavg", rounds=1, lr=RATE / 10).replicas[0].server.params
    assert_close(simulate(FedCM(), rounds=1).replicas[0].server.params, tenth)
    fedavg = simulate("fedavg", rounds=1, momentum=0.9).replicas[0].server.params
    assert_close(simulate(FedBRFedCM(), rounds=1, momentum=0.9).replicas[0].server.params, fedavg)


def test_the_direction_does_not_blow_up_under_momentum(simulate) -> None:
    """With T_i itself as the divisor, Delta would grow by up to 0.9 / (1 - 0.9) = 9 a round."""
    delta = simulate(FedCM(), rounds=8, momentum=0.9, local_epochs=5).replicas[0].server.delta
    gradient = simulate(FedCM(), rounds=1, lr=1e-6).replicas[0].server.delta  # a tenth of the gradient at the start
    assert float(delta.squared_norm()) < 100 * float(gradient.squared_norm())


@pytest.mark.parametrize("options", [{"alpha": 1.5}, {"alpha": -0.1}, {"alpha": 0.0}])
def test_impossible_values_are_refused(options: dict) -> None:
    with pytest.raises(UserError, match=f"{next(iter(options))} of FedCM"):
        FedCM(**options)


def test_the_servers_rate_stretches_the_step(simulate) -> None:
    """One round from the same start: w^0 + 1.5 (mean - w^0); the direction is the same."""
    start, one, more = (
        simulate(FedCM(server_rate=rate), rounds=rounds).replicas[0].server
        for rate, rounds in ((1, 0), (1, 1), (1.5, 1))
    )
    assert_close(more.params, start.params + 1.5 * (one.params - start.params))
    assert_close(more.delta, one.delta, 0)
    with pytest.raises(UserError, match="server_rate of FedCM must be a number > 0"):
        FedCM(server_rate=0)


def test_the_divisor_of_fixed_steps(simulate) -> None:
    """Rounds of 4 steps, of which the first takes one: behind it the direction is four times smaller with the run's number."""
    settings = {"rounds": 1, "local_steps": 4, "first_steps": 1, "drop_last": True}
    steps, fixed = (simulate(kind(), **settings).replicas[0].server for kind in (FedCM, FedBRFedCM))
    # the plain rule scales the whole first round by alpha, the other one nothing of it
    assert_close(steps.delta, 0.1 * 4.0 * fixed.delta)
