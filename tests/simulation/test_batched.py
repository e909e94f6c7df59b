"""batched and graph: prefixes of active rows, padded rows that count for nothing, static buffers."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.fedavg import FedAvg
from pflrepro.algorithms.phases import Draw, Phase
from pflrepro.algorithms.registry import build_method
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.simulation import graph
from pflrepro.simulation.graph import _no_collection, _StaticPhase, buckets
from pflrepro.trees import Tree

BACKENDS = ("loop", "batched", "graph")


@dataclass(frozen=True)
class Counts(Method):
    """Counts batches, true rows and scanned labels, and sums its draws; the server keeps what it got."""

    def phases(self, clock):
        return [Phase(draws={"u": Draw("uniform", (2,))}), Phase("scan", scan=True, batch=4)]

    def init_client(self, setup, info):
        return Tree(
            batches=setup.zeros(), samples=setup.zeros(), labels=setup.zeros(setup.classes), draws=setup.zeros(2)
        )

    def begin(self, common, own, client, ctx):
        return super().begin(common, own, Tree(), ctx) | client

    def step(self, local, batch, ctx):
        counted = Tree(batches=local.batches + 1, samples=local.samples + batch.mask.sum(), draws=local.draws + batch.u)
        return super().step(local, batch, ctx) | counted

    def observe(self, local, batch, ctx):
        hits = (batch.y[:, None] == torch.arange(ctx.task.classes)).to(batch.mask.dtype)
        return Tree(labels=(hits * batch.mask[:, None]).sum(0), batches=batch.mask.sum() * 0 + 1)

    def leave(self, local, sums, ctx):
        return Tree(labels=local.labels + sums.labels) if ctx.phase.scan else Tree()

    def finish(self, local, client, ctx):
        _, upload = super().finish(local, Tree(), ctx)
        return local.only(client), upload


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_client_does_its_own_batches_and_no_more(simulate, backend: str) -> None:
    clients = simulate(Counts(), rounds=2, backend=backend).replicas[0].clients
    assert clients.batches.tolist() == [10, 2, 6, 4, 12]
    assert clients.samples.tolist() == [48, 6, 28, 18, 60]
    assert (clients.draws > 0).all() and clients.draws[1].max() < 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_scan_sums_over_each_clients_whole_data(simulate, federation, backend: str) -> None:
    clients = simulate(Counts(), rounds=1, backend=backend, drop_last=True).replicas[0].clients
    assert clients.labels.tolist() == federation.counts().tolist()
    assert clients.batches.tolist() == [4, 0, 2, 1, 6], "the scan drops nothing, the training does"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_may_hand_one_entry_on_as_another(simulate, backend: str) -> None:
    """Each batch swaps two entries: buffers that are written one after another must not be read after they were written."""

    @dataclass(frozen=True)
    class Swaps(Counts):
        def init_client(self, setup, info):
            return super().init_client(setup, info) | Tree(first=setup.zeros(3), second=setup.zeros(3) + 1)

        def step(self, local, batch, ctx):
            return super().step(local, batch, ctx) | Tree(first=local.second, second=local.first)

    clients = simulate(Swaps(), rounds=1, local_epochs=1, backend=backend).replicas[0].clients
    odd = (clients.batches % 2).tolist()
    assert (
        set(odd) == {0, 1}
        and clients.first[:, 0].tolist() == odd
        and clients.second[:, 2].tolist() == [1 - n for n in odd]
    )


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (lambda n: n + torch.ones(2), r"float32 \[2\] of .* float64 \[\]"),
        (lambda n: n.to(torch.int64), r"int64 \[\] of .* float64 \[\]"),
    ],
)
def test_an_entry_that_changes_its_form_does_not_fit_its_buffer(simulate, changed, told: str) -> None:
    @dataclass(frozen=True)
    class Grows(Counts):
        def step(self, local, batch, ctx):
            return super().step(local, batch, ctx) | Tree(samples=changed(local.samples))

    with pytest.raises(UserError, match=f"a batch made {told}"):
        simulate(Grows(), backend="graph")


def test_draws_are_the_same_in_every_backend(simulate) -> None:
    loop, *others = (simulate(Counts(), backend=backend).replicas[0].clients.draws for backend in BACKENDS)
    assert all(torch.allclose(loop, other, rtol=0, atol=1e-12) for other in others)


@pytest.mark.parametrize("backend", ["batched", "graph"])
def test_padding_counts_for_nothing_even_where_it_is_huge(simulate, federation, differ, backend: str) -> None:
    """Tables are padded with row 0 of the data: when client 0 is away, what stands there must not matter."""
    huge = Federation(
        federation.x.clone(), federation.y, federation.rows["train"][1:], federation.rows["test"][1:], classes=6
    )
    plain = simulate(FedAvg(), backend=backend, federation=huge).replicas[0]
    huge.x[0] = 1e30
    spoiled = simulate(FedAvg(), backend=backend, federation=huge).replicas[0]
    assert 0 not in np.concatenate(huge.rows["train"] + huge.rows["test"])
    assert differ(plain.server, spoiled.server) == 0.0
    assert all((a == b).all() for a, b in zip(plain.history["loss"], spoiled.history["loss"], strict=True))


@given(st.integers(1, 500))
def test_buckets_reach_from_one_row_to_all_in_steps_of_a_quarter(rows: int) -> None:
    sizes = buckets(rows)
    assert sizes[0] == 1 and sizes[-1] == rows and sizes == sorted(set(sizes))
    assert all(small >= large * 3 // 4 or large - small == 1 for small, large in pairwise(sizes))


def test_prefixes_with_finished_rows_keep_these_as_they_are(start, simulate, differ, monkeypatch) -> None:
    """In a launch of many rows not each number of active ones has a graph of its own; here of more than none."""
    seeds = [0, 1, 2, 3]  # 20 rows, of which 16 are active when the shortest have finished
    monkeypatch.setattr(graph, "FEW", 0)
    for method in (Counts(), build_method("pfedfda", {}), build_method("fedavg+dbe", {})):
        simulation = start(method, rounds=2, backend="graph", seeds=seeds)
        while not simulation.finished:
            simulation.step()
        used = {prefix for phase in simulation.backend._instances.values() for prefix in phase.calls}
        assert {whole for _, whole in used} == {True, False}
        expected = simulate(method, rounds=2, backend="loop", seeds=seeds)
        for k in range(4):
            found, other = simulation.replicas[k], expected.replicas[k]
            assert max(differ(found.server, other.server), differ(found.clients, other.clients)) < 1e-8


def test_static_buffers_are_made_once_for_all_rounds(start) -> None:
    simulation = start(FedAvg(), rounds=3, backend="graph", participation=0.6)
    simulation.step()
    instances = dict(simulation.backend._instances)
    while not simulation.finished:
        simulation.step()
    assert simulation.backend._instances == instances and len(instances) == 1


def test_changing_numbers_need_no_new_buffers(start) -> None:
    @dataclass(frozen=True)
    class Cools(Method):
        def phases(self, clock):
            return [Phase(rate={"head": 0.1 / (1 + clock.t)}, decay={"base": 0.01 * (clock.t + 1)})]

    simulation = start(Cools(), rounds=3, backend="graph")
    while not simulation.finished:
        simulation.step()
    assert len(simulation.backend._instances) == 1


def test_warming_up_for_a_capture_leaves_no_trace(simulate, monkeypatch: pytest.MonkeyPatch) -> None:
    """pFedFDA writes each batch to the next free rows of a store that holds one pass: further batches would lie outside of it."""
    method = build_method("pfedfda", {"folds": 3})
    expected = simulate(method, backend="graph").state_of(0)
    load = _StaticPhase.load

    def warmed_up(phase: _StaticPhase, inputs: Tree, active: list[int]) -> None:
        for count in set(active):
            phase._warm_up(phase._prefix(count), inputs)
        load(phase, inputs, active)

    monkeypatch.setattr(_StaticPhase, "load", warmed_up)
    found = simulate(method, backend="graph").state_of(0)
    told = [path for path in expected if "seconds" not in path and expected[path].dtype.kind != "U"]
    assert all(np.array_equal(found[path], expected[path], equal_nan=True) for path in told)


def test_no_garbage_is_collected_during_a_capture() -> None:
    with _no_collection():
        assert not gc.isenabled()
    assert gc.isenabled()
