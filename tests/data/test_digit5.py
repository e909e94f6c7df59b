"""Digit5: made from its five parts, or which of them is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pflrepro.data.arrays import Arrays, save_arrays
from pflrepro.data.datasets import DATASETS, load_arrays
from pflrepro.data.download import get, status
from pflrepro.errors import MissingData


def digits_root(folder: Path) -> dict:
    random = np.random.default_rng(0)
    shapes = {
        "mnist": (28, 28),
        "svhn": (3, 32, 32),
        "usps": (16, 16),
        "synthdigits": (3, 32, 32),
        "mnistm": (3, 28, 28),
    }
    known = {"digit5": replace(DATASETS["digit5"], samples=250)}
    for name, shape in shapes.items():
        x = random.integers(0, 256, (50, *shape), dtype=np.uint8)
        x = x if name != "usps" else (x / 127.5 - 1).astype(np.float32)
        save_arrays(folder / name / f"{name}.npz", Arrays(name, x, np.arange(50) % 10))
        known[name] = replace(DATASETS[name], samples=50, fingerprint=None)
    return known


def test_digit5_is_made_from_its_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = digits_root(tmp_path)
    row = get("digit5", tmp_path, datasets=known)[0]
    assert row["state"] == "present" and row["action"] == "converted" and row["groups"] == "domain"
    arrays = load_arrays("digit5", tmp_path, datasets=known)
    assert arrays.x.shape == (250, 3, 32, 32) and np.bincount(arrays.group).tolist() == [50] * 5
    assert arrays.split.reshape(5, 50).sum(1).tolist() == [10] * 5
    for domain in range(5):
        test = (arrays.group == domain) & (arrays.split == 1)
        assert np.bincount(arrays.y[test]).tolist() == [1] * 10, "stratified"
    # where nothing is resized, the images are those of the part
    svhn = load_arrays("svhn", tmp_path, datasets=known)
    ours = arrays.x[arrays.group == 1]
    assert sorted(map(bytes, ours)) == sorted(map(bytes, svhn.x))
    grey = arrays.x[(arrays.group == 0) | (arrays.group == 2)]
    assert (grey[:, 0] == grey[:, 1]).all() and (grey[:, 0] == grey[:, 2]).all()
    usps = load_arrays("usps", tmp_path, datasets=known)
    pixels = ((usps.x + 1) / 2 * 255).astype(np.uint8)
    resized = [bytes(np.asarray(Image.fromarray(p).resize((32, 32), Image.Resampling.BILINEAR))) for p in pixels]
    assert sorted(map(bytes, arrays.x[arrays.group == 2][:, 0])) == sorted(resized)
    monkeypatch.setattr("pflrepro.data.readers.digit5.TRAINING", 15)
    (tmp_path / "digit5" / "digit5.npz").unlink()
    known["digit5"] = replace(known["digit5"], samples=125)
    assert get("digit5", tmp_path, datasets=known)[0]["samples"] == 125


def test_digit5_without_a_part_says_which(tmp_path: Path) -> None:
    known = digits_root(tmp_path)
    (tmp_path / "mnistm" / "mnistm.npz").unlink()
    with pytest.raises(MissingData, match=r"'mnistm' has no download to rely on.*mnistm_data\.pkl"):
        get("digit5", tmp_path, datasets=known)
    assert status(tmp_path, "digit5", datasets=known)[0]["state"] == "absent"
    actions = {row["name"]: row["action"] for row in get(None, tmp_path, datasets=known)}
    assert actions["digit5"] == actions["mnistm"] == "by hand" and actions["svhn"] == "present"
