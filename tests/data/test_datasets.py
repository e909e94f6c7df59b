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
from pflrepro.data.readers import READERS
from pflrepro.errors import CorruptFile, MissingData, UserError


@pytest.mark.parametrize("spec", DATASETS.values(), ids=DATASETS)
def test_every_spec_is_complete(spec) -> None:
    assert DATASETS[spec.name] is spec
    assert all((spec.title, spec.origin, spec.licence, spec.citation, spec.fingerprint))
    assert spec.embedded or (spec.reader in READERS and len(spec.mirrors) >= 2)
    assert all(mirror.startswith("https://") and mirror.endswith("/") for mirror in spec.mirrors)
    for file in spec.files:
        assert len(file.sha256) == 64 and len(file.md5) == 32 and int(file.sha256 + file.md5, 16) > 0
    assert len({file.sha256 for file in spec.files}) == len(spec.files)
    preset = spec.preset
    assert preset.lr > 0 and preset.batch_size > 0 and preset.min_size > 0 and preset.rounds > 0


def test_values_are_brought_to_the_unit_range() -> None:
    for name, largest in (("digits", 16), ("mnist", 255), ("fmnist", 255)):
        scale, offset = DATASETS[name].to_unit
        assert offset == pytest.approx(-1) and scale * largest + offset == pytest.approx(1)


def test_digits_need_no_data_root() -> None:
    arrays = load_arrays("digits", root="nowhere")
    assert arrays.fingerprint() == DATASETS["digits"].fingerprint
    assert arrays.class_count == 10 and arrays.shape == DATASETS["digits"].shape


def test_missing_data_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(MissingData) as caught:
        load_arrays("mnist", tmp_path)
    message = str(caught.value)
    assert "pflrepro data get mnist" in message and str(tmp_path) in message and "digits" in message
    assert "\n" not in message


def test_an_unknown_name_lists_the_valid_ones() -> None:
    with pytest.raises(UserError, match=r"unknown data set 'fminst'; valid: fmnist, "):
        load_arrays("fminst")


def test_a_cache_of_another_tool_loads(tmp_path: Path, sources: dict[str, bytes]) -> None:
    ours = decode(sources, tmp_path / "sources")
    spec = tiny_spec(sources, fingerprint=ours.fingerprint())
    (tmp_path / "tiny").mkdir()
    np.savez(tmp_path / "tiny" / "tiny.npz", x=ours.x, y=ours.y, split=ours.split, index=np.arange(40))
    arrays = load_arrays("tiny", tmp_path, datasets={"tiny": spec})
    np.testing.assert_array_equal(arrays.x, ours.x)
    assert find("tiny", {"tiny": spec}) is spec


def test_other_content_is_refused_unless_asked_for(tmp_path: Path, sources: dict[str, bytes]) -> None:
    ours = decode(sources, tmp_path / "sources")
    known = {"tiny": tiny_spec(sources, fingerprint=ours.fingerprint())}
    x = ours.x.copy()
    x[3, 1, 1] ^= 1
    save_arrays(tmp_path / "tiny" / "tiny.npz", Arrays("tiny", x, ours.y))
    with pytest.raises(CorruptFile, match=r"content has SHA-256 .* pflrepro data get tiny"):
        load_arrays("tiny", tmp_path, datasets=known)
    np.testing.assert_array_equal(load_arrays("tiny", tmp_path, strict=False, datasets=known).x, x)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"shape": (5, 4)}, "samples have shape"),
        ({"class_names": ("a", "b")}, "label 2"),
        ({"samples": 41}, "40 samples, expected 41"),
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
        "import sys, pflrepro.data.datasets, pflrepro.data.specs, pflrepro.data.partition, pflrepro.data.download\n"
        "heavy = {'torch', 'numpy', 'sklearn', 'pandas', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
