from __future__ import annotations

import pytest

from pflrepro.data.specs import (
    PARTITIONS,
    Counts,
    Dirichlet,
    File,
    Group,
    Iid,
    PapersDirichlet,
    PapersPathological,
    Pathological,
    parse,
)
from pflrepro.errors import UserError


@pytest.mark.parametrize(
    ("text", "spec", "canonical"),
    [
        ("iid", Iid(), "iid"),
        ("group", Group(), "group"),
        (" dirichlet:0.10 ", Dirichlet(0.1), "dirichlet:0.1"),
        ("dirichlet: 1e-1", Dirichlet(0.1), "dirichlet:0.1"),
        ("dirichlet:5", Dirichlet(5.0), "dirichlet:5"),
        ("pathological:2", Pathological(2), "pathological:2"),
        ("pfllib-dirichlet:0.01", PapersDirichlet(0.01), "pfllib-dirichlet:0.01"),
        ("pfllib-pathological:20", PapersPathological(20), "pfllib-pathological:20"),
        ("counts:fmnist_dir0.1_n20", Counts("fmnist_dir0.1_n20"), "counts:fmnist_dir0.1_n20"),
        ("counts:a/b:c.csv", Counts("a/b:c.csv"), "counts:a/b:c.csv"),
        ("file:split.npz", File("split.npz"), "file:split.npz"),
    ],
)
def test_a_text_becomes_a_value_and_back(text: str, spec: object, canonical: str) -> None:
    assert parse(text) == spec == parse(spec)
    assert str(parse(text)) == canonical
    assert parse(canonical) == spec and hash(parse(canonical)) == hash(spec)


def test_the_papers_recipe_is_another_value() -> None:
    assert Dirichlet(0.1) != PapersDirichlet(0.1)
    assert Pathological(2) != PapersPathological(2)


def test_the_registry_describes_every_kind_in_one_line() -> None:
    kinds = {
        spec.kind for spec in (Iid, Group, Dirichlet, Pathological, PapersDirichlet, PapersPathological, Counts, File)
    }
    assert set(PARTITIONS) == kinds
    for kind, line in PARTITIONS.items():
        assert line.startswith(kind) and ": " in line and "\n" not in line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dirichle:0.1", "unknown partition 'dirichle'; valid: dirichlet"),
        ("", "unknown partition ''"),
        ("dirichlet", "lacks its value; write dirichlet:ALPHA"),
        ("dirichlet:", "lacks its value"),
        ("dirichlet:x", "needs a number after the colon; write dirichlet:ALPHA"),
        ("dirichlet:0", "must be a number > 0, not 0.0"),
        ("dirichlet:-1", "> 0, not -1.0"),
        ("dirichlet:nan", "> 0, not nan"),
        ("pfllib-dirichlet:inf", "pfllib-dirichlet:ALPHA must be a number > 0, not inf"),
        ("pathological:0", "whole number >= 1, not 0"),
        ("pathological:1.5", "needs a whole number after the colon; write pathological:K"),
        ("pfllib-pathological:-2", ">= 1, not -2"),
        ("iid:3", "takes no value"),
        ("group:", "takes no value"),
        ("file:", "lacks its value; write file:FILE.npz"),
        (7, "not 7"),
    ],
)
def test_a_wrong_text_is_one_clear_line(text: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(text)
    assert words in str(caught.value) and "\n" not in str(caught.value)
