"""Rows that workers write where the parent reads them: the same numbers, no room used twice at a time, none left behind."""

from __future__ import annotations

import gc
import os
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pflrepro.algorithms import build_method
from pflrepro.simulation import stacking
from pflrepro.simulation.row_pool import RowPool
from pflrepro.simulation.stacking import ALIGNED, Rooms, Stacking, alike, laid_out, written
from pflrepro.simulation.workers import Workers
from pflrepro.trees import Tree

pytestmark = pytest.mark.skipif(not stacking.POSSIBLE, reason="the system has no memory without a name")


@pytest.fixture(autouse=True)
def _small_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of any size are shared."""
    monkeypatch.setattr(stacking, "SMALL", 1)
    stacking._opened.cache_clear()


def row(number: float = 0.0) -> Tree:
    return Tree(
        w=torch.full((2, 3), float(number)), client=Tree(), scores=Tree(n=torch.tensor(3), ok=torch.tensor(True))
    )


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 3), max_size=3), st.sampled_from(["float32", "int64", "bool"])), min_size=1
    ),
    st.integers(1, 4),
)
def test_leaves_lie_apart_and_aligned(leaves: list, count: int) -> None:
    like = Tree({str(k): torch.zeros(shape, dtype=getattr(torch, dtype)) for k, (shape, dtype) in enumerate(leaves)})
    size, parts = laid_out(like, count)
    ends = [
        (part.start, part.start + count * leaf.nbytes) for part, leaf in zip(parts.values(), like.values(), strict=True)
    ]
    assert all(start % ALIGNED == 0 for start, _ in ends) and ends[-1][1] == size
    assert all(end <= start for (_, end), (start, _) in pairwise(ends))
    assert alike(parts, like) and laid_out(parts, count) == (size, parts)


def test_a_worker_writes_where_the_parent_reads() -> None:
    stack = Stacking(3, Rooms(), laid_out(row(), 3)[1])
    for i in range(3):
        assert written(stack.shared, i, row(i))
    assert stack.stacked.w[:, 1, 2].tolist() == [0, 1, 2] and stack.stacked.scores.ok.all()
    assert stack.stacked.client == Tree() and stack.stacked.scores.n.tolist() == [3, 3, 3]
    other = Tree(w=torch.zeros(2, 2), client=Tree(), scores=row().scores)
    assert not written(stack.shared, 0, other) and not written(stack.shared, 0, row().without(["client"]))
    stacking._opened.cache_clear()
    assert not written(stack.shared._replace(file=10**6), 0, row(5)), "what cannot be opened comes another way"
    stack.put(0, other)
    assert stack.shared is None or stack.shared.parts.w.shape == (2, 2)
    assert stack.stacked.w.shape == (3, 2, 2)


def test_a_room_is_used_again_only_when_no_tensor_lies_in_it() -> None:
    rooms, parts = Rooms(), laid_out(row(), 2)[1]
    first = Stacking(2, rooms, parts)
    first.put(0, row(7))
    kept, number = first.stacked.w[0], first.shared.number
    del first
    second = Stacking(2, rooms, parts)
    assert second.shared.number != number and written(second.shared, 0, row(8)) and kept.tolist() == [[7.0] * 3] * 2
    del kept, second
    gc.collect()
    third = Stacking(2, rooms, parts)
    assert third.shared.number in (number, number + 1), "one of both rooms is there again"
    room = third._room
    assert room.size == third.shared.size
    third.leave()
    assert room.left and third.shared is None
    del third
    gc.collect()
    assert rooms._free is not room, "somebody may still write to it"


def test_a_round_with_tests_and_one_without_share_a_room() -> None:
    rooms, tested = Rooms(), row() | Tree(after=Tree(correct=torch.tensor(0)))
    numbers = []
    for like in (tested, row(), tested):
        stack = Stacking(2, rooms, laid_out(like, 2)[1])
        assert written(stack.shared, 1, like)
        numbers.append(stack.shared.number)
        del stack
        gc.collect()
    assert len(set(numbers)) == 1
    assert Stacking(40, rooms, laid_out(row(), 40)[1]).shared.number != numbers[0], "too small"


def test_nothing_is_left_open() -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    rooms = Rooms()
    stacks = [Stacking(2, rooms, laid_out(row(), 2)[1]) for _ in range(3)]
    assert len(os.listdir("/proc/self/fd")) > before
    stacks[0].leave()
    del stacks, rooms
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("name", ["ditto", "scaffold"])
def test_shared_stacks_change_no_bit(simulate, differ, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(RowPool, "_pays", lambda self, program, work, load: self.workers.count > 1)
    came, put = [], Stacking.put
    monkeypatch.setattr(Stacking, "put", lambda self, i, row: came.append(i) or put(self, i, row))
    here, there = (simulate(build_method(name), workers=workers, seeds=[0, 3], rounds=3) for workers in (1, 2))
    rows = len(here.replicas) * here.task.clients
    local = 3 * rows + 4 * rows  # each round, and a test after each and before the first
    # through the pipe come, of each kind of work, at most all rows of the first time
    assert local < len(came) <= local + 2 * rows
    for mine, other in zip(*(run.replicas for run in (here, there)), strict=True):
        assert all(differ(mine.trees[name], other.trees[name]) == 0.0 for name in mine.trees)


def test_a_worker_that_keeps_much_memory_is_not_started_anew() -> None:
    """loky reads its limit where the worker starts."""
    limit = Workers(2)._executor().submit(os.getenv, "LOKY_MAX_MEMORY_LEAK_SIZE").result()
    assert float(limit) > 2**50
