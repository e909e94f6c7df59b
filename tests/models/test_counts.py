"""Sizes of the networks against the numbers that the papers' notes give, and hand sums where they give none."""

from __future__ import annotations

import pytest

from pflrepro.models import build_model
from pflrepro.models.split import parameters_of

# Published for the whole network (protocol section 2; DBE and GPFL).
WHOLE = [
    ("cnn4", (28, 28), 10, 582_026, 512),
    ("cnn4", (3, 32, 32), 100, 924_708, 512),
    ("cnn4", (3, 64, 64), 200, 5_694_600, 512),
    ("resnet18", (3, 64, 64), 200, 11_279_112, 512),
    ("fasttext", (200,), 4, 3_157_508, 32),
    ("har-cnn", (9, 1, 128), 6, 2_253_958, 1664),
    ("mlp3", (5000,), 2, 5_551_802, 100),
    # He et al. 2016, table 6: 0.27 M for ResNet-20, to the digit the sum of its layers
    ("resnet20-gn", (3, 32, 32), 10, 269_722, 64),
]
# Published for the base alone.
BASE = [
    ("fedpac-cnn4", (28, 28), 62, 115_776, 128),  # pFedFDA section 5, its Table 8
    ("fedpac-cnn5", (3, 32, 32), 100, 106_400, 128),  # the same
    ("pfedfda-resnet18", (3, 64, 64), 200, 11_167_212, 512),  # the same: 11,166,912 weights and 300 of the norms
    ("resnet18-gn", (3, 64, 64), 200, 11_176_512, 512),  # pFedFDA section 5: a standard group norm has 9,600
    ("domainbed-cnn", (28, 28), 10, 370_560, 128),  # FedBR section 5
    ("vgg11", (3, 32, 32), 10, 9_220_480, 512),  # FedBR section 5, 9.2 M in its Table 7
    ("cct-7-3x1", (3, 32, 32), 100, 3_757_569, 256),  # FedBR section 5
    # ResNet-32's 464,154 without its linear layer of 650 (He et al. 2016, table 6: 0.46 M)
    ("resnet30", (3, 32, 32), 10, 464_154 - 650, 64),
    # a 3x3 stem in place of the 7x7 one
    ("resnet18-small", (3, 32, 32), 10, 11_176_512 - 3 * 64 * (49 - 9), 512),
    ("resnet18-gn-small", (3, 32, 32), 10, 11_176_512 - 3 * 64 * (49 - 9), 512),
]
ECG = (
    (7 * 32 + 2 * 32)
    + (5 * 32 * 64 + 5 * 64 * 64 + 32 * 64 + 3 * 2 * 64)
    + (5 * 64 * 128 + 5 * 128 * 128 + 64 * 128 + 3 * 2 * 128)
)


def sizes(name: str, shape: tuple[int, ...], classes: int) -> tuple[int, int, int]:
    network = build_model(name, shape, classes, 0)
    return parameters_of(network.base).size(), parameters_of(network.head).size(), network.features


@pytest.mark.parametrize(("name", "shape", "classes", "parameters", "features"), WHOLE)
def test_the_whole_network_has_the_published_size(
    name: str, shape: tuple, classes: int, parameters: int, features: int
) -> None:
    base, head, z = sizes(name, shape, classes)
    assert (base + head, z) == (parameters, features)


@pytest.mark.parametrize(("name", "shape", "classes", "parameters", "features"), BASE)
def test_the_base_has_the_published_size(name: str, shape: tuple, classes: int, parameters: int, features: int) -> None:
    base, _, z = sizes(name, shape, classes)
    assert (base, z) == (parameters, features)


def test_heads() -> None:
    assert sizes("domainbed-cnn", (28, 28), 10)[1] == 1_290  # FedBR section 5
    assert sizes("fedpac-cnn4", (28, 28), 62)[1] == 128 * 62 + 62
    assert sizes("resnet30", (3, 32, 32), 10)[1] == (64 * 64 + 64) + (64 * 10 + 10)  # two dense layers [GRP-FED]
    assert sizes("har-cnn", (9, 1, 128), 6)[1] == 1664 * 1024 + 1024 + 1024 * 512 + 512 + 512 * 6 + 6


def test_the_ecg_network() -> None:
    """No published size: the layers of GRP-FED's notes, section 6, one lead and 12 classes."""
    assert sizes("ecg-resnet", (256,), 12) == (ECG, (128 * 128 + 128) + (128 * 12 + 12), 128)


# DBE's Tables 1 and 7: the number of PRBM parameters is the length of z.
POSITIONS = {
    "cnn4": {"conv1": 28_800, "conv2": 10_816, "fc1": 512},
    "resnet18": {"conv": 16_384, "b1": 16_384, "b2": 8_192, "b3": 4_096, "b4": 2_048, "pool": 512},
}


@pytest.mark.parametrize(
    ("name", "features"), [(f"{m}@{s}", k) for m, found in POSITIONS.items() for s, k in found.items()]
)
def test_the_features_at_dbes_positions_on_tiny_imagenet(name: str, features: int) -> None:
    assert build_model(name, (3, 64, 64), 2, 0).features == features
