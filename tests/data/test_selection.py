"""Options of a partition: some of its clients, and a part of the training samples."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pflrepro.data.partition import Partition, partition
from pflrepro.data.partitions.parse import new_clients
from pflrepro.errors import UserError

LABELS = torch.arange(10).repeat_interleave(300)


def parts(division: Partition) -> list[tuple[list[int], list[int]]]:
    return [(train.tolist(), test.tolist()) for train, test in zip(division.train, division.test, strict=True)]


def divided(spec: str, clients: int, **options) -> Partition:
    return partition(spec, LABELS, clients, min_size=5, **options)


def test_some_clients_of_a_larger_partition() -> None:
    """GPFL's N=10|30: the chosen clients are those of the partition among 30, in its order."""
    for kind in ("pfllib-dirichlet:0.1", "dirichlet:0.5", "iid"):
        everyone, chosen = parts(divided(kind, 30)), parts(divided(f"{kind}+of=30", 10))
        places = [everyone.index(part) for part in chosen]
        assert places == sorted(set(places)) and len(places) == 10 and places != list(range(10))
    more = parts(divided("iid+of=30", 20))
    assert all(part in more for part in parts(divided("iid+of=30", 10)))
    assert parts(divided("iid+of=30", 30)) == parts(divided("iid", 30))


@given(st.integers(1, 20), st.integers(1, 10))
def test_old_and_new_clients_are_one_partition(old: int, new: int) -> None:
    before, after = new_clients("dirichlet:0.5", old, new)
    together = parts(divided(before, old)) + parts(divided(after, new))
    assert together == parts(divided("dirichlet:0.5", old + new))


def test_the_choice_is_part_of_the_seed() -> None:
    rows = [parts(partition("iid+of=30", LABELS, 3, seed)) for seed in (1, 1, 2)]
    assert rows[0] == rows[1] != rows[2]


def test_a_given_partition_has_the_number_it_has() -> None:
    groups = torch.arange(3000) % 5
    assert (
        parts(partition("group+last-of=5", LABELS, 2, groups=groups))
        == parts(partition("group", LABELS, groups=groups))[3:]
    )
    with pytest.raises(UserError, match="has 5 clients, not 6"):
        partition("group+first-of=6", LABELS, 2, groups=groups)


def test_some_of_as_many_groups_as_there_are() -> None:
    """EMNIST: 1,000 of the writers with two samples or more, however many that are."""
    groups = torch.cat([torch.arange(2900) % 29, torch.arange(100, 200)])  # 29 of 100 samples, 100 of one
    everyone = parts(partition("group:2", LABELS, groups=groups))
    assert len(everyone) == 29
    for option, expected in (("first-of", everyone[:7]), ("last-of", everyone[-7:])):
        assert parts(partition(f"group:2+{option}=all", LABELS, 7, groups=groups)) == expected
    drawn = [parts(partition("group:2+of=all", LABELS, 7, seed, groups=groups)) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] == parts(partition("group:2+of=29", LABELS, 7, groups=groups))
    places = [everyone.index(part) for part in drawn[0]]
    assert places == sorted(set(places)) and len(places) == 7 and places != list(range(7))
    other = parts(partition("group:2", LABELS, 29, 2, groups=groups))  # the writers' own splits follow the seed too
    assert all(part in other for part in drawn[2]) and [other.index(part) for part in drawn[2]] != places
    blocks = parts(partition("group-classes:2+last-of=all", LABELS, 3, groups=torch.arange(3000) % 4))
    assert blocks == parts(partition("group-classes:2", LABELS, groups=torch.arange(3000) % 4))[-3:]
    with pytest.raises(UserError, match=r"clients must be <= 29 for the partition 'group:2\+of=all', not 30"):
        partition("group:2+of=all", LABELS, 30, groups=groups)
    with pytest.raises(UserError, match="needs the number of clients to choose"):
        partition("group:2+of=all", LABELS, groups=groups)
    with pytest.raises(UserError, match=r"has 29 clients, not 7; 7 of them, drawn at random: group:2\+of=all"):
        partition("group:2", LABELS, 7, groups=groups)


@pytest.mark.parametrize("kind", ["dirichlet:0.5", "pfllib-dirichlet:0.5", "group"])
def test_less_training_data_and_the_same_tests(kind: str) -> None:
    def options(spec: str) -> list[tuple[list[int], list[int]]]:
        return parts(partition(spec, LABELS, 10, groups=torch.arange(3000) % 10, min_size=5, test_share=0.2))

    full, most, half, few = (
        options(kind + suffix) for suffix in ("", "+train-share=0.75", "+train-share=.5", "+train-samples=3")
    )
    for (train, test), *fewer in zip(full, most, half, few, strict=True):
        assert [len(part[0]) for part in fewer] == [len(train) * 3 // 4, len(train) // 2, min(3, len(train))]
        assert all(part[1] == test for part in fewer)
        nested = [part[0] for part in reversed(fewer)] + [train]
        for small, large in pairwise(nested):
            assert [row for row in large if row in set(small)] == small  # a subset in the same order


@pytest.mark.parametrize("kind", ["dirichlet:0.5", "pfllib-dirichlet:0.5", "group"])
def test_options_are_chosen_on_training_samples_that_do_not_train(kind: str) -> None:
    def divided(options: str) -> list[tuple[list[int], list[int]]]:
        return parts(partition(kind + options, LABELS, 10, groups=torch.arange(3000) % 10, min_size=5, test_share=0.2))

    for less in ("", "+train-share=0.5", "+train-samples=40"):
        for (rows, test), (train, valid) in zip(divided(less), divided(f"{less}+validation=0.25"), strict=True):
            assert len(valid) == len(rows) // 4 and not set(valid) & set(train) | set(valid) & set(test)
            assert [row for row in rows if row in set(train)] == train  # in their order
            assert [row for row in rows if row in set(valid)] == valid and len(train) + len(valid) == len(rows)


@pytest.mark.parametrize("options", ["", "+train-share=0.5", "+train-samples=40", "+first-of=all+validation=0.25"])
def test_options_choose_from_a_file_what_they_choose_from_the_partition_that_it_holds(
    tmp_path: Path, options: str
) -> None:
    partition("iid", LABELS, 10).save(tmp_path / "split.npz", len(LABELS))
    drawn = partition(f"iid{options.replace('all', '10')}", LABELS, 6 if "all" in options else 10)
    read = partition(f"file:{tmp_path / 'split.npz'}{options}", LABELS, drawn.clients)
    assert parts(read) == parts(drawn)


def test_a_client_keeps_its_samples_whoever_is_chosen_with_it() -> None:
    everyone = parts(divided("iid+train-share=0.5", 30))
    assert all(part in everyone for part in parts(divided("iid+of=30+train-share=0.5", 4)))


@pytest.mark.parametrize(
    ("spec", "clients", "words"),
    [
        ("iid+of=30", 31, "clients must be <= 30 for the partition 'iid+of=30', not 31"),
        ("iid+of=30", None, "needs the number of clients to choose"),
        ("iid+of=4000", 5, "clients must be <= 3000, the number of samples, not 4000"),
        ("iid+train-share=0.25", 1000, "leaves client 0 none of its 2 training samples"),
    ],
)
def test_impossible_requests(spec: str, clients: int | None, words: str) -> None:
    with pytest.raises(UserError) as caught:
        partition(spec, LABELS, clients)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_old_and_new_clients_are_chosen_once() -> None:
    assert new_clients("group", 5, 5) == ("group+first-of=10", "group+last-of=10")
    with pytest.raises(UserError, match="has a choice of clients already"):
        new_clients("iid+of=10", 8, 2)
    with pytest.raises(UserError, match="new clients must be a whole number >= 1"):
        new_clients("iid", 8, 0)
