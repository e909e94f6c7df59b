"""The federation: rows, batches, counts, the validation part, refusals."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import pflrepro
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError

LABELS = [0, 1, 2, 0, 1, 0, 2, 2, 1, 0]


def build(train: list | None = None, test: list | None = None, **changes) -> Federation:
    x = torch.arange(10 * 4, dtype=torch.uint8).view(10, 2, 2)
    return Federation(x, torch.tensor(LABELS), train or [[0, 1, 2], [5, 3, 4, 8]], test or [[6], [7, 9]], **changes)


def test_sizes_counts_and_info() -> None:
    federation = build(classes=4)
    assert federation.clients == 2 and federation.classes == 4 and federation.shape == (2, 2)
    assert federation.sizes("train").tolist() == [3, 4] and federation.sizes("test").tolist() == [1, 2]
    assert federation.sizes("valid").tolist() == [0, 0]
    assert federation.counts().tolist() == [[1, 1, 1, 0], [2, 2, 0, 0]]
    assert federation.counts("test").tolist() == [[0, 0, 1, 0], [1, 0, 1, 0]]
    info = federation.info()
    assert (
        info.id.tolist() == [0, 1]
        and info.n.tolist() == [3, 4]
        and info.counts.tolist() == federation.counts().tolist()
    )
    assert build().classes == 3, "without a number, the largest label decides"


def test_a_batch_has_the_runs_type_the_normalisation_and_a_channel() -> None:
    federation = build(unit=(0.5, -1.0))
    x, y = federation.batch(torch.tensor([[1, 0], [9, 9]]), torch.float64)
    assert x.shape == (2, 2, 1, 2, 2) and x.dtype == torch.float64
    assert x[0, 0, 0].tolist() == [[4 * 0.5 - 1, 5 * 0.5 - 1], [6 * 0.5 - 1, 7 * 0.5 - 1]]
    assert y.tolist() == [[1, 0], [0, 0]] and y.dtype == torch.int64
    assert federation.x.dtype == torch.uint8, "images stay as they are stored"


def test_vectors_and_coloured_images_get_no_channel() -> None:
    y = torch.tensor([0, 1])
    for shape in ((5,), (3, 4, 4)):
        federation = Federation(torch.ones(2, *shape), y, [[0]], [[1]])
        assert federation.batch(torch.tensor([0, 1]), torch.float32)[0].shape == (2, *shape)


def test_each_channel_has_its_own_scale_and_offset() -> None:
    x = torch.arange(2 * 3 * 2 * 2, dtype=torch.uint8).view(2, 3, 2, 2)
    unit = ((1.0, 0.5, 0.25), (0.0, -1.0, 2.0))
    federation = Federation(x, torch.tensor([0, 1]), [[0]], [[1]], unit=unit)
    for dtype in (torch.float32, torch.float64):
        values, _ = federation.batch(torch.tensor([[1], [0]]), dtype)
        assert values.dtype == dtype and values.shape == (2, 1, 3, 2, 2)
        assert values[0, 0, :, 0, 0].tolist() == [12.0, 16 * 0.5 - 1, 20 * 0.25 + 2]
    assert federation.to("cpu").hold_out(0.5).batch(torch.tensor([0]), torch.float32)[0][0, 1, 0, 1] == 5 * 0.5 - 1
    grey = Federation(x[:, 0], torch.tensor([0, 1]), [[0]], [[1]], unit=((0.5,), 1.0))
    assert grey.batch(torch.tensor([0]), torch.float32)[0][0, 0, 0].tolist() == [1.0, 1.5]
    with pytest.raises(UserError, match=r"2 channels does not fit samples of \[3, 2, 2\]"):
        Federation(x, torch.tensor([0, 1]), [[0]], [[1]], unit=((1.0, 1.0), 0.0))


def test_a_federation_by_name() -> None:
    import pflrepro.experiments.loading as loading

    assert pflrepro.load_federation is loading.load_federation
    digits = pflrepro.load_federation(pflrepro.DataConfig("digits", "iid", clients=5))
    assert isinstance(digits, pflrepro.Federation) and digits.clients == 5


def test_clients_without_training_samples_are_named() -> None:
    assert "without" not in repr(build())
    assert repr(build(train=[[0, 1], []])).endswith("3 test samples; clients without training samples: 1)")


@given(st.integers(2, 40), st.floats(0.05, 0.95), st.integers(0, 5))
def test_the_validation_part_is_the_share_of_each_client_and_takes_nothing_else(
    n: int, share: float, seed: int
) -> None:
    rows = np.random.default_rng(n).permutation(60)
    federation = Federation(
        torch.zeros(60, 1), torch.zeros(60, dtype=torch.int64), [rows[:n], rows[n : n + 3]], [[1], [2]], seed=seed
    )
    held = federation.hold_out(share)
    for client in (0, 1):
        train, valid = held.rows["train"][client], held.rows["valid"][client]
        assert sorted([*train, *valid]) == sorted(federation.rows["train"][client])
        assert len(valid) == int(len(federation.rows["train"][client]) * share)
    assert [part.tolist() for part in held.rows["test"]] == [[1], [2]]
    again = federation.hold_out(share)
    assert all((a == b).all() for a, b in zip(held.rows["valid"], again.rows["valid"], strict=True))
    assert federation.sizes("valid").tolist() == [0, 0], "the federation itself stays whole"


def test_the_validation_part_depends_on_the_partitions_seed_and_not_on_other_clients() -> None:
    def held(seed: int, others: int) -> list[int]:
        parts = [np.arange(20), *[np.arange(20, 30)] * others]
        return (
            Federation(torch.zeros(30, 1), torch.zeros(30), parts, [[0]] * len(parts), seed=seed)
            .hold_out(0.5)
            .rows["valid"][0]
            .tolist()
        )

    assert held(1, 0) == held(1, 3) != held(2, 0)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_no_validation_part_leaves_the_federation_as_it_is(share: float) -> None:
    federation = build()
    assert federation.hold_out(share) is federation


def test_info_counts_without_the_validation_part() -> None:
    held = build().hold_out(0.5)
    assert held.info().n.tolist() == held.sizes("train").tolist() == [2, 2]


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        ([[0, 10]], [[1]], r"must lie in 0..9, not 0..10"),
        ([[-1, 2]], [[1]], r"must lie in 0..9, not -1..2"),
        ([[0]], [[1], [2]], r"one training and one test part a client, not 1 and 2"),
    ],
)
def test_rows_outside_the_data_and_missing_parts_are_refused(train: list, test: list, message: str) -> None:
    with pytest.raises(UserError, match=message):
        build(train, test)


def test_heterogeneity_by_hand() -> None:
    y = torch.tensor([0, 0, 1, 1])
    alike = Federation(torch.zeros(4, 1), y, [[0, 2], [1, 3]], [[], []])
    apart = Federation(torch.zeros(4, 1), y, [[0, 1], [2, 3]], [[], []])
    assert alike.heterogeneity() == 0.0
    assert apart.heterogeneity() == 0.5


def test_it_shows_itself_in_one_line() -> None:
    expected = "Federation(toy: 2 clients, 3 classes, 7 training samples (3..4 a client), 3 test samples)"
    assert repr(build(name="toy")) == expected


def test_black_is_made_once_for_every_number_type() -> None:
    """A number copied from the host while a graph is captured would be an error there."""
    rows = [np.arange(2)]
    plain = Federation(torch.zeros(2, 4, 4, dtype=torch.uint8), torch.tensor([0, 1]), rows, rows, unit=(1 / 255, -0.5))
    coloured = Federation(
        torch.zeros(2, 3, 4, 4, dtype=torch.uint8),
        torch.tensor([0, 1]),
        rows,
        rows,
        unit=((1.0, 2.0, 3.0), (-1.0, 0.0, 1.0)),
    )
    for federation in (plain, coloured, plain.to("cpu"), plain.hold_out(0.5)):
        for dtype in (torch.float32, torch.float64):
            assert federation.black(dtype) is federation.black(dtype) and federation.black(dtype).dtype == dtype
    assert plain.black(torch.float64).item() == -0.5
    assert coloured.black(torch.float32).flatten().tolist() == [-1.0, 0.0, 1.0]
