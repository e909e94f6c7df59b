"""What a method supplies to all clients: means of samples, and which round's supply the clients hold."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.dbe import DBE
from pflrepro.data.federation import Federation
from pflrepro.simulation.source import DataSource, Supplies
from pflrepro.trees import Tree


@pytest.fixture
def data() -> Federation:
    """Two clients with two and three 2x2 images of one value each; proxy images of other values and units."""
    x = torch.tensor([0, 10, 20, 40, 80], dtype=torch.uint8)[:, None, None].expand(5, 2, 2)
    far = torch.tensor([1, 3, 5, 7], dtype=torch.uint8)[:, None, None].expand(4, 2, 2)
    proxy = Federation(far, torch.tensor([0, 0, 1, 1]), [np.arange(4)], [[]], unit=(2.0, 0.0))
    return Federation(
        x, torch.tensor([0, 1, 2, 2, 0]), [[0, 1], [2, 3, 4]], [[], []], classes=4, unit=(0.1, -1.0), proxy=proxy
    )


@pytest.fixture
def source(data: Federation) -> DataSource:
    return DataSource(data, seed=3, dtype=torch.float64, batch_size=5)


# ---- the source ----------------------------------------------------------------------------------------------------------------
def test_it_tells_what_there_is(data, source) -> None:
    assert (source.shape, source.classes, source.clients, source.batch_size) == ((1, 2, 2), 4, 2, 5)
    assert [rows.tolist() for rows in source.rows] == [[0, 1], [2, 3, 4]]
    assert source.labels.tolist() == [0, 1, 2, 2, 0]
    assert source.proxy_rows == 4
    data.proxy = None
    assert DataSource(data, 3, torch.float64, 5).proxy_rows == 0


def test_means_of_samples_and_labels(source) -> None:
    """Values 0, 10, 20, 40, 80 are trained on as -1, 0, 1, 3, 7."""
    means = source.means(np.array([[0, 1, 2], [3, 3, 4]]))
    assert means.x.shape == (2, 1, 2, 2)
    torch.testing.assert_close(
        means.x[:, 0, 0, 0], torch.tensor([0.0, 13 / 3], dtype=torch.float64), rtol=0, atol=1e-15
    )
    expected = torch.tensor([[1, 1, 1, 0], [1, 0, 2, 0]], dtype=torch.float64) / 3
    torch.testing.assert_close(means.y, expected, rtol=0, atol=1e-15)


def test_proxy_means_are_in_the_units_of_the_proxy_data(source) -> None:
    """Values 1, 3, 5, 7 are trained on as 2, 6, 10, 14."""
    means = source.proxy_means(np.array([[0, 1], [2, 3], [0, 3]]))
    assert means.shape == (3, 1, 2, 2) and means.dtype == torch.float64
    assert means[:, 0, 1, 1].tolist() == [4.0, 12.0, 8.0]


def test_numbers_take_the_runs_type(source) -> None:
    assert source.tensor(np.arange(3)).dtype == torch.float64
    assert source.tensor(torch.ones(2, dtype=torch.float32)).dtype == torch.float64


def test_streams_differ_by_seed_purpose_round_and_client(data, source) -> None:
    other = DataSource(data, 4, torch.float64, 5)
    streams = [
        source.generator("a"),
        other.generator("a"),
        source.generator("b"),
        source.generator("a", 1),
        source.generator("a", 0, 1),
    ]
    assert len({stream.integers(2**62) for stream in streams}) == 5
    assert source.generator("a", 1, 2).random() == source.generator("a", 1, 2).random()


# ---- which round's supply ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Supplying(Method):
    """Gives the round's number in every round of `when`."""

    when: tuple[int, ...] = ()
    asked: list = field(default_factory=list, compare=False)

    def supply(self, source, t):
        self.asked.append(t)
        return Tree(t=torch.tensor(t)) if t in self.when else None


def held(supplies: Supplies, t: int) -> int | None:
    tree = supplies.at(t)
    return None if tree is None else int(tree.t)


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ((), [None] * 6),
        ((0,), [0] * 6),
        (range(6), [0, 1, 2, 3, 4, 5]),
        ((0, 3), [0, 0, 0, 3, 3, 3]),
        ((2,), [None, None, 2, 2, 2, 2]),
    ],
)
def test_clients_hold_the_newest_supply(source, when, expected) -> None:
    method = Supplying(tuple(when))
    supplies = Supplies(method, source)
    assert [held(supplies, t) for t in range(6)] == expected
    assert method.asked == list(range(6))  # once a round
    for t in range(6):  # a run that starts in round t, and one that goes back to it
        assert held(Supplies(method, source), t) == expected[t]
        assert held(supplies, 5) == expected[5] and held(supplies, t) == expected[t]


def test_it_is_asked_once_however_often_it_is_read(source) -> None:
    method = Supplying((0,))
    supplies = Supplies(method, source)
    for t in (0, 0, 1, 1, 1, 2):
        assert held(supplies, t) == 0
    assert method.asked == [0, 1, 2]


def test_a_prologue_has_no_supply_and_no_round_of_it_is_asked_for(source) -> None:
    method = Supplying((-3, -2, -1, 0))
    supplies = Supplies(method, source)
    assert [held(supplies, t) for t in (-3, -2, -1, 0, 1)] == [None, None, None, 0, 0]
    assert method.asked == [0, 1]


@dataclass(frozen=True)
class Reading(Supplying):
    """Keeps (round, the supply that a client sees at its start; -1 without)."""

    seen: list = field(default_factory=list, compare=False)

    def begin(self, common, own, client, ctx):
        self.seen.append((int(ctx.scalars.t), int(common.supplied.t) if "supplied" in common else -1))
        return super().begin(common, own, client, ctx)


@pytest.mark.parametrize(
    ("when", "expected"), [((0, 2), {(0, 0), (1, 0), (2, 2), (3, 2)}), ((), {(0, -1), (1, -1), (2, -1), (3, -1)})]
)
def test_clients_are_given_the_supply_of_their_round(simulate, when, expected) -> None:
    method = Reading(when)
    simulate(method, rounds=4)
    assert set(method.seen) == expected


def test_a_prologue_of_a_plugin_runs_beside_a_supply(simulate) -> None:
    both = dataclass(frozen=True)(type("Both", (DBE, Reading), {}))(when=(0,))
    simulate(both, rounds=1)
    assert set(both.seen) == {(0, 0)} and min(both.asked) == 0
