"""The papers' own partitions: the shipped counts, and the recipe that must reproduce them."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch

from pflrepro.data.datasets import load_arrays
from pflrepro.data.partition import Partition, partition
from pflrepro.data.published import published_counts, published_names, published_summary, read_counts
from pflrepro.errors import CorruptFile, MissingData, UserError

# Read before the fixture that hides the user's data root from tests.
DATA_ROOT = os.environ.get("PFLREPRO_DATA")
# The counts depend on class sizes alone, so labels of the right sizes stand in for the real ones.
CLASS_SIZES = {
    "fmnist": [7000] * 10,
    "mnist": [6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958],
    "cifar100": [600] * 100,
    "tiny": [500] * 200,
    "agnews": [31900] * 4,
}
# SHA-256 of client 0's training rows, its test rows, client 1's training rows, ... as little-endian int64, from the real labels.
SAMPLE_EXACT = {
    "fmnist_dir0.1_n20": "23062dbf09be4c3197df2071edc6bb004e631d7823f267f89a40047ba415b967",
    "mnist_dir0.1_n20": "3b9b82afd84092c74a9db19444ae76c34ca030c161d45a2f3fa2f065f657ced5",
    "fmnist_pat2_n20": "830b68b468f14a3f0e07408c093e14a8fd211c7e5424b682c1ab19c2c2312d8c",
    "fmnist_pat2_n10": "3735e2f0b75978a443d7de12ace254f321bcce4d6668bb161fadf9bea7a35452",
}


def scenario(name: str) -> tuple[str, str, int]:
    """Data set, specification and number of clients of a shipped partition."""
    dataset, kind, clients = name.split("_")
    recipe = {"dir": "pfllib-dirichlet", "pat": "pfllib-pathological"}[kind[:3]]
    return dataset, f"{recipe}:{kind[3:]}", int(clients[1:])


def stand_in(dataset: str) -> torch.Tensor:
    """Labels of the right class sizes, in a random order."""
    sizes = CLASS_SIZES[dataset]
    labels = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    return labels[torch.from_numpy(np.random.default_rng(5).permutation(len(labels)))]


def digest(division: Partition) -> str:
    hasher = hashlib.sha256()
    for train, test in zip(division.train, division.test, strict=True):
        for rows in (train, test):
            hasher.update(rows.numpy().astype("<i8").tobytes())
    return hasher.hexdigest()


def test_the_shipped_partitions() -> None:
    assert len(published_names()) == 16 and {"fmnist_dir0.1_n20", "mnist_dir0.1_n20"} <= set(published_names())
    assert published_counts("fmnist_dir0.1_n20")[0].tolist() == [67, 1, 0, 0, 0, 0, 2, 0, 5, 7]


@pytest.mark.parametrize("name", published_names())
def test_the_recipe_gives_the_published_counts_and_sizes(name: str) -> None:
    dataset, spec, clients = scenario(name)
    labels = stand_in(dataset)
    division = partition(spec, labels, clients)
    np.testing.assert_array_equal(division.counts(labels).numpy(), published_counts(name))
    rows = defaultdict(list)
    for row in published_summary():
        rows[row["partition"]].append((row["train"], row["test"]))
    assert [(len(train), len(test)) for train, test in zip(division.train, division.test, strict=True)] == rows[name]


@pytest.mark.parametrize("name", published_names())
def test_the_published_counts_are_replayed(name: str) -> None:
    labels = stand_in(scenario(name)[0])
    division = partition(f"counts:{name}", labels, seed=3)
    np.testing.assert_array_equal(division.counts(labels).numpy(), published_counts(name))
    assert len(torch.cat([*division.train, *division.test]).unique()) == len(labels)


@pytest.mark.skipif(DATA_ROOT is None, reason="needs the real labels: set PFLREPRO_DATA")
@pytest.mark.parametrize("name", SAMPLE_EXACT)
def test_the_recipe_is_sample_exact_on_the_real_labels(name: str) -> None:
    dataset, spec, clients = scenario(name)
    try:
        labels = torch.from_numpy(load_arrays(dataset, DATA_ROOT).y)
    except MissingData as error:
        pytest.skip(str(error))
    assert digest(partition(spec, labels, clients)) == SAMPLE_EXACT[name]


def test_the_recipe_sample_by_sample_on_small_data() -> None:
    """A literal transcription of the recipe with numpy's global generator gives the same rows in the same order."""
    labels = np.random.default_rng(2).integers(0, 3, 240)
    saved = np.random.get_state()
    try:
        np.random.seed(1)
        smallest = 0
        while smallest < 20:
            rows_of = [[] for _ in range(4)]
            for label in range(3):
                rows = np.where(labels == label)[0]
                np.random.shuffle(rows)
                p = np.random.dirichlet([0.5] * 4)
                p = np.array([q * (len(have) < 240 / 4) for q, have in zip(p, rows_of, strict=True)])
                cuts = (np.cumsum(p / p.sum()) * len(rows)).astype(int)[:-1]
                for have, part in zip(rows_of, np.split(rows, cuts), strict=True):
                    have += part.tolist()
            smallest = min(len(have) for have in rows_of)
        expected = []
        for have in rows_of:
            order = np.random.permutation(len(have))
            cut = len(have) - int(0.75 * len(have))
            expected.append((np.array(have)[order[cut:]].tolist(), np.array(have)[order[:cut]].tolist()))
    finally:
        np.random.set_state(saved)
    division = partition("pfllib-dirichlet:0.5", torch.from_numpy(labels), 4, min_size=20)
    assert [(a.tolist(), b.tolist()) for a, b in zip(division.train, division.test, strict=True)] == expected


def test_pathological_blocks_are_those_of_the_papers() -> None:
    labels = stand_in("fmnist")
    held = partition("pfllib-pathological:2", labels, 20).counts(labels) > 0
    for client in range(20):
        block = client // 4
        assert held[client].nonzero().flatten().tolist() == [2 * block, 2 * block + 1]


def test_the_legacy_recipes_leave_the_global_generator_alone() -> None:
    before = np.random.get_state()[1].copy()
    partition("pfllib-dirichlet:0.1", stand_in("fmnist"), 20)
    np.testing.assert_array_equal(np.random.get_state()[1], before)


def test_a_table_of_counts_is_read(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text("client,label,count\n0,1,3\n2,0,5\n")
    assert read_counts(path).tolist() == [[0, 3], [0, 0], [5, 0]]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "first line must be client,label,count"),
        ("client,label\n0,1\n", "first line"),
        ("client,label,count\n", "counts no sample"),
        ("client,label,count\n0,0,0\n", "counts no sample"),
        ("client,label,count\n0,1,3\n0,1,4\n", "line 3: client 0, label 1 occurs twice"),
        ("client,label,count\n0,1,-3\n", "line 2: expected three whole numbers"),
        ("client,label,count\n0,1,3.5\n", "line 2"),
        ("client,label,count\n0,1\n", "line 2"),
        ("client,label,count\n99999999,99999999,1\n", "cells"),
        ("client,label,count\n9999999,9,1\n", "cells"),
        ("client,label,count\n0,1,\xff\xfe\n", "line 2"),
    ],
)
def test_a_wrong_table_of_counts_is_refused(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "counts.csv"
    path.write_text(content)
    with pytest.raises(CorruptFile, match=words) as caught:
        read_counts(path)
    assert "counts.csv" in str(caught.value) and "\n" not in str(caught.value)


def test_a_binary_file_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "counts.csv").write_bytes(b"\x89PNG\x00\xff")
    with pytest.raises(CorruptFile):
        read_counts(tmp_path / "counts.csv")


def test_names_and_paths_of_counts_are_checked(tmp_path: Path) -> None:
    labels = stand_in("fmnist")
    with pytest.raises(UserError, match=r"unknown published partition 'fmnist_dir0.2_n20'; valid: fmnist_dir0.1_n20"):
        partition("counts:fmnist_dir0.2_n20", labels)
    (tmp_path / "far.csv").write_text(f"client,label,count\n{len(labels)},1,1\n")
    with pytest.raises(UserError, match=f"far.csv names client {len(labels)}, but the data set has"):
        partition(f"counts:{tmp_path / 'far.csv'}", labels, min_size=0)
    with pytest.raises(UserError, match="no table of counts"):
        partition(f"counts:{tmp_path / 'none.csv'}", labels)
    with pytest.raises(UserError, match=r"asks? for [0-9,]+ samples of class"):
        partition("counts:mnist_dir0.1_n20", labels)
    with pytest.raises(UserError, match="has 20 clients, not 10"):
        partition("counts:fmnist_dir0.1_n20", labels, 10)
