"""Data of one's own, `file:FILE.npz`: trained on like any set, known by their content, never by their place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pflrepro
from pflrepro.data.datasets import find, load_arrays
from pflrepro.data.sets.types import PIXELS, RAW
from pflrepro.errors import CorruptFile, UserError
from pflrepro.experiments.identity import run_id

X = np.random.default_rng(0).standard_normal((60, 4)).astype("float32")
Y = np.arange(60) % 3


def written(folder: Path, name: str = "mine", **arrays: np.ndarray) -> str:
    folder.mkdir(exist_ok=True)
    np.savez(folder / f"{name}.npz", **({"x": X, "y": Y} | arrays))
    return f"file:{folder / f'{name}.npz'}"


def experiment(dataset: str, **changes: object) -> pflrepro.Experiment:
    given = {"partition": "iid", "clients": 3, "rounds": 2, "batch_size": 5}
    return pflrepro.Experiment.for_dataset("fedavg", dataset, **(given | changes))


def test_a_file_is_trained_on_compared_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = experiment(written(tmp_path))
    store = pflrepro.Store(tmp_path / "store")
    run = pflrepro.run(asked, store=store, progress=False)
    assert run.rounds == 2 and run.history["test_samples"].tolist() == [5, 5, 5]
    monkeypatch.chdir(tmp_path)  # by another way to the same file
    assert pflrepro.run(experiment("file:mine.npz"), store=store, progress=False).id == run.id
    (tmp_path / "mine.npz").unlink()
    (kept,) = pflrepro.Store(store.root).select(dataset="file:mine.npz")
    assert "--dataset file:mine.npz" in kept.command and pflrepro.compare([kept]).table.shape[0] == 1
    with pytest.raises(UserError, match=r"there is no array file mine.npz"):
        pflrepro.run(kept.experiment.with_settings(rounds=3), store=store, progress=False)


def test_a_run_is_known_by_the_content_of_its_file_and_names_no_folder(tmp_path: Path) -> None:
    ids = [run_id(experiment(written(tmp_path / place, name))) for place, name in (("a", "mine"), ("b", "other"))]
    assert ids[0] == ids[1]
    assert run_id(experiment(written(tmp_path / "a", y=(Y + 1) % 3))) != ids[0]
    store = pflrepro.Store(tmp_path / "store")
    run = pflrepro.run(experiment(written(tmp_path / "a")), store=store, progress=False)
    assert str(tmp_path) not in (store.folder(run.id) / "config.json").read_text("utf-8")


def test_proxy_data_may_be_a_file(tmp_path: Path) -> None:
    asked = experiment(written(tmp_path), proxy=written(tmp_path, "proxy", x=X[:9], y=Y[:9]))
    assert len(pflrepro.load_federation(asked).proxy.y) == 9
    assert run_id(asked) != run_id(experiment(written(tmp_path)))


def test_pixels_are_scaled_and_other_numbers_left_as_they_are(tmp_path: Path) -> None:
    pictures = np.zeros((60, 3, 8, 8), np.uint8)
    spec = find(written(tmp_path, "pictures", x=pictures, classes=np.array(["cat", "dog", "cow"])))
    assert (spec.to_unit, spec.shape, spec.class_names) == (PIXELS, (3, 8, 8), ("cat", "dog", "cow"))
    assert find(written(tmp_path)).to_unit == find(written(tmp_path, "table", x=X.astype(np.uint8))).to_unit == RAW


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": Y + 1}, "has no sample of class 0: labels count from 0, here to 3"),
        ({"y": Y[:50]}, "'y' has 50 rows, 'x' has 60"),
        ({"x": np.full_like(X, np.nan)}, "'x' has values that are not finite"),
        ({"x": X[:, 0]}, r"'x' has shape \(60,\), not \[samples, ...\]"),
        ({"y": Y / 2}, "'y' has dtype float64"),
    ],
)
def test_odd_files_are_refused_in_one_line(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_arrays(written(tmp_path, **arrays))


def test_an_unknown_name_says_how_own_data_are_named() -> None:
    with pytest.raises(UserError, match=r"unknown data set 'mine' \(data of your own: file:FILE.npz\); valid: "):
        find("mine")


def test_what_is_not_read_of_a_file_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    find(written(tmp_path))
    assert not caplog.messages
    find(written(tmp_path, "split", split=Y // 2, person=Y))
    [said] = caplog.messages
    assert said.startswith("split.npz has person, split, which is not read: only x, y, group, classes are")


def test_text_labels_of_a_table_are_told_how_to_become_numbers(tmp_path: Path) -> None:
    with pytest.raises(CorruptFile, match=r"has arrays of Python objects, .* y, classes = pandas.factorize\(labels\)"):
        find(written(tmp_path, y=np.array(["a", "b", "c"] * 20, dtype=object)))


@pytest.mark.parametrize("given", [None, X])
def test_data_are_named_and_not_given(given: object) -> None:
    with pytest.raises(UserError, match=r"a data set is a name or file:FILE.npz, not a (NoneType|ndarray)"):
        experiment(given)
