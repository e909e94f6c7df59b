"""What is a run of its own: different ids where numbers differ, the same id where experiments mean the same."""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys

import numpy as np
import pytest
from helpers.experiments import DATA, build, digest

from pflrepro.errors import CorruptFile, UserError
from pflrepro.experiments.config import DataConfig, Experiment
from pflrepro.experiments.identity import fingerprint_of, identity, partition_content, run_id, without_path
from pflrepro.experiments.loading import load_federation, partition_of

CHANGES = [
    *({name: value} for name, value in {"model": "cnn-digits", "participation": 0.5, "local_epochs": 2}.items()),
    *({name: value} for name, value in {"batch_size": 11, "lr": 0.0051, "momentum": 0.9, "weight_decay": 1e-9}.items()),
    *({name: value} for name, value in {"drop_last": False, "receivers": "selected", "statistics": "averaged"}.items()),
    *(
        {name: value}
        for name, value in {"evaluate_after": False, "seed": 1, "dtype": "float64", "algorithm": "local"}.items()
    ),
    {"data": dataclasses.replace(DATA, partition="dirichlet:0.2")},
    {"data": dataclasses.replace(DATA, clients=21)},
    {"data": dataclasses.replace(DATA, partition_seed=2)},
    {"data": dataclasses.replace(DATA, min_size=40)},
    {"data": dataclasses.replace(DATA, test_share=0.3)},
]


def test_whatever_changes_numbers_changes_the_id(monkeypatch):
    plain = build()
    ids = [digest(plain), digest(plain, "g"), *(digest(build(**change)) for change in CHANGES)]
    monkeypatch.setattr("pflrepro.experiments.identity.ENGINE_REVISION", 10**6)
    ids.append(digest(plain))
    monkeypatch.undo()
    monkeypatch.setattr("pflrepro.experiments.identity.revision", lambda name: 10**6)
    ids.append(digest(plain))
    assert len(set(ids)) == len(ids) == len(CHANGES) + 4
    assert all(len(one) == 16 and set(one) <= set("0123456789abcdef") for one in ids)


def test_a_default_given_in_words_is_the_same_run_and_another_value_is_not():
    ids = [digest(build(algorithm="fedavg+dbe", options=options)) for options in ({}, {"kappa": 50}, {"kappa": 51})]
    assert ids[0] == ids[1] != ids[2]


def test_how_much_of_a_run_is_asked_for_is_no_part_of_it_but_where_the_number_of_rounds_is_known():
    """`rounds`, `every` and `patience` count only for methods and protocols that know the number of rounds, and there the rounds."""
    lengths = ({"rounds": 4}, {"every": 2}, {"patience": 3})
    assert {digest(build(**length)) for length in lengths} == {digest(build())}
    known = [("apple", {}), ("fedphp", {}), ("fedavgft", {"tune_when": "end"}), ("fedpac", {})]
    for algorithm, options in known:
        ids = [digest(build(algorithm=algorithm, options=options, **length)) for length in ({}, *lengths)]
        assert ids[1] != ids[0] == ids[2] == ids[3], algorithm
    for algorithm, options in [("apple", {"horizon": 0}), ("fedphp", {"inheritance": 0}), ("fedavgft", {})]:
        ids = {digest(build(algorithm=algorithm, options=options, **length)) for length in ({}, *lengths)}
        assert len(ids) == 1, algorithm
    assert digest(build(closing=True)) != digest(build(closing=True, rounds=4))


def test_what_is_at_its_default_is_no_part_of_an_identity():
    assert identity(build(), "f") == {
        "algorithm": "fedavg",
        "model": "mlp",
        "data": {"dataset": "digits"},
        "options": {},
        "settings": {},
        "seed": 0,
        "dtype": "float32",
        "fingerprint": "f",
        "engine_revision": 1,
        "method_revision": 1,
    }


def counts_file(folder, rows: str):
    folder.mkdir()
    (folder / "mine.csv").write_text("client,label,count\n" + rows)
    return build(data=DataConfig("digits", f"counts:{folder / 'mine.csv'}", clients=2))


def test_a_table_of_counts_counts_by_its_content(tmp_path):
    one = counts_file(tmp_path / "a", "0,0,30\n1,1,40\n")
    moved = counts_file(tmp_path / "b", "1,1,40\n0,0,30\n")
    other = counts_file(tmp_path / "c", "0,0,30\n1,1,41\n")
    assert digest(one) == digest(moved) != digest(other)
    assert str(tmp_path) not in json.dumps(identity(one, "f"))
    assert without_path(one.data.partition) == "counts:mine.csv"


def test_the_options_behind_a_file_count_and_are_written_down(tmp_path):
    np.savez(tmp_path / "who.npz", client=np.arange(1797) % 2, is_test=np.arange(1797) % 4 == 0)
    (tmp_path / "mine.csv").write_text("client,label,count\n0,0,30\n1,1,40\n")
    for source in ("file", "counts"):
        path = tmp_path / {"file": "who.npz", "counts": "mine.csv"}[source]
        asked = [build(data=DataConfig("digits", f"{source}:{path}{text}")) for text in ("", "+validation=0.2")]
        assert digest(asked[0]) != digest(asked[1])
        assert without_path(asked[1].data.partition) == f"{source}:{path.name}+validation=0.2"


def test_the_options_behind_given_counts_count():
    texts = ["", "+of=20", "+first-of=20", "+train-share=0.5", "+train-samples=50", "+validation=0.2"]
    ids = {digest(build(data=DataConfig("fmnist", f"counts:fmnist_dir0.1_n20{text}"))) for text in texts}
    assert len(ids) == len(texts)


def test_a_file_may_lie_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    np.savez(tmp_path / "who.npz", client=np.arange(1797) % 2, is_test=np.arange(1797) % 4 == 0)
    (tmp_path / "mine.csv").write_text("client,label,count\n0,0,9\n1,1,9\n")
    for partition in ("file:{}/who.npz", "counts:{}/mine.csv"):
        there, here = (DataConfig("digits", partition.format(folder), clients=2) for folder in ("~", tmp_path))
        assert partition_content(there.partition) == partition_content(here.partition)
        for mine, theirs in zip(partition_of(there).train, partition_of(here).train, strict=True):
            assert mine.equal(theirs)
    partitions = [DataConfig("digits", f"{each}.csv") for each in ("file:~no-such/a", "counts:~no-such/a")]
    for data in (*partitions, DataConfig("file:~no-such/a.csv")):
        with pytest.raises(UserError, match=r"there is no .* ~no-such/a\.csv"):
            load_federation(data)


def test_a_partition_file_counts_by_its_arrays(tmp_path):
    client, is_test = np.arange(6) % 2, np.arange(6) > 3
    np.savez(tmp_path / "one.npz", client=client, is_test=is_test)
    np.savez_compressed(
        tmp_path / "two.npz", is_test=is_test.astype(np.uint8), client=client.astype(np.int32), more=np.zeros(3)
    )
    np.savez(tmp_path / "three.npz", client=client, is_test=~is_test)
    one, two, three = (
        digest(build(data=DataConfig("digits", f"file:{tmp_path / name}.npz", clients=2)))
        for name in ("one", "two", "three")
    )
    assert one == two != three
    with pytest.raises(UserError, match=r"there is no partition file .*four\.npz"):
        digest(build(data=DataConfig("digits", f"file:{tmp_path / 'four'}.npz")))
    arrays = (
        client.astype(float),
        client.astype(complex),
        client.astype(str),
        client.astype(object),
        np.zeros(6, "V8"),
    )
    for odd in arrays:  # refused, and neither cast nor loaded; a warning would be an error here
        for pair in ({"client": odd, "is_test": is_test}, {"client": client, "is_test": odd}):
            np.savez(tmp_path / "odd.npz", **pair)
            with pytest.raises(CorruptFile, match=r"odd\.npz"):
                digest(build(data=DataConfig("digits", f"file:{tmp_path / 'odd'}.npz")))
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 no")
    with pytest.raises(CorruptFile, match=r"bad\.npz"):
        digest(build(data=DataConfig("digits", f"file:{tmp_path / 'bad'}.npz")))


def test_a_method_of_the_user_s_counts_by_its_source(tmp_path, monkeypatch):
    module = tmp_path / "mine_for_identity.py"
    source = "from pflrepro.algorithms.fedavg import FedAvg\n\n\nclass Mine(FedAvg):\n    pass\n"
    module.write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    mine = build(algorithm="mine_for_identity:Mine")
    before = digest(mine)
    module.write_text(source + "    # a comment\n")
    importlib.reload(sys.modules["mine_for_identity"])
    assert digest(mine) == before
    module.write_text(source.replace("pass", "revision = 5"))
    assert digest(mine) == before, "edited, not loaded"
    importlib.reload(sys.modules["mine_for_identity"])
    assert digest(mine) != before
    module.write_text(source)
    importlib.reload(sys.modules["mine_for_identity"])
    assert digest(mine) == before
    assert "source" not in identity(build(), "f")


def test_no_proxy_leaves_the_identity_as_it_was_and_a_proxy_is_part_of_it():
    plain = Experiment.for_dataset("fedavg", "digits")
    assert "proxy" not in identity(plain, "f")["data"]
    with_proxy = Experiment.for_dataset("fedavg", "digits", proxy="digits")
    assert with_proxy.to_dict()["data"]["proxy"] == "digits"
    assert Experiment.from_dict(json.loads(with_proxy.canonical())) == with_proxy
    assert Experiment.from_dict(plain.to_dict(), recorded={}) == plain
    assert fingerprint_of(with_proxy.data) == "+".join([fingerprint_of(plain.data)] * 2)
    assert run_id(with_proxy) != run_id(plain)
    with pytest.raises(UserError, match="data set"):
        Experiment.for_dataset("fedavg", "digits", proxy="digit")
