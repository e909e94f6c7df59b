"""Label skew drawn from class sizes alone: FedBR's, pFedFDA's and GRP-FED's clients."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pflrepro.data.partition import partition
from pflrepro.data.partitions.fedbr import Lda
from pflrepro.data.partitions.parse import parse
from pflrepro.errors import UserError

TEN = np.full(10, 700)


def sizes_of(text: str, class_sizes: np.ndarray, clients: int, seed: int = 1, min_size: int = 0) -> np.ndarray:
    return parse(text).sizes(class_sizes, clients, seed, min_size)


class_sizes_of = (
    st.lists(st.integers(0, 80), min_size=1, max_size=8).map(np.array).filter(lambda sizes: sizes.sum() > 30)
)
SPECS = (
    "lda:0.1",
    "lda-flat:0.1",
    "fixed-size:0.1,2",
    "long-tail:0.7,0.5",
    "dirichlet:0.3",
)


@settings(max_examples=150)
@given(st.sampled_from(SPECS), class_sizes_of, st.integers(1, 12), st.integers(0, 2**40))
def test_no_class_gives_more_than_it_has(text: str, class_sizes: np.ndarray, clients: int, seed: int) -> None:
    sizes = sizes_of(text, class_sizes, clients, seed)
    assert sizes.dtype == np.int64 and sizes.shape == (clients, len(class_sizes))
    assert sizes.min() >= 0 and (sizes.sum(0) <= class_sizes).all()
    np.testing.assert_array_equal(sizes, sizes_of(text, class_sizes, clients, seed))
    per_client, total = sizes.sum(1).tolist(), int(class_sizes.sum())
    if text.startswith("lda"):
        assert per_client == [total // clients] * clients
    elif text.startswith("fixed-size"):
        assert per_client == [2] * clients
    else:
        assert sum(per_client) == total


@pytest.mark.parametrize("text", SPECS)
def test_another_seed_or_stream_gives_other_sizes(text: str) -> None:
    first = sizes_of(text, TEN, 20)
    assert (first != sizes_of(text, TEN, 20, seed=2)).any()
    assert (first != parse(text).sizes(TEN, 20, 1, 0, stream=1)).any()


# ---- FedBR -------------------------------------------------------------------------------------------------------------------


def test_lda_clients_hold_one_or_two_classes_and_flat_ones_more() -> None:
    """With total concentration 0.1 the largest class of a client has most of it; with 0.1 a class it does not."""
    largest = {}
    for text in ("lda:0.1", "lda-flat:0.1"):
        sizes = np.concatenate([sizes_of(text, np.full(10, 6000), 10, seed)[:4] for seed in range(20)])
        largest[text] = float((sizes.max(1) / sizes.sum(1)).mean())
    assert largest["lda:0.1"] > 0.88 and largest["lda-flat:0.1"] < 0.75


def test_an_exhausted_class_leaves_the_draw() -> None:
    """The last client takes exactly what is left, however small the concentration."""
    for alpha in ("1e-6", "0.1", "1e6"):
        sizes = sizes_of(f"lda:{alpha}", np.array([5, 0, 7, 4]), 4)
        assert sizes.sum(0).tolist() == [5, 0, 7, 4]
    assert (sizes_of("lda:1e-300", np.array([6, 6]), 3).max(1) >= 2).all()


def test_lda_with_a_huge_concentration_is_a_draw_from_the_pool() -> None:
    sizes = sizes_of("lda:1e9", np.array([8000, 2000]), 2)
    assert abs(int(sizes[0, 0]) - 4000) < 200  # binomial(5000, 0.8), standard deviation 28, almost without replacement


def test_lda_leaves_the_rest_of_the_division_unused() -> None:
    division = partition("lda:0.1", torch.arange(103) % 5, 10, min_size=1)
    assert division.sizes() == [10] * 10


def test_drawing_at_once_is_drawing_one_by_one() -> None:
    """Two classes of 1 and 9 samples, prior (0.5, 0.5), 3 draws: the first class is drawn with probability 1 - 0.5^3."""
    random = np.random.default_rng(0)
    left = np.array([1, 9])
    taken = [Lda(0.1).draw_classes(np.array([0.5, 0.5]), 3, left, random)[0] for _ in range(4000)]
    assert abs(np.mean(taken) - 0.875) < 0.02


# ---- pFedFDA -----------------------------------------------------------------------------------------------------------------


def test_pfedfda_has_its_own_minimum_and_the_rule_of_dirichlet() -> None:
    labels = torch.arange(10).repeat_interleave(800)
    ours = partition("pfedfda-dirichlet:0.5", labels, 50, test_share=0.2)
    assert min(ours.sizes()) >= 63 and min(len(train) for train in ours.train) >= 50
    same = partition("dirichlet:0.5", labels, 50, test_share=0.2, min_size=63)
    assert all(a.equal(b) for a, b in zip(ours.train, same.train, strict=True))


def test_fixed_size_clients_have_fifty_training_samples() -> None:
    labels = torch.arange(100).repeat_interleave(600)
    division = partition("fixed-size:0.1,63", labels, 100, test_share=0.2)
    assert {len(train) for train in division.train} == {50} and {len(test) for test in division.test} == {13}
    held = (division.counts(labels) > 0).sum(1).double().mean()
    assert 4 < held < 20  # a Dirichlet(0.1) prior over 100 classes, seen 63 times


def test_fixed_size_takes_the_last_sample() -> None:
    sizes = sizes_of("fixed-size:1e-9,5", np.array([10, 0, 10]), 4)
    assert sizes.sum(0).tolist() == [10, 0, 10] and sizes.sum(1).tolist() == [5] * 4


def test_fixed_size_follows_the_priors() -> None:
    """With a huge concentration every prior is uniform: equal expected numbers of every class."""
    sizes = sizes_of("fixed-size:1e9,400", np.full(4, 4000), 10)
    assert sizes.min() > 60 and sizes.max() < 140  # 100 each, standard deviation 8.7


# ---- GRP-FED -----------------------------------------------------------------------------------------------------------------


def test_long_tailed_sizes_and_profiles() -> None:
    sizes = sizes_of("long-tail:0.7,0.5", np.full(10, 6000), 50)
    totals = sizes.sum(1)
    assert totals.sum() == 60_000 and (np.diff(totals) <= 0).all()
    assert abs(totals[-1] / totals[0] - 0.7) < 0.001 and 1410 <= totals[0] <= 1430  # "about 1420"
    shares = np.sort(sizes[0])[::-1] / totals[0]
    np.testing.assert_allclose(shares, 0.5 ** np.arange(10) / (2 - 0.5**9), atol=0.001)


def test_a_class_that_runs_out_passes_its_deficit_on() -> None:
    """One class order a client: where the favourite is gone the next takes its place, and every client has its full size."""
    sizes = sizes_of("long-tail:1,0.5", np.array([10, 1000]), 2)
    assert sizes.sum(1).tolist() == [505, 505] and sizes.sum(0).tolist() == [10, 1000]


# ---- errors and pins ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "options", "words"),
    [
        ("fixed-size:0.1,26", {}, "4 clients with 26 samples each need 104 samples; there are 100"),
        ("fixed-size:0.1,5", {"min_size": 6}, "gives the smallest 5 samples, fewer than min_size = 6"),
        ("long-tail:0.1,0.5", {"min_size": 20}, "fewer than min_size = 20"),
        ("pfedfda-dirichlet:0.5", {}, "4 clients with min_size = 63 samples each need 252 samples; there are 100"),
        ("lda:0.1", {"min_size": 26}, "need 104 samples"),
    ],
)
def test_impossible_requests(spec: str, options: dict, words: str) -> None:
    with pytest.raises(UserError) as caught:
        partition(spec, torch.arange(100) % 5, 4, **options)
    assert words in str(caught.value) and "\n" not in str(caught.value)


# Pinned draws: a change means that published numbers of runs no longer belong to the partition that their identity names.
GOLDEN = {
    "lda:0.1": "f7ebafde68a7d4a1",
    "lda-flat:0.1": "f08fc2d9f2564f6a",
    "fixed-size:0.1,63": "bdef974fe794660f",
    "long-tail:0.7,0.5": "31cd963a88f1a03c",
    "pfedfda-dirichlet:0.5": "f666e19d3ae1429e",
    "group-dirichlet:0.5": "5f5bfd44c6bdecaa",
    "dirichlet:0.1+of=20+train-share=0.5": "e0ec80dda9472971",
}


@pytest.mark.parametrize("spec", GOLDEN)
def test_the_draws_are_those_they_were(spec: str) -> None:
    labels = torch.arange(2000) * 7 % 10
    division = partition(spec, labels, 10, groups=torch.arange(2000) % 2, min_size=10)
    content = b"|".join(part.numpy().astype("<i8").tobytes() for part in (*division.train, *division.test))
    assert hashlib.sha256(content).hexdigest()[:16] == GOLDEN[spec]
