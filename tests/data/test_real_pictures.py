"""The data sets of the data root, where there is one: fingerprints, counts and means that their authors and users state."""

from __future__ import annotations

import os

import numpy as np
import pytest

from pflrepro.data.arrays import Arrays
from pflrepro.data.datasets import DATASETS, load_arrays
from pflrepro.data.readers.cifar import half
from pflrepro.data.root import cache_path
from pflrepro.errors import CorruptFile, MissingData

DATA_ROOT = os.environ.get("PFLREPRO_DATA")
pytestmark = pytest.mark.skipif(DATA_ROOT is None, reason="needs the real images: set PFLREPRO_DATA")


def real(name: str) -> Arrays:
    try:
        return load_arrays(name, DATA_ROOT)
    except (MissingData, CorruptFile) as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("name", "means", "deviations"),
    [
        ("cifar10", (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
        ("cifar100", (0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
        ("mnist", (0.1307,), (0.3081,)),
        ("fmnist", (0.2860,), (0.3530,)),
    ],
)
def test_training_means_and_deviations(name: str, means: tuple[float, ...], deviations: tuple[float, ...]) -> None:
    arrays = real(name)
    pixels = arrays.x[arrays.split == 0].reshape(DATASETS[name].train_samples, len(means), -1)
    for channel, (mean, deviation) in enumerate(zip(means, deviations, strict=True)):
        values = np.bincount(pixels[:, channel].reshape(-1), minlength=256) / pixels[:, channel].size
        found = values @ np.arange(256) / 255
        assert found == pytest.approx(mean, abs=3e-4)
        assert np.sqrt(values @ (np.arange(256) / 255) ** 2 - found**2) == pytest.approx(deviation, abs=3e-4)


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "tiny-imagenet"])
def test_equally_many_images_a_class(name: str) -> None:
    arrays = real(name)
    counts = np.bincount(arrays.y, minlength=DATASETS[name].classes)
    assert set(counts.tolist()) == {len(arrays) // DATASETS[name].classes}


@pytest.mark.parametrize("name", [name for name, spec in DATASETS.items() if spec.fingerprint and not spec.embedded])
def test_the_recorded_fingerprint_is_that_of_the_data(name: str) -> None:
    try:
        arrays = load_arrays(name, DATA_ROOT)
    except MissingData as error:
        pytest.skip(str(error))
    assert arrays.fingerprint() == DATASETS[name].fingerprint


def test_the_first_picture_of_cifar100_is_the_published_one() -> None:
    """Of the row that documentation of other libraries shows, the first and the last three pixels."""
    first = real("cifar100").x[0, :, 0].T
    assert first[:3].tolist() == [[255, 255, 255]] * 3
    assert first[-3:].tolist() == [[195, 205, 193], [212, 224, 204], [182, 194, 167]]


def test_half_of_cifar10_has_its_known_counts() -> None:
    arrays = real("cifar10-half")
    train, test = (np.bincount(arrays.y[arrays.split == part]).tolist() for part in (0, 1))
    assert train == [2491, 2518, 2515, 2522, 2490, 2411, 2537, 2529, 2490, 2479]
    assert test == [488, 505, 512, 497, 507, 488, 491, 495, 490, 513]


def test_half_of_cifar10_made_from_all_of_it_is_the_same() -> None:
    real("cifar10")
    spec = DATASETS["cifar10-half"]
    assert half(spec, {"cifar10": cache_path("cifar10", DATA_ROOT)}).fingerprint() == spec.fingerprint


@pytest.mark.parametrize(
    ("name", "domains"), [("pacs", [2048, 2344, 1670, 3929]), ("digit3", [21_438, 9298, 21_039])], ids=lambda v: str(v)
)
def test_the_domains_have_their_known_sizes(name: str, domains: list[int]) -> None:
    assert np.bincount(real(name).group).tolist() == domains


def test_usps_has_the_released_counts() -> None:
    arrays = real("usps")
    train, test = (np.bincount(arrays.y[arrays.split == part]).tolist() for part in (0, 1))
    assert train == [1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644]
    assert test == [359, 264, 198, 166, 200, 160, 170, 147, 166, 177]
    assert arrays.x.min() == -1 and arrays.x.max() == 1
