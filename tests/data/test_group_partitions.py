"""Partitions that follow the groups of a data set: writers, patients, users, domains."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pflrepro.data.datasets import DATASETS
from pflrepro.data.federation import Federation
from pflrepro.data.partition import partition
from pflrepro.errors import UserError


def test_small_groups_can_be_left_out() -> None:
    """Writers with a single sample cannot have a training and a test part [pFedFDA: at least 2]."""
    groups = torch.tensor([7, 3, 3, 9, 3, 9])
    division = partition("group:2", torch.zeros(6, dtype=torch.int64), groups=groups)
    assert [train.tolist() + test.tolist() for train, test in zip(division.train, division.test, strict=True)] != []
    assert division.sizes() == [3, 2]
    assert division.assignment(6)[0].tolist() == [-1, 0, 0, 1, 0, 1]
    with pytest.raises(UserError, match="no group has 4 samples"):
        partition("group:4", torch.zeros(6, dtype=torch.int64), groups=groups)
    with pytest.raises(UserError, match="has 2 clients, not 3"):
        partition("group:2", torch.zeros(6, dtype=torch.int64), 3, groups=groups)


@pytest.mark.parametrize(
    ("spec", "share", "words"),
    [
        (
            "group",
            0.25,
            "leaves 2 of 4 clients without training samples, client 1 first, which has 1 in all; group:2 leaves",
        ),
        (
            "group",
            0.6,
            "leaves 3 of 4 clients without training samples, client 1 first, which has 1 in all; group:3 leaves",
        ),
        ("group:2", 0.6, "leaves 1 of 2 clients without training samples, client 1 first, which has 2 in all; group:3"),
        (
            "group-classes:2",
            0.25,
            "client 1 first, which has 1 in all; min_size = 0 allows clients that are only tested",
        ),
    ],
)
def test_a_client_without_training_samples_is_refused(spec: str, share: float, words: str) -> None:
    """Group 7 has rows 0, 1, 4, 8; groups 8 and 11 have one row each, group 9 has two."""
    groups, labels = torch.tensor([7, 7, 8, 9, 7, 9, 11, 7]), torch.tensor([0, 0, 0, 1, 0, 0, 0, 1])
    common = {"groups": groups, "test_share": share}
    if spec == "group-classes:2":
        common["groups"] = torch.zeros(8, dtype=torch.int64)
        labels = torch.tensor([0, 0, 0, 0, 0, 0, 0, 1])
    with pytest.raises(UserError) as caught:
        partition(spec, labels, **common)
    assert words in str(caught.value) and "\n" not in str(caught.value)
    division = partition(spec, labels, min_size=0, **common)
    held = [len(train) for train in division.train]
    assert 0 in held and sum(division.sizes()) == (8 if spec != "group:2" else 6)
    single = partition(spec + "+stratified", labels, **common)
    assert min(len(train) for train in single.train) >= 1, "a single sample of a class trains"


def test_only_the_chosen_clients_must_have_training_samples() -> None:
    groups = torch.tensor([1, 1, 1, 2, 3, 3])
    labels = torch.zeros(6, dtype=torch.int64)
    assert partition("group+first-of=all", labels, 1, groups=groups).sizes() == [3]
    with pytest.raises(UserError, match="leaves 1 of 2 clients without training samples, client 1 first"):
        partition("group+first-of=all", labels, 2, groups=groups)
    with pytest.raises(UserError, match="'iid' leaves 6 of 6 clients without training samples"):
        partition("iid", labels, 6)


def test_with_held_out_samples_the_same_clients_are_refused() -> None:
    """What is chosen on held-out samples would be refused in the end: a client with a single sample has it in its test part."""
    groups, labels = torch.tensor([1, 1, 1, 2, 3, 3]), torch.zeros(6, dtype=torch.int64)
    with pytest.raises(UserError, match="leaves 1 of 3 clients without training samples, client 1 first; "):
        partition("group+validation=0.4", labels, 3, groups=groups, min_size=1)


def test_a_client_without_any_sample_is_refused() -> None:
    labels = torch.arange(1797) % 10
    with pytest.raises(UserError, match="of 80 clients without training samples"):
        partition("pfllib-pathological:3", labels, 80, seed=3, min_size=1)


def test_ids_are_no_labels() -> None:
    for labels in (torch.tensor([10**8, 1, 2, 3]), [10**8, 1, 2, 3]):
        with pytest.raises(
            UserError, match="labels count from 0: the largest of 4 is 100000000, which would be 100,000,001 classes"
        ):
            partition("iid+stratified", labels, 2)
        with pytest.raises(UserError, match="labels count from 0: the largest of 4"):
            Federation(torch.rand(4, 2), labels, [[0, 1]], [[2, 3]])


def test_each_class_of_a_client_is_split_by_itself() -> None:
    """GRP-FED's notes: 80/20; of 10, 7, 3, 2 and 1 samples 2, 1, 1, 0 and 0 are tested (1.4 and 0.6 to the nearest)."""
    labels = torch.tensor([0, 1, 2, 3, 4]).repeat_interleave(torch.tensor([10, 7, 3, 2, 1]))
    labels = torch.cat([labels, torch.tensor([2, 2, 2, 2, 2])])
    groups = torch.tensor([5] * 23 + [6] * 5)
    division = partition("group+stratified", labels, groups=groups, test_share=0.2)
    tested = [torch.bincount(labels[test], minlength=5).tolist() for test in division.test]
    assert tested == [[2, 1, 1, 0, 0], [0, 0, 1, 0, 0]] and division.sizes() == [23, 5]
    half = partition("group+stratified", labels, groups=groups, test_share=0.5)
    assert torch.bincount(labels[half.test[0]], minlength=5).tolist() == [5, 4, 2, 1, 0], "halves are rounded up"


@settings(max_examples=40)
@given(st.sampled_from(["iid", "dirichlet:0.3", "group", "lda:0.5"]), st.floats(0.05, 0.9), st.integers(0, 99))
def test_stratified_moves_rows_between_the_parts_only(kind: str, share: float, seed: int) -> None:
    labels, groups = torch.arange(600) * 7 % 6, torch.arange(600) // 6 % 5
    common = {"groups": groups, "min_size": 0, "test_share": share}
    plain, ours, again = (partition(spec, labels, 5, seed, **common) for spec in (kind, *[f"{kind}+stratified"] * 2))
    assert ours.assignment(600)[0].equal(plain.assignment(600)[0])
    assert all(a.equal(b) for a, b in zip(ours.test, again.test, strict=True))
    counts, tested = ours.counts(classes=6), torch.stack([torch.bincount(labels[t], minlength=6) for t in ours.test])
    assert ((tested - share * counts).abs() <= 0.5 + 1e-9).logical_or(tested == counts - 1).all()
    assert (tested < counts).logical_or(counts == 0).all(), "every class that a client holds is trained on"
    if kind == "iid":
        other = partition(f"{kind}+stratified", labels, 5, seed + 1, **common)
        assert not all(a.equal(b) for a, b in zip(ours.test, other.test, strict=True))


def test_unused_rows_stay_unused() -> None:
    labels, groups = torch.arange(60) % 3, torch.tensor([0] * 40 + [1] * 20)
    division = partition("group:30+stratified", labels, groups=groups)
    assert division.sizes() == [40] and max(rows.max() for rows in (*division.train, *division.test)) < 40


@pytest.mark.parametrize("name", ["emnist", "femnist"])
def test_the_protocol_takes_the_first_thousand_writers(name: str) -> None:
    """Of 1,010 writers with three samples, behind five with a single one, which cannot have two parts."""
    groups = torch.cat([torch.arange(5), torch.arange(10, 1020).repeat_interleave(3)])
    preset = DATASETS[name].preset
    common = {"groups": groups, "min_size": preset.min_size, "test_share": preset.test_share}
    division = partition(preset.partition, torch.arange(len(groups)) % 62, preset.clients, **common)
    client, _ = division.assignment(len(groups))
    assert division.clients == 1000 and division.sizes() == [3] * 1000
    assert client[5:3005].equal(torch.arange(1000).repeat_interleave(3)) and (client[:5] == -1).all()
    assert (client[3005:] == -1).all()


def test_pacs_has_two_clients_a_domain() -> None:
    """FedBR: classes 0-3 and 4-6 of each of the four domains."""
    labels, groups = torch.arange(700) % 7, torch.arange(700) // 175
    division = partition("group-classes:2", labels, 8, groups=groups, test_share=0.2)
    held = [row.nonzero().flatten().tolist() for row in division.counts(labels)]
    assert held == [[0, 1, 2, 3], [4, 5, 6]] * 4
    client, _ = division.assignment(700)
    assert (client // 2).equal(groups)


@settings(max_examples=40)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 99))
def test_class_blocks_cover_every_group(parts: int, found: int, seed: int) -> None:
    labels, groups = torch.arange(900) % 6, torch.arange(900) // 6 % found
    division = partition(f"group-classes:{parts}", labels, groups=groups, seed=seed)
    assert division.clients == parts * found and sum(division.sizes()) == 900
    held = division.counts(labels) > 0
    assert held.view(found, parts, 6).sum(1).eq(1).all()
    width = held.sum(1)
    assert int(width.max() - width.min()) <= 1


def test_a_block_that_a_group_lacks_is_an_empty_client() -> None:
    labels, groups = torch.tensor([0, 1, 0, 0]), torch.tensor([0, 0, 1, 1])
    with pytest.raises(UserError, match="leaves 1 of 4 clients without samples, client 3 first"):
        partition("group-classes:2", labels, groups=groups)
    assert partition("group-classes:2", labels, groups=groups, min_size=0).sizes() == [1, 1, 2, 0]


def test_digit_five_has_four_clients_a_domain() -> None:
    sizes = [2143, 2729, 929, 1052]
    groups = torch.arange(4).repeat_interleave(torch.tensor(sizes))
    labels = torch.arange(len(groups)) % 10
    division = partition("group-dirichlet:0.5", labels, 16, groups=groups, test_share=0.2)
    client, _ = division.assignment(len(groups))
    assert (client // 4).equal(groups) and min(division.sizes()) >= 63
    first, second = division.counts(labels)[:4].double(), division.counts(labels)[4:8].double()
    assert not torch.allclose(first / first.sum(0), second / second.sum(0), atol=0.05)  # drawn apart


@settings(max_examples=30)
@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 999))
def test_dirichlet_within_groups_is_complete_and_stable(found: int, each: int, seed: int) -> None:
    labels, groups = torch.arange(1000) * 7 % 10, torch.arange(1000) % found * 3
    first, again = (
        partition("group-dirichlet:1", labels, found * each, seed, groups=groups, min_size=1) for _ in range(2)
    )
    rows = torch.cat([*first.train, *first.test])
    assert rows.sort().values.equal(torch.arange(1000))
    assert (first.assignment(1000)[0] // each).equal(groups // 3)
    assert rows.equal(torch.cat([*again.train, *again.test]))


def test_one_group_is_the_partition_without_groups() -> None:
    labels = torch.arange(2000) % 10
    ours = partition("group-dirichlet:0.5", labels, 8, groups=torch.zeros(2000, dtype=torch.int64))
    plain = partition("pfedfda-dirichlet:0.5", labels, 8)
    assert all(a.equal(b) for a, b in zip(ours.train, plain.train, strict=True))


@pytest.mark.parametrize(
    ("spec", "clients", "groups", "words"),
    [
        ("group-dirichlet:0.5", 5, [0, 1] * 50, "needs a multiple of 2 clients, the number of groups, not 5"),
        ("group-dirichlet:0.5", 4, None, "partition 'group-dirichlet:0.5' needs a data set with groups"),
        ("group-dirichlet:0.5", 4, [0] * 99 + [1], "the 2 clients of group 1 need 2 samples, 1 each; it has 1"),
        ("group-classes:2", None, None, "partition 'group-classes:2' needs a data set with groups"),
        ("group-classes:6", None, [0, 1] * 50, "K in group-classes:K must be <= 5, the number of classes, not 6"),
        ("group-classes:2", 5, [0, 1] * 50, "has 4 clients, not 5"),
    ],
)
def test_impossible_requests(spec: str, clients: int | None, groups: list | None, words: str) -> None:
    with pytest.raises(UserError) as caught:
        partition(spec, torch.arange(100) % 5, clients, groups=groups, min_size=1)
    assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "spec",
    ["group-classes:2", "group-dirichlet:0.5", "group+first-of=20+train-share=0.5", "group+first-of=20+stratified"],
)
def test_a_gpu_gives_the_same_partition(spec: str) -> None:
    labels, groups = torch.arange(70_000) // 20 * 7 % 10, torch.arange(70_000) % 20
    clients = 10 if "first" in spec else 40
    host = partition(spec, labels, clients, 3, groups=groups)
    device = partition(spec, labels.cuda(), clients, 3, groups=groups.cuda())
    for a, b in zip((*host.train, *host.test), (*device.train, *device.test), strict=True):
        assert b.is_cuda and b.cpu().equal(a)
