"""Files written: names, contents, provenance, never half-written."""

import re

import pandas as pd
import pytest

from pflrepro.viz import outputs


def test_files_of_a_table(result, tmp_path):
    written = outputs.write(result, tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in written] == [
        "demo/fake.pdf",
        "demo/fake.png",
        "demo/fake-curves.pdf",
        "demo/fake-curves.png",
        "demo/fake.csv",
        "demo/fake.md",
    ]
    assert sorted((tmp_path / "demo").iterdir()) == sorted(written)
    assert written[1].read_bytes().startswith(b"\x89PNG")
    frame = pd.read_csv(written[4])
    assert len(frame) == 6
    assert frame.loc[0, "ours"] == 86.0


def test_record_names_everything_that_made_the_numbers(result, tmp_path):
    text = outputs.write(result, tmp_path)[-1].read_text()
    for part in (
        "pflrepro reproduce demo/fake --scale fast",
        "**scale:** fast: few rounds",
        "**seeds:** 0, 1",
        "**data fingerprints:** digits f00d",
        "best_round: maximum over rounds, on the test splits",
        "**device:** cpu",
        "torch 9.9",
        "FedAvg+DBE > FedAvg",
        "| FedAvg | A | 85.85 ± 0.19 | 86.00 ± 2.00 | +0.15 | 2 |",
        "not run: no finished run in the store",
    ):
        assert part in text, part
    assert not re.search(r"(^|[\s`(])/(home|tmp|root|Users|work)/", text)
    assert str(tmp_path) not in text


def test_the_same_result_gives_the_same_files(result, tmp_path):
    first, second = outputs.write(result, tmp_path / "a"), outputs.write(result, tmp_path / "b")
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name


def test_a_stand_in_never_replaces_real_outputs(stand_in, tmp_path):
    names = [path.name for path in outputs.write(stand_in, tmp_path)]
    assert names
    assert all(name.startswith("fake-smoke") for name in names)


def test_nothing_half_written_when_saving_fails(tmp_path):
    target = tmp_path / "x.csv"
    target.write_text("old")

    def break_off(name):
        with open(name, "w") as stream:
            stream.write("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        outputs._atomically(target, break_off)
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]
    assert target.read_text() == "old"


def test_an_empty_result_still_writes_its_table(empty, tmp_path):
    names = [path.name for path in outputs.write(empty, tmp_path)]
    assert names == ["fake.pdf", "fake.png", "fake.csv", "fake.md"]
