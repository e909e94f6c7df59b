"""The loop backend: unpadded batches, messages that say where, workers that change nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.fedavg import FedAvg
from pflrepro.algorithms.fedmix import FedMix
from pflrepro.algorithms.fedper import FedPer
from pflrepro.algorithms.phases import Phase
from pflrepro.errors import RunFailed, UserError
from pflrepro.simulation.launch import Launch
from pflrepro.simulation.loop import Loop, differentiate, participate_one
from pflrepro.simulation.row_pool import ROW_OVERHEAD, RowPool
from pflrepro.simulation.stacking import Stacking
from pflrepro.simulation.workers import Workers
from pflrepro.trees import Tree


@dataclass(frozen=True)
class Records(Method):
    """Writes down the shapes it was given."""

    def loss(self, params, local, batch, ctx):
        seen.append((int(ctx.info.id), tuple(batch.x.shape), float(batch.mask.min())))
        return super().loss(params, local, batch, ctx)


seen: list[tuple] = []


def test_batches_are_unpadded(simulate) -> None:
    seen.clear()
    simulate(Records(), rounds=1)
    of_client = {client: [shape[0] for c, shape, _ in seen if c == client] for client in range(5)}
    assert of_client == {0: [5, 5, 5, 5, 4], 1: [3], 2: [5, 5, 4], 3: [5, 4], 4: [5] * 6}
    assert all(mask == 1.0 for _, _, mask in seen)


@dataclass(frozen=True)
class Breaks(Method):
    """Fails at client 3's second batch of round 1, in the way `how` says."""

    how: str = "shape"

    def phases(self, clock):
        return [Phase("head", train=("head",), passes=1), Phase("base", train=("base",))] if clock.t else [Phase()]

    def loss(self, params, local, batch, ctx):
        if ctx.phase.name == "base" and int(ctx.info.id) == 3 and len(batch.x) == 4:
            if self.how == "user":
                raise UserError("a rate must be positive")
            batch.x.reshape(7, -1)
        return super().loss(params, local, batch, ctx)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_names_method_round_seed_client_phase_step_and_shapes(simulate, workers: int) -> None:
    with pytest.raises(RunFailed) as caught:
        simulate(Breaks(), seeds=[7], workers=workers)
    message = str(caught.value)
    place = rf" at .*{Path(__file__).name}:\d+ \(loss\)"
    assert re.match(rf"Breaks, round 1, seed 7, client 3, phase 'base', step 1{place}: RuntimeError: ", message)
    assert "'base/1.weight': [32, 64]" in message and "'head/bias': [6]" in message
    assert workers > 1 or isinstance(caught.value.__cause__, RuntimeError)  # from a process it comes as text


def test_a_users_mistake_is_passed_on_as_it_is(simulate) -> None:
    with pytest.raises(UserError, match=r"^a rate must be positive$"):
        simulate(Breaks("user"))


def test_workers_change_no_bit_and_put_the_number_of_threads_back(simulate, differ) -> None:
    one, three = (simulate(FedPer(), workers=workers, seeds=[0, 1]) for workers in (1, 3))
    assert torch.get_num_threads() == 1
    for mine, other in zip(one.replicas, three.replicas, strict=True):
        assert differ(mine.server, other.server) == differ(mine.clients, other.clients) == 0.0
        assert all((a == b).all() for a, b in zip(mine.history["correct"], other.history["correct"], strict=True))


def test_gradients_and_the_second_output_are_free_of_history() -> None:
    params = Tree(a=torch.tensor([1.0, 2.0]), inner=Tree(b=torch.tensor(3.0)), unused=torch.ones(2))

    def function(p: Tree):
        value = (p.a**2).sum() * p.inner.b
        return value, Tree(kept=p.a * 2)

    gradients, out = differentiate(function, params)
    assert gradients.a.tolist() == [6.0, 12.0] and gradients.inner.b.item() == 5.0
    assert gradients.unused.tolist() == [0.0, 0.0], "what the loss does not use gets zeros"
    assert not out.kept.requires_grad and not params.a.requires_grad


@pytest.mark.parametrize(
    ("workers", "load", "seconds", "expected"),
    [
        (2, [100, 100], 0.1, 10 + 2 * ROW_OVERHEAD),  # two halves, and two rows to hand over
        (4, [100, 100], 0.1, 10 + 2 * ROW_OVERHEAD),  # no more workers than rows
        (2, [1, 1], 0.001, 0.002),  # not worth handing over
        (1, [100, 100], 0.1, 20.0),
        (2, [100], 0.1, 10.0),
    ],
)
def test_the_workers_share_what_is_worth_sharing(
    start, workers: int, load: list[int], seconds: float, expected
) -> None:
    program = start(FedAvg()).dispatcher.program(Loop())
    assert Loop(workers).pool.duration(program, np.array(load), seconds) == pytest.approx(expected)


def test_long_rows_travel_alone_and_short_ones_together() -> None:
    loads, seeds = np.array([100, 1, 50, 1, 1, 1, 1, 1]), np.array([0, 0, 1, 0, 0, 1, 1, 0])
    launch = Launch(received=[Tree(), Tree()], seed_of=seeds, rows=Tree(), keys=[(0, i) for i in range(8)])
    order = [int(i) for i in np.argsort(-loads, kind="stable")]
    pool = RowPool(2)
    assert pool._groups(launch, order, loads) == [
        [0],
        [2],
        [1, 3, 4, 7],
        [5, 6],
    ]  # at most 156 / 32 batches, or one row
    many = pool._groups(launch, [1, 3, 4], np.array([0] * 8))
    assert many == [[1, 3, 4]], "rows without work are one group"


def test_supplied_data_reach_the_workers_and_leave_no_file_behind(start) -> None:
    simulation = start(FedMix(samples=3), seeds=[0, 4])
    dispatcher, everyone, workers = simulation.dispatcher, [np.arange(5)] * 2, Workers(2)
    program, clock = dispatcher.program(Loop()), dispatcher.clock(0)
    launch = dispatcher.launch(program, clock, everyone, simulation.method.phases(clock))
    there = Stacking(10)
    workers.stack(participate_one, program, launch, [[0, 1, 2], [5], [3, 4], [6, 7, 8, 9]], there)
    for i in range(10):
        here = participate_one(program, launch, i)
        assert all(torch.equal(a, b) for a, b in zip(here.leaves(), there.stacked[i].leaves(), strict=True))
    files = [Path(path) for _, path in workers._supplies.values()]
    assert len(files) == 2 and all(file.exists() for file in files)  # one a seed
    del workers
    assert not any(file.exists() for file in files)
