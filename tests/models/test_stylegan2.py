"""The untrained generator: modulation, demodulation, noise, and the images of classes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from pflrepro.models.stylegan2 import Generator, Layer, Mapping, ModulatedConv, class_images


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("kernel", "demodulate"), [(3, True), (1, False)])
def test_a_modulated_convolution_scales_the_kernel_of_each_sample(kernel: int, demodulate: bool) -> None:
    conv = ModulatedConv(3, 5, kernel, 7, demodulate).double()
    x, w = normal(2, 3, 6, 6).double(), normal(2, 7, seed=1).double()
    ours = conv(x, w)
    for k in range(2):
        style = conv.style @ w[k] + 1
        weight = conv.weight * style[None, :, None, None]
        if demodulate:
            weight = weight / (weight.square().sum((1, 2, 3), keepdim=True) + 1e-8).sqrt()
        expected = F.conv2d(x[k : k + 1], weight, padding=kernel // 2)[0]
        torch.testing.assert_close(ours[k], expected, rtol=0, atol=1e-12)


def test_demodulation_forgets_the_size_of_a_style() -> None:
    """Whatever the styles are, a unit-variance input keeps about unit variance."""
    conv = ModulatedConv(64, 64, 3, 8)
    with torch.no_grad():
        out = conv(normal(8, 64, 16, 16), 10 * normal(8, 8, seed=1))[:, :, 1:-1, 1:-1]
    assert 0.8 < float(out.var()) < 1.2


def test_the_mapping_sees_only_the_direction_of_a_latent() -> None:
    mapping, z = Mapping(16, 3).double(), normal(4, 16).double()
    with torch.no_grad():
        torch.testing.assert_close(mapping(5 * z), mapping(z), rtol=1e-6, atol=1e-6)
        assert float((mapping(z)[0] - mapping(z)[1]).abs().max()) > 1e-3


def test_noise_is_added_with_its_strength() -> None:
    x, w, noise = normal(2, 4, 8, 8), normal(2, 5, seed=1), normal(2, 1, 8, 8, seed=2)
    layer = Layer(4, 5, strength=0.5)
    with torch.no_grad():
        expected = F.leaky_relu(layer.conv(x, w) + 0.5 * noise, 0.2) * 2**0.5
        torch.testing.assert_close(layer(x, w, noise), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("size", "layers"), [(4, [4]), (8, [4, 8, 8]), (32, [4, 8, 8, 16, 16, 32, 32])])
def test_the_generator_grows_to_its_size(size: int, layers: list[int]) -> None:
    network = Generator(3, size, latent=6, width=4, depth=2)
    assert network.noise_sides == layers
    noise = [normal(2, 1, side, side, seed=side) for side in layers]
    with torch.no_grad():
        images = network(normal(2, 6), noise)
        assert images.shape == (2, 3, size, size)
        for changed in range(len(layers)):  # every noise image and the latent matter
            other = [value + (k == changed) for k, value in enumerate(noise)]
            assert float((network(normal(2, 6), other) - images).abs().max()) > 1e-4
        assert float((network(normal(2, 6, seed=9), noise) - images).abs().max()) > 1e-3


@pytest.mark.parametrize("size", [2, 12, 33])
def test_other_sizes_are_not_made(size: int) -> None:
    with pytest.raises(ValueError, match="power of two"):
        Generator(1, size)


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 7, 11), (1, 28, 28)])
def test_images_have_the_shape_of_the_data(shape: tuple[int, int, int]) -> None:
    images = class_images(shape, np.array([0, 1, 1]), np.random.default_rng(0))
    assert images.shape == (3, *shape) and images.dtype == torch.float32
    assert float(images.min()) >= 0 and float(images.max()) <= 1
    torch.testing.assert_close(images * 255, (images * 255).round(), rtol=0, atol=1e-4)


def test_the_generators_stream_decides_everything() -> None:
    labels = np.arange(6) % 3
    state = torch.random.get_rng_state()
    first, again, other = (class_images((1, 8, 8), labels, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert torch.equal(state, torch.random.get_rng_state())


def test_images_are_all_different() -> None:
    images = class_images((1, 8, 8), np.arange(130) % 3, np.random.default_rng(0))  # more than are drawn at once
    assert len(torch.unique(images.flatten(1), dim=0)) == 130


def test_a_class_is_a_distribution_of_its_own() -> None:
    labels = np.arange(120) % 4
    x = class_images((1, 16, 16), labels, np.random.default_rng(0)).flatten(1)
    within = torch.stack([x[labels == c].var(0).mean() for c in range(4)])
    between = torch.stack([x[labels == c].mean(0) for c in range(4)]).var(0).mean()
    assert float(within.min()) > 1e-3  # the images of a class differ
    # with equal distributions the variance of the four means would be within / 30
    assert float(between) > 5 * float(within.mean()) / 30
