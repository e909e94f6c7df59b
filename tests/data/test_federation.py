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
            Federation(torch.zeros(30, 1), [0] * 30, parts, [[0]] * len(parts), seed=seed)
            .hold_out(0.5)
            .rows["valid"][0]
            .tolist()
        )

    assert held(1, 0) == held(1, 3) != held(2, 0)


def test_no_validation_part_leaves_the_federation_as_it_is() -> None:
    federation = build()
    assert federation.hold_out(0.0) is federation


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


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_data_may_be_arrays_or_lists_and_rows_masks(kind) -> None:
    x, masks = np.arange(30.0).reshape(10, 3), np.zeros((2, 10), dtype=bool)
    masks[0, [0, 3]] = masks[1, 5] = True
    made = Federation(kind(x.tolist()), kind(LABELS), [kind(mask.tolist()) for mask in masks], [kind([6]), kind([])])
    assert made.batch(torch.tensor([1]), torch.float64)[0].tolist() == [[3.0, 4.0, 5.0]]
    assert [part.tolist() for part in made.rows["train"]] == [[0, 3], [5]], "the rows that a mask marks"
    assert [part.tolist() for part in made.rows["test"]] == [[6], []] and made.counts("test").tolist()[0] == [0, 0, 1]
    assert all(part.dtype == np.int64 for parts in made.rows.values() for part in parts)
    x.setflags(write=False)  # as pandas gives arrays; and in another byte order
    assert Federation(x[::-1].astype(">f8"), LABELS, [[0]], [[1]]).x[0].tolist() == [27.0, 28.0, 29.0]
    assert Federation(x, LABELS, [[0]], [[1]]).x.dtype == torch.float64


X, SPLIT = torch.zeros(10, 3), ([[0, 1, 2]], [[3, 4]])
CLIENT = r"rows of client 0 must be a list of whole numbers in 0\.\.9, or a mask of 10 true or false, not "


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": X[:, 0]}, r"x must be numbers \[samples, ...\], not torch.float32 of shape \[10\]"),
        ({"x": X[:0]}, r"x must be numbers \[samples, ...\], not torch.float32 of shape \[0, 3\]"),
        ({"x": X + 1j}, r"x must be numbers .* not torch.complex64"),
        ({"x": [["a"]] * 10}, r"x must be a tensor or an array of numbers, not \[\['a'\], "),
        ({"y": LABELS[:9]}, "one label a sample: there are 9 labels and 10 samples"),
        ({"y": torch.tensor(LABELS) - 1}, r"labels must be >= 0, not -1\.\.1"),
        ({"y": torch.tensor(LABELS) + 1, "classes": 3}, r"labels must be 0\.\.2, for 3 classes, not 1\.\.3"),
        ({"y": torch.tensor(LABELS) / 2}, "y must be a vector of whole numbers, not torch.float32"),
        ({"y": torch.eye(3)[LABELS]}, r"y must be a vector of whole numbers, not torch.float32 of shape \(10, 3\)"),
        ({"classes": "three"}, "classes must be a whole number >= 1, not 'three'"),
        ({"train": [[True, False]]}, rf"train {CLIENT}\[True, False\]"),
        ({"train": [[0.0, 1.0]]}, rf"train {CLIENT}\[0.0, 1.0\]"),
        ({"train": [[[0], [1, 2]]]}, rf"train {CLIENT}\[\[0\], \[1, 2\]\]"),
        ({"test": [1]}, f"test {CLIENT}1"),
        ({"test": 5}, r"test rows must be one list of row numbers a client, such as \[\[0, 1\], \[2\]\], not 5"),
        ({"train": [[], []], "test": [[], []]}, "none of the 2 clients has a training or test row"),
        ({"unit": (1 / 8,)}, r"unit must be \(scale, offset\), each a finite number .* not \(0.125,\)"),
        ({"unit": ("1", 0)}, r"unit must be \(scale, offset\)"),
        ({"unit": (1, float("nan"))}, r"unit must be \(scale, offset\)"),
        ({"unit": 2}, r"unit must be \(scale, offset\)"),
        ({"device": "gpu"}, "no device 'gpu' on this machine; valid: auto, cpu"),
        ({"proxy": "svhn"}, "proxy must be a Federation, not 'svhn'"),
        ({"seed": -1}, "seed must be a whole number >= 0, not -1"),
    ],
)
def test_own_data_that_are_none_are_refused_in_one_line(changes: dict, message: str) -> None:
    given = {"x": X, "y": LABELS, "train": SPLIT[0], "test": SPLIT[1]} | changes
    with pytest.raises(UserError, match=f"^[^\n]*{message}[^\n]*$"):
        Federation(**given)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_samples_with_numbers_that_are_not_finite_are_refused(value: float, dtype: torch.dtype) -> None:
    broken = X.to(dtype, copy=True)
    broken[[3, 7], 1] = value
    with pytest.raises(
        UserError, match="x must be finite: 2 of 10 samples have a NaN or infinite number, sample 3 first"
    ):
        Federation(broken, LABELS, *SPLIT)


def test_a_client_that_is_tested_on_what_it_trains_on_is_warned_of_and_rows_of_others_are_not(caplog) -> None:
    Federation(X, LABELS, [[0, 1], [2], [0]], [[3, 2], [3, 0], [3]])
    assert caplog.messages == []
    Federation(X, LABELS, [[0], [1, 2], [4]], [[3], [4, 2, 1], [4, 5]])
    assert caplog.messages == ["2 of 3 clients are tested on samples that they train on, client 1 first, on row 2"]


def test_clients_splits_shares_and_devices_that_are_not_there_are_refused() -> None:
    federation = build()
    assert federation.part(np.array([1, 0, 1])).sizes("train").tolist() == [4, 3, 4]
    for clients, message in (
        ([2], r"clients must lie in 0\.\.1, not 2\.\.2"),
        ([-1], "not -1"),
        (1, "not 1$"),
        ([], "not none"),
    ):
        with pytest.raises(UserError, match=message):
            federation.part(clients)
    for count in (federation.counts, federation.sizes):
        with pytest.raises(UserError, match="unknown split 'tests'; valid: test, "):
            count("tests")
    for share in (1.0, 2, -0.1, "half"):
        with pytest.raises(UserError, match="share of validation samples must be a number >= 0 and < 1, not "):
            federation.hold_out(share)
    with pytest.raises(UserError, match="no device 'gpu' on this machine"):
        federation.to("gpu")


def test_data_are_loaded_onto_the_device_that_a_name_stands_for() -> None:
    digits = pflrepro.DataConfig("digits", "iid", clients=5)
    assert pflrepro.load_federation(digits, device="auto").device.type == (
        "cuda" if torch.cuda.is_available() else "cpu"
    )
    with pytest.raises(UserError, match="no device 'cuda:99' on this machine; valid: auto, cpu"):
        pflrepro.load_federation(digits, device="cuda:99")


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
