from __future__ import annotations

import pytest

from pflrepro.data.partitions.parse import (
    KINDS,
    PARTITIONS,
    Counts,
    Dirichlet,
    File,
    FixedSize,
    Group,
    GroupClasses,
    GroupDirichlet,
    Iid,
    Lda,
    LdaFlat,
    LongTail,
    PapersDirichlet,
    PapersPathological,
    Pathological,
    PFedFDADirichlet,
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
        ("group:1", Group(), "group"),
        ("group: 2", Group(2), "group:2"),
        ("group-classes:2", GroupClasses(2), "group-classes:2"),
        ("group-dirichlet:.5", GroupDirichlet(0.5), "group-dirichlet:0.5"),
        ("pfedfda-dirichlet:0.50", PFedFDADirichlet(0.5), "pfedfda-dirichlet:0.5"),
        ("fixed-size: 0.1, 63", FixedSize(0.1, 63), "fixed-size:0.1,63"),
        ("lda:0.1", Lda(0.1), "lda:0.1"),
        ("lda-flat:1e-1", LdaFlat(0.1), "lda-flat:0.1"),
        ("long-tail:0.70,.5", LongTail(0.7, 0.5), "long-tail:0.7,0.5"),
        ("dirichlet:0.1 +of=50", Dirichlet(0.1, choice="of", total=50), "dirichlet:0.1+of=50"),
        ("group+first-of=30", Group(choice="first-of", total=30), "group+first-of=30"),
        ("group:2+of= all", Group(2, choice="of"), "group:2+of=all"),
        ("group-classes:2+last-of=all", GroupClasses(2, choice="last-of"), "group-classes:2+last-of=all"),
        ("counts:a+first-of=all", Counts("a", choice="first-of"), "counts:a+first-of=all"),
        ("iid+train-share=1", Iid(), "iid"),
        (
            "lda:0.1+train-share=.50+last-of=100",
            Lda(0.1, choice="last-of", total=100, train_share=0.5),
            "lda:0.1+last-of=100+train-share=0.5",
        ),
        ("iid+train-samples=50", Iid(train_samples=50), "iid+train-samples=50"),
        (
            "iid+validation=.2+train-share=0.5",
            Iid(train_share=0.5, validation=0.2),
            "iid+train-share=0.5+validation=0.2",
        ),
        ("iid+validation=0", Iid(), "iid"),
        ("group+stratified +of=all", Group(choice="of", stratified=True), "group+of=all+stratified"),
        (
            "counts:fmnist_dir0.1_n20+of=20",
            Counts("fmnist_dir0.1_n20", choice="of", total=20),
            "counts:fmnist_dir0.1_n20+of=20",
        ),
        ("file:a+b=c.npz", File("a+b=c.npz"), "file:a+b=c.npz"),
        ("file:a+b=c.npz+of=all", File("a+b=c.npz", choice="of"), "file:a+b=c.npz+of=all"),
        ("counts:a/b.csv+validation=.2", Counts("a/b.csv", validation=0.2), "counts:a/b.csv+validation=0.2"),
    ],
)
def test_a_text_becomes_a_value_and_back(text: str, spec: object, canonical: str) -> None:
    assert parse(text) == spec == parse(spec)
    assert str(parse(text)) == canonical
    assert parse(canonical) == spec and hash(parse(canonical)) == hash(spec)


def test_the_papers_recipe_is_another_value() -> None:
    assert Dirichlet(0.1) != PapersDirichlet(0.1)
    assert Pathological(2) != PapersPathological(2)


def test_the_registry_describes_every_kind_and_option_in_one_line() -> None:
    assert [name for name in PARTITIONS if not name.startswith("+")] != [] and set(KINDS) <= set(PARTITIONS)
    assert all(kind.kind == name for name, kind in KINDS.items())
    for name, line in PARTITIONS.items():
        assert line.startswith(name) and ": " in line and "\n" not in line
        if name.startswith("+"):
            option = line.split(": ")[0].replace("=SHARE", "=0.5").replace("=M", "=9").replace("=N", "=9")
            assert str(parse(f"iid{option}")) == f"iid{option}"
        else:
            assert name in KINDS


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("dirichle:0.1", "unknown partition 'dirichle'; valid: dirichlet"),
        ("", "unknown partition ''"),
        ("dirichlet", "lacks its value; write dirichlet:ALPHA"),
        ("dirichlet:", "lacks its value"),
        (
            "iid+validation",
            "the option +validation of a partition is written +validation=SHARE, not as in 'iid+validation'",
        ),
        ("dirichlet:x", "needs a number after the colon; write dirichlet:ALPHA"),
        ("dirichlet:0", "must be a number > 0, not 0.0"),
        ("dirichlet:-1", "> 0, not -1.0"),
        ("dirichlet:nan", "> 0, not nan"),
        ("pfllib-dirichlet:inf", "pfllib-dirichlet:ALPHA must be a number > 0, not inf"),
        ("pathological:0", "whole number >= 1 and <= 1,000,000, not 0"),
        ("pathological:1.5", "needs a whole number after the colon; write pathological:K"),
        ("pfllib-pathological:-2", ">= 1 and <= 1,000,000, not -2"),
        ("iid:3", "takes no value"),
        ("group:", "takes no empty value"),
        ("group:0", "LEAST in group:LEAST must be a whole number >= 1 and <= 1,000,000, not 0"),
        ("group:two", "needs a whole number after the colon; write group or group:LEAST"),
        ("lda-flat:0", "ALPHA in lda-flat:ALPHA must be a number > 0"),
        ("fixed-size:0.1", "needs 2 numbers after the colon; write fixed-size:ALPHA,SIZE"),
        ("fixed-size:0.1,2.5", "needs a whole number after the colon"),
        ("fixed-size:0.1,0", "SIZE in fixed-size:ALPHA,SIZE must be a whole number >= 1"),
        ("long-tail:0.7,0", "TAU in long-tail:RHO,TAU must be a number > 0 and <= 1"),
        ("long-tail:1.5,0.5", "RHO in long-tail:RHO,TAU must be"),
        ("group-classes:0", "K in group-classes:K must be a whole number >= 1"),
        ("iid+of=", "needs a whole number in +of=M"),
        ("iid+of=0", "M in +of=M must be a whole number >= 1"),
        (
            "iid+of=all",
            "+of=all is for partitions whose data tell the number of clients (counts, file, group, group-classes)",
        ),
        ("group-dirichlet:1+first-of=all", "with 'group-dirichlet' name that number: +first-of=M"),
        ("group+train-samples=all", "needs a whole number in +train-samples=N"),
        ("group+of=all+first-of=all", "has the option +of, or another of its kind, twice"),
        ("iid+first-of=5+of=5", "has the option +first-of, or another of its kind, twice"),
        ("iid+train-share=0", "SHARE in +train-share=SHARE must be a number > 0 and <= 1"),
        ("iid+train-share=half", "needs a number in +train-share=SHARE"),
        ("iid+train-share=0.5+train-samples=5", "+train-share and +train-samples exclude each other"),
        ("iid+validation=1", "SHARE in +validation=SHARE must be a number >= 0 and < 1"),
        ("dirichlet:0.1+among=50", "unknown option of a partition '+among'; valid: "),
        ("iid+among=50", "unknown option of a partition '+among'; valid: "),
        ("group+stratify", "unknown option of a partition '+stratify'; valid: +stratified"),
        ("group+stratified=1", "the option +stratified of a partition is written +stratified, not as in"),
        ("iid+stratified+stratified", "has the option +stratified, or another of its kind, twice"),
        ("pfllib-dirichlet:0.1+stratified", "+stratified is not for 'pfllib-dirichlet', whose split is that"),
        ("pfllib-pathological:2+stratified", "+stratified is not for 'pfllib-pathological'"),
        ("file:a.npz+stratified", "+stratified is not for 'file', whose split is that of the file"),
        ("file:a.npz+validation=1", "SHARE in +validation=SHARE must be a number >= 0 and < 1"),
        ("+of=5", "unknown partition ''"),
        ("file:", "lacks its value; write file:FILE.npz"),
        (7, "not 7"),
    ],
)
def test_a_wrong_text_is_one_clear_line(text: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(text)
    assert words in str(caught.value) and "\n" not in str(caught.value)
