"""`pflrepro.browse()` without a screen: lines are picked from Python, and what it shows is read."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest

import pflrepro
from pflrepro.errors import UserError
from pflrepro.experiments import listing
from pflrepro.experiments.folder import DONE
from pflrepro.experiments.identity import ID_LENGTH
from pflrepro.remembered import read_cache, write_cache


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> pflrepro.Store:
    """Two methods, two seeds."""
    root = tmp_path_factory.mktemp("store")
    asked = {"clients": 3, "rounds": 2, "model": "mlp"}
    experiments = [
        pflrepro.Experiment.for_dataset(name, "digits", seed=seed, **asked)
        for name in ("local", "fedavg")
        for seed in (0, 1)
    ]
    made = pflrepro.Store(root, behind=root / "none")
    pflrepro.run(experiments, store=made, progress=False, backend="loop", workers=1)
    return made


def test_the_listing_is_the_frame_and_reads_no_run_twice(
    store: pflrepro.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    pd.testing.assert_frame_equal(listing.listed(store.root), store.frame())
    monkeypatch.setattr(listing, "read_run", lambda folder: pytest.fail(f"{folder} was read again"))
    pd.testing.assert_frame_equal(listing.listed(store.root), store.frame())


def test_a_run_that_was_finished_anew_is_read_again(store: pflrepro.Store) -> None:
    listing.listed(store.root)
    id = store.matching("")[0]
    mark, content = store.folder(id) / DONE, read_cache(store.root / listing.LISTING)
    line = content["runs"][id]
    line[line.index(id)] = "other"
    write_cache(store.root / listing.LISTING, content)
    assert listing.listed(store.root)["id"][0] == "other"
    os.utime(mark, ns=(mark.stat().st_atime_ns, mark.stat().st_mtime_ns + 1))
    assert listing.listed(store.root)["id"][0] == id


@pytest.mark.parametrize("content", ["", "[]", '{"columns": ["old"], "runs": {"a": [1, 2]}}', "null"])
def test_a_listing_that_cannot_be_used_is_made_anew(store: pflrepro.Store, content: str) -> None:
    (store.root / listing.LISTING).write_text(content, "utf-8")
    assert len(listing.listed(store.root)) == 4
    assert len(read_cache(store.root / listing.LISTING)["runs"]) == 4


def test_damaged_runs_are_left_out_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "runs" / ("0" * ID_LENGTH)
    folder.mkdir(parents=True)
    (folder / DONE).write_text("{}", "utf-8")
    assert listing.listed(tmp_path).empty
    assert "is left out" in caplog.text


def test_what_is_picked_is_drawn(store: pflrepro.Store) -> None:
    browser = pflrepro.browse(store)
    assert "4 runs of" in browser._said.value and browser._pictures.value == ""
    browser.pick(browser.frame.index[browser.frame["algorithm"] == "fedavg"])
    assert [run.experiment.algorithm for run in browser.runs] == ["fedavg"] * 2
    assert 'alt="curves of fedavg"' in browser._pictures.value and browser._pictures.value.count("<img") == 3
    assert f"pflrepro show {browser.runs[0].id[:12]}" in browser._picked.value
    browser.table.selected_rows = [0, 1, 2, 3]
    assert 'alt="curves of' in browser._pictures.value and len(browser.runs) == 4
    before = browser._pictures.value
    browser.after.value = True
    assert browser._pictures.value != before
    browser.pick([])
    assert browser.runs == [] and browser._pictures.value == ""


def test_runs_that_are_given_are_browsed_like_a_stores(store: pflrepro.Store) -> None:
    runs = store.runs()
    browser = pflrepro.browse(runs, seed=0)
    assert "2 runs. A click" in browser._said.value and repr(browser) == "Browser(2 runs, 0 picked)"
    assert browser.frame.equals(pflrepro.browse(store, seed=0).frame)
    browser.pick([1])
    assert [run.id for run in browser.runs] == [browser.frame["id"][1]] and browser._pictures.value.count("<img") == 3
    for wrong in (9999, "a"):
        with pytest.raises(UserError, match=f"no line {wrong!r} among the 2 of the frame"):
            browser.pick([wrong])
    assert pflrepro.browse(list(runs)).frame["id"].tolist() == [run.id for run in runs]
    assert pflrepro.browse([]).frame.empty and len(pflrepro.browse(runs[0]).frame) == 1
    for wrong in ([7], 7):
        with pytest.raises(UserError, match="browse takes a store, a folder or runs, not int 7"):
            pflrepro.browse(wrong)


def test_of_two_runs_of_one_id_each_line_is_its_own(store: pflrepro.Store) -> None:
    long = store.runs()[0]
    short = store.answer(long.id, long.experiment.with_settings(rounds=1))
    browser = pflrepro.browse([short, long])
    for line, run in enumerate((short, long)):
        browser.pick(line)
        assert [each.rounds for each in browser.runs] == [run.rounds] == [browser.frame["tested_rounds"][line]]


def test_a_filter_is_that_of_select(store: pflrepro.Store) -> None:
    assert set(pflrepro.browse(store, algorithm="fed*").frame["algorithm"]) == {"fedavg"}
    assert len(pflrepro.browse(store, seed=[0], dataset="digits").frame) == 2
    assert len(pflrepro.browse(store, min_size=None).frame) == len(store.select(min_size=None)) == 0
    with pytest.raises(UserError, match="datset"):
        pflrepro.browse(store, datset="digits")


def test_what_is_not_set_is_found_beside_what_is(tmp_path: Path) -> None:
    asked = {"clients": 3, "rounds": 0, "model": "mlp", "partition": "iid"}
    made = pflrepro.Store(tmp_path / "store", behind=tmp_path / "none")
    each = [pflrepro.Experiment.for_dataset("fedavg", "digits", min_size=size, **asked) for size in (None, 10)]
    pflrepro.run(each, store=made, progress=False, backend="loop", workers=1)
    assert [len(pflrepro.browse(made, min_size=wanted).frame) for wanted in (None, 10, [None, 10])] == [1, 1, 2]


def test_the_table_needs_no_network_and_holds_every_line(store: pflrepro.Store) -> None:
    browser = pflrepro.browse(store)
    arguments = browser.table._dt_args
    assert "downsampling_warning" not in arguments
    assert browser.table.get_state(["_esm"])["_esm"].count("https://cdn") == 0
    shown = browser._repr_mimebundle_()
    assert "accuracy (%)" in shown["text/html"] and shown["text/html"].count("<tr") == 5
    assert shown["text/plain"] == f"Browser(4 runs of {store.root}, 0 picked)"


def test_an_empty_store_has_a_table_too(tmp_path: Path) -> None:
    browser = pflrepro.browse(tmp_path / "nothing")
    assert browser.frame.empty and "0 runs of" in browser._repr_mimebundle_()["text/html"]
    assert pflrepro.browse(tmp_path / "nothing", dataset="digits").frame.empty
    assert not (tmp_path / "nothing").exists()
