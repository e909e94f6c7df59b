from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from data_sources import decode, tiny_spec

from pflrepro.data.arrays import Arrays, save_arrays
from pflrepro.data.datasets import DATASETS, find, load_arrays
from pflrepro.data.download import status
from pflrepro.data.readers import reader
from pflrepro.data.sets.types import standardised
from pflrepro.errors import CorruptFile, MissingData, UserError
from pflrepro.models import build_model


@pytest.mark.parametrize("spec", DATASETS.values(), ids=DATASETS)
def test_every_spec_is_complete(spec) -> None:
    assert DATASETS[spec.name] is spec
    assert all((spec.title, spec.origin, spec.licence, spec.citation)) and spec.classes > 1
    assert [spec.embedded, bool(spec.files), bool(spec.made_of), bool(spec.source)].count(True) == 1
    assert not spec.files or bool(spec.by_hand) != bool(spec.mirrors)
    assert spec.embedded or bool(spec.source) != callable(spec.reader and reader(spec.reader))
    assert all(mirror.startswith("https://") and mirror.endswith("/") for mirror in spec.mirrors)
    for file in spec.files:
        assert spec.by_hand or file.sha256 or file.md5 or spec.samples, "what is downloaded is checked"
        assert file.sha256 is None or (len(file.sha256) == 64 and int(file.sha256, 16))
        assert file.md5 is None or (len(file.md5) == 32 and int(file.md5, 16))
        assert Path(file.name).name == file.name.removesuffix("/")
    for part in ("role", "name"):
        assert len({getattr(file, part) for file in spec.files}) == len(spec.files)
    preset = spec.preset
    assert (
        preset.settings.lr > 0 and preset.settings.batch_size > 0 and preset.min_size > 0 and preset.settings.rounds > 0
    )


@pytest.mark.parametrize("spec", DATASETS.values(), ids=DATASETS)
def test_the_preset_names_a_model_that_takes_the_samples(spec) -> None:
    assert build_model(spec.preset.model, spec.shape, spec.classes, seed=0) is not None


def test_values_are_brought_to_the_unit_range() -> None:
    for name, least, largest in (
        ("digits", 0, 16),
        ("mnist", 0, 255),
        ("cifar100", 0, 255),
        ("tiny-imagenet", 0, 255),
        ("usps", -1, 1),
    ):
        scale, offset = DATASETS[name].to_unit
        assert scale * least + offset == pytest.approx(-1) and scale * largest + offset == pytest.approx(1)


def test_means_and_deviations_by_hand() -> None:
    scale, offset = standardised((0.5, 0.25), (0.5, 0.1))
    assert scale == pytest.approx((2 / 255, 10 / 255)) and offset == pytest.approx((-1.0, -2.5))
    scale, offset = DATASETS["pacs"].to_unit
    assert len(scale) == len(offset) == 3 and scale[0] * 255 * 0.485 + offset[0] == pytest.approx(0)


def test_digits_need_no_data_root() -> None:
    arrays = load_arrays("digits", root="nowhere")
    assert arrays.fingerprint() == DATASETS["digits"].fingerprint
    assert len(arrays.labels()) == 10 and arrays.shape == DATASETS["digits"].shape


def test_missing_data_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(MissingData) as caught:
        load_arrays("mnist", tmp_path)
    message = str(caught.value)
    assert "pflrepro data get mnist" in message and str(tmp_path) in message and "digits" in message
    assert "\n" not in message


def test_the_part_that_nobody_can_download_is_named(tmp_path: Path) -> None:
    (row,) = status(tmp_path, "digit3")
    assert row["detail"] == (
        "get it with `pflrepro data get digit3`, but first place by hand what `pflrepro data status mnistm-68k` says"
    )


def test_a_set_made_of_one_that_is_missing_is_named_too(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match=r"'cifar10-s' is made from 'cifar10', which is not in .* data get cifar10`"):
        load_arrays("cifar10-s", tmp_path)


def test_an_unknown_name_lists_the_valid_ones() -> None:
    with pytest.raises(UserError, match=r"unknown data set 'fminst' .*; valid: fmnist, "):
        load_arrays("fminst")


def test_a_cache_of_another_tool_loads(tmp_path: Path, sources: dict[str, bytes]) -> None:
    ours = decode(sources, tmp_path / "sources")
    spec = tiny_spec(sources, fingerprint=ours.fingerprint())
    (tmp_path / "tiny").mkdir()
    np.savez(tmp_path / "tiny" / "tiny.npz", x=ours.x, y=ours.y, split=ours.split, index=np.arange(40))
    arrays = load_arrays("tiny", tmp_path, datasets={"tiny": spec})
    np.testing.assert_array_equal(arrays.x, ours.x)
    assert find("tiny", {"tiny": spec}) is spec


def test_a_cache_with_the_channels_last_loads(tmp_path: Path) -> None:
    x = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    save_arrays(tmp_path / "tiny" / "tiny.npz", Arrays("tiny", x, np.array([0, 1])))
    spec = replace(DATASETS["cifar10"], name="tiny", shape=(3, 4, 5), samples=2, class_names=("a", "b"))
    arrays = load_arrays("tiny", tmp_path, datasets={"tiny": spec})
    np.testing.assert_array_equal(arrays.x, x.transpose(0, 3, 1, 2))
    assert status(tmp_path, datasets={"tiny": spec})[0]["state"] == "present"
    with pytest.raises(CorruptFile, match=r"samples have shape \(4, 5, 3\), expected \(3, 5, 4\)"):
        load_arrays("tiny", tmp_path, datasets={"tiny": replace(spec, shape=(3, 5, 4))})


def test_other_content_is_refused(tmp_path: Path, sources: dict[str, bytes]) -> None:
    ours = decode(sources, tmp_path / "sources")
    known = {"tiny": tiny_spec(sources, fingerprint=ours.fingerprint())}
    x = ours.x.copy()
    x[3, 1, 1] ^= 1
    save_arrays(tmp_path / "tiny" / "tiny.npz", Arrays("tiny", x, ours.y))
    with pytest.raises(CorruptFile, match=r"content has SHA-256 .* pflrepro data get tiny"):
        load_arrays("tiny", tmp_path, datasets=known)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shape": (5, 4)}, "samples have shape"),
        ({"class_names": ("a", "b")}, "label 2"),
        ({"samples": 41}, "40 samples, expected 41"),
        ({"class_names": ("a", "b", "c", "d")}, "no sample of class 3"),
    ],
)
def test_a_cache_of_another_form_is_refused(
    tmp_path: Path, sources: dict[str, bytes], change: dict, words: str
) -> None:
    ours = decode(sources, tmp_path / "sources")
    save_arrays(tmp_path / "tiny" / "tiny.npz", replace(ours, classes=None))
    with pytest.raises(CorruptFile, match=words):
        load_arrays("tiny", tmp_path, datasets={"tiny": tiny_spec(sources, **change)})


def test_a_broken_cache_names_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "mnist.npz").write_bytes(b"rubbish")
    with pytest.raises(CorruptFile, match=r"mnist\.npz is corrupt: .* pflrepro data get mnist"):
        load_arrays("mnist", tmp_path)


def test_listing_imports_no_framework() -> None:
    code = (
        "import sys, pflrepro.data.datasets\n"
        "heavy = {'numpy'} & set(sys.modules)\n"
        "import pflrepro.data.partitions.parse\n"
        "heavy |= {'torch', 'sklearn', 'scipy', 'pandas', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
