"""Sets that hold a part of their original: what is marked, what is made from what."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pflrepro.data.arrays import Arrays, save_arrays
from pflrepro.data.datasets import DATASETS, load_arrays
from pflrepro.data.download import get, status
from pflrepro.data.partition import partition
from pflrepro.data.readers import cifar
from pflrepro.errors import CorruptFile, MissingData

RANDOM = np.random.default_rng(0)
HALF = DATASETS["cifar10-half"]
TRAIN, TEST = 21, 12


def test_what_is_a_part_says_so_and_so_do_the_sets_made_of_it() -> None:
    own = {name for name, spec in DATASETS.items() if spec.reduced and not spec.source}
    assert own == {"cifar10-half", "agnews-part", "amazon-labelled", "digit3"}
    derived = [spec for spec in DATASETS.values() if spec.source]
    assert all(spec.reduced == DATASETS[spec.source].reduced for spec in derived)
    rows = {row["name"]: row["reduced"] for row in status("nowhere", ["cifar10-half-s", "cifar10-s"])}
    assert rows == {"cifar10-half-s": HALF.reduced, "cifar10-s": ""} and "29,968 of 60,000" in HALF.reduced


def test_all_that_is_made_of_cifar10_is_made_of_its_half_too() -> None:
    def family(source: str) -> dict:
        fields = ("shift", "part", "preset", "to_unit", "shape", "class_names")
        made = [spec for spec in DATASETS.values() if spec.source == source]
        return {spec.name.replace(source, "*"): [getattr(spec, field) for field in fields] for spec in made}

    whole, part = family("cifar10"), family("cifar10-half")
    assert whole == part and {"*-s", "*-s-paper", "*-fog-3", "rotated-*", "rotated-*-code", "clean-*"} < set(whole)
    assert DATASETS["clean-cifar10-half"].samples == HALF.train_samples == 24_982
    assert DATASETS["cifar10-half-s"].samples == HALF.samples == 29_968


def test_the_images_that_are_left_out_are_named() -> None:
    rows = np.array(cifar._NOT_HELD)
    assert len(set(rows.tolist())) == 32 and (np.diff(rows) > 0).all()
    train, test = rows[rows < 25_000], rows[rows >= 25_000]
    assert test.min() >= 50_000 and test.max() < 55_000
    assert (25_000 - len(train), 5_000 - len(test)) == (HALF.train_samples, HALF.samples - HALF.train_samples)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data root with a CIFAR-10 of 21 training and 12 test images, of which half has 10 and 6 less two."""
    x = RANDOM.integers(0, 256, (TRAIN + TEST, 3, 32, 32), dtype=np.uint8)
    split = np.repeat([0, 1], [TRAIN, TEST])
    save_arrays(tmp_path / "cifar10" / "cifar10.npz", Arrays("cifar10", x, np.arange(len(x)) % 10, split))
    monkeypatch.setattr(cifar, "_NOT_HELD", (3, 22))
    for name, spec in list(DATASETS.items()):
        sizes = {"cifar10": (TRAIN, TRAIN + TEST), "cifar10-half": (9, 14)}.get(spec.stored_as)
        if sizes:
            samples = sizes[0] if spec.part == "train" else sizes[1]
            changed = replace(spec, samples=samples, train_samples=sizes[0], fingerprint=None)
            monkeypatch.setitem(DATASETS, name, changed)
    return tmp_path


def test_half_is_made_from_all_of_it(root: Path) -> None:
    row = get("clean-cifar10-half", root)[0]
    assert (row["action"], row["state"], row["source"]) == ("converted", "present", "cifar10-half")
    whole, half = load_arrays("cifar10", root), load_arrays("cifar10-half", root)
    rows = [0, 1, 2, 4, 5, 6, 7, 8, 9, 21, 23, 24, 25, 26]
    np.testing.assert_array_equal(half.x, whole.x[rows])
    assert half.y.tolist() == whole.y[rows].tolist() and half.split.tolist() == [0] * 9 + [1] * 5
    np.testing.assert_array_equal(load_arrays("clean-cifar10-half", root).x, whole.x[rows[:9]])
    # with the channels last, as another tool may have written the whole, it is the same
    (root / "cifar10-half" / "cifar10-half.npz").unlink()
    np.savez(root / "cifar10" / "cifar10.npz", x=whole.x.transpose(0, 2, 3, 1), y=whole.y, split=whole.split)
    get("cifar10-half", root)
    assert load_arrays("cifar10-half", root).fingerprint() == half.fingerprint()


def test_a_half_that_is_there_needs_nothing_else(root: Path) -> None:
    get("cifar10-half", root)
    (root / "cifar10" / "cifar10.npz").unlink()
    assert get("cifar10-half-fog-3", root)[0]["action"] == get("cifar10-half", root)[0]["action"] == "present"
    assert not (root / "cifar10" / ".download").exists()


@pytest.mark.parametrize("split", [None, np.zeros(TRAIN + TEST, int), np.repeat([1, 0], [TEST, TRAIN])])
def test_a_whole_that_does_not_tell_its_parts_is_refused(root: Path, split: np.ndarray | None) -> None:
    arrays = load_arrays("cifar10", root)
    save_arrays(root / "cifar10" / "cifar10.npz", replace(arrays, split=split))
    with pytest.raises(
        CorruptFile, match=r"cifar10-half cannot be made from its parts: .* official training rows, all"
    ):
        get("cifar10-half", root)


def test_another_whole_gives_no_half(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DATASETS, "cifar10-half", replace(DATASETS["cifar10-half"], fingerprint="0" * 64))
    with pytest.raises(CorruptFile, match="cannot be made from its parts: its content has SHA-256"):
        get("cifar10-half", root)


def three_domains(folder: Path) -> dict:
    """Fifty images of each domain, ten classes."""
    known = {"digit3": replace(DATASETS["digit3"], samples=150)}
    for name, shape in {"mnist": (28, 28), "usps": (16, 16), "mnistm-68k": (3, 32, 32)}.items():
        x = RANDOM.integers(0, 256, (50, *shape), dtype=np.uint8)
        x = x if name != "usps" else (x / 127.5 - 1).astype(np.float32)
        save_arrays(folder / name / f"{name}.npz", Arrays(name, x, np.arange(50) % 10))
        known[name] = replace(DATASETS[name], samples=50, fingerprint=None)
    return known


def test_digit3_has_three_domains_as_groups(tmp_path: Path) -> None:
    known = three_domains(tmp_path)
    assert get("digit3", tmp_path, datasets=known)[0]["action"] == "converted"
    arrays = load_arrays("digit3", tmp_path, datasets=known)
    assert arrays.x.shape == (150, 3, 32, 32) and arrays.group.tolist() == [0] * 50 + [1] * 50 + [2] * 50
    assert arrays.split.reshape(3, 50).sum(1).tolist() == [10] * 3
    last = load_arrays("mnistm-68k", tmp_path, datasets=known)
    assert sorted(map(bytes, arrays.x[100:])) == sorted(map(bytes, last.x)), "nothing is resized"
    assert (arrays.x[:100, 0] == arrays.x[:100, 2]).all() and (arrays.x[100:, 0] != arrays.x[100:, 2]).any()


def test_digit3_has_four_clients_a_domain() -> None:
    preset = DATASETS["digit3"].preset
    assert replace(preset, clients=20) == DATASETS["digit5"].preset and preset.clients == 12
    groups = torch.arange(3).repeat_interleave(1000)
    division = partition(preset.partition, torch.arange(3000) % 10, preset.clients, seed=1, groups=groups)
    pairs = zip(division.train, division.test, strict=True)
    domains = [set(groups[torch.cat([torch.as_tensor(rows) for rows in pair])].tolist()) for pair in pairs]
    assert domains == [{k // 4} for k in range(12)]


def test_all_sets_together_leave_out_a_set_with_a_part_to_be_placed(tmp_path: Path) -> None:
    known = three_domains(tmp_path)
    made = (tmp_path / "mnistm-68k" / "mnistm-68k.npz").rename(tmp_path / "aside.npz")
    with pytest.raises(MissingData, match=r"'mnistm-68k' has no download to rely on.*the folder mnist_m/"):
        get("digit3", tmp_path, datasets=known)

    def actions() -> dict[str, str]:
        return {row["name"]: row["action"] for row in get(None, tmp_path, datasets=known)}

    assert actions() == {"digit3": "by hand", "mnist": "present", "usps": "present", "mnistm-68k": "by hand"}
    made.rename(tmp_path / "mnistm-68k" / "mnistm-68k.npz")
    assert actions()["digit3"] == "converted"
    (tmp_path / "mnistm-68k" / "mnistm-68k.npz").unlink()
    assert actions()["digit3"] == "present", "what is made needs its parts no more"
