"""Files written: names, contents, provenance, never half-written."""

import dataclasses
import re

import pandas as pd
import pytest

from pflrepro.papers.artefact import Claim, Row
from pflrepro.papers.comparing import result as compare
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
        "| FedAvg | A | 85.85 ± 0.19 | 86.00 ± 2.00 | 60.59 to 100.00 (t, 2 seeds) | +0.15 | 2 |",
        # Differences 14 and 17 over two seeds: t = 15.5 / 1.5, p = 1 - 2 atan(t) / pi.
        "| A | FedAvg+DBE > FedAvg | -15.50 | 1.50 | paired t over 2 seeds | 0.061 | 0.061 | 0.5 | undecided | the fake |",
        "* 1 undecided; with 1 test about 0.05 would be decided by chance if nothing differed.",
        "over 2, a difference must be 12.7 of its standard errors. *p over",
        "not run: no finished run in the store",
    ):
        assert part in text, part
    assert not re.search(r"(^|[\s`(])/(home|tmp|root|Users|work)/", text)
    assert str(tmp_path) not in text


def test_an_ordering_kept_by_its_own_test_may_not_stand_after_the_correction(artefact, store, tmp_path):
    """Differences (10, 11, 5) and (1, 0, 2) over three seeds: p = 0.043 and 0.23 with two degrees of freedom."""
    rows = (Row("FedAvg", "fedavg"), Row("FedAvg+DBE", "fedavg+dbe"), Row("Ditto", "ditto"))
    claims = (Claim("fedavg+dbe", "fedavg", source="one"), Claim("ditto", "fedavg", source="two"))
    for method, values in (("fedavg", (60, 61, 66)), ("fedavg+dbe", (70, 72, 71)), ("ditto", (61, 61, 68))):
        for seed, value in enumerate(values):
            store.add(method, [10, value], seed=seed, scale_rounds=2)
    found = compare(dataclasses.replace(artefact, rows=rows, claims=claims), "fast", store=store, seeds=3)
    kept, undecided = found.claims
    assert (kept.outcome, kept.firm, undecided.outcome) == ("kept", False, "undecided")
    text = outputs.write(found, tmp_path)[-1].read_text()
    for part in (
        "| paired t over 3 seeds | 0.043 | 0.086 |",
        "* 1 kept (0 also after Holm's correction), 1 undecided; with 2 tests about 0.1 would be decided by chance if",
        "kept or broken where its own p is below 0.05",
        "must be 4.3 of its standard errors (6.2 to stand after the correction, as the clearest of 2).",
        "| FedAvg+DBE | A | 97.69 | 71.00 ± 0.82 | 68.52 to 73.48 (t, 3 seeds) | -26.69 | 3 | 1 | ordering kept |",
        "* ordering kept: outside the tolerance",
    ):
        assert part in text, part


def test_one_seed_is_told_with_its_clients(artefact, store, tmp_path):
    store.add("fedavg", [10, 84, 60], seed=0)
    store.add("fedavg+dbe", [10, 60, 70], seed=0)
    text = outputs.write(compare(artefact, "fast", store=store, seeds=1), tmp_path)[-1].read_text()
    assert "| -14.00 | unknown (one seed) | sign flips over 2 clients | 0.5 | 0.5 | 0.5 | undecided |" in text
    assert "84.00 | 83.33 to 84.29 (bootstrap, 2 clients) |" in text  # 25 of 30 and 59 of 70
    assert "not of another seed" in text
    assert "Average ranks" not in text


def test_ranks_stand_beside_the_table_where_enough_was_run(artefact, store, tmp_path):
    rows = tuple(Row(name.upper(), name) for name in "abc")
    for place, name in enumerate("abc"):
        for seed in range(5):
            store.add(name, [10, 50 + 10 * place + seed], seed=seed, scale_rounds=2)
    found = compare(dataclasses.replace(artefact, rows=rows, claims=()), "fast", store=store, seeds=5)
    assert tuple(outputs.pictures(found)) == ("points", "curves", "ranks")
    written = outputs.write(found, tmp_path)
    assert {"fake-ranks.pdf", "fake-ranks.png"} <= {path.name for path in written}
    text = written[-1].read_text()
    assert "| method | mean rank |\n| --- | --- |\n| C | 1.00 |\n| B | 2.00 |\n| A | 3.00 |\n" in text
    # Three methods, five blocks in one order: Friedman's chi2 is 10 with two degrees of freedom, p = exp(-5).
    assert "Ranks over 5 seeds (A), 1 the best; p of Friedman's test 0.0067." in text
    assert "less than 1.48 do not differ significantly" in text  # 2.343 sqrt(3 * 4 / 30)


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
