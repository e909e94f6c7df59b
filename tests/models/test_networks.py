"""The networks: sizes as the papers print them, shapes, refusals, seeded weights."""

from __future__ import annotations

import pytest
import torch

from pflrepro.errors import UserError
from pflrepro.models import MODELS, build_model
from pflrepro.models.initialise import seeded
from pflrepro.models.split import parameters_of


def size(name: str, shape: tuple[int, ...], classes: int) -> int:
    network = build_model(name, shape, classes, 0)
    return parameters_of(network.base).size() + parameters_of(network.head).size()


@pytest.mark.parametrize(
    ("shape", "classes", "parameters"),
    [((28, 28), 10, 582_026), ((3, 32, 32), 100, 924_708), ((3, 64, 64), 200, 5_694_600)],
)
def test_the_papers_cnn_has_the_published_number_of_parameters(shape: tuple, classes: int, parameters: int) -> None:
    assert size("cnn4", shape, classes) == parameters


@pytest.mark.parametrize("name", MODELS)
def test_a_network_maps_a_batch_to_features_and_logits(name: str) -> None:
    shape = (28, 28) if name == "cnn4" else (8, 8)
    network = build_model(name, shape, 7, 0)
    z = network.base(torch.zeros(3, 1, *shape))
    assert z.shape == (3, network.features) and (z >= 0).all(), "the features stand behind a ReLU"
    assert network.head(z).shape == (3, 7)


def test_the_mlp_takes_any_shape() -> None:
    network = build_model("mlp", (6,), 2, 0)
    assert network.base(torch.zeros(4, 6)).shape == (4, 32)


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("cnn4", (8, 8), "cnn4 needs images of at least 16x16, not 8x8; valid for small images: cnn-digits, mlp"),
        ("cnn-digits", (4, 8), "at least 8x8, not 4x8"),
        ("cnn4", (784,), "takes images [H, W] or [C, H, W], not inputs of shape [784]"),
        ("cnn5", (28, 28), "unknown model 'cnn5'; valid: cnn4"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(name: str, shape: tuple, message: str) -> None:
    with pytest.raises(UserError) as caught:
        build_model(name, shape, 10, 0)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_the_smallest_images_that_fit() -> None:
    assert build_model("cnn4", (16, 16), 2, 0).base(torch.zeros(1, 1, 16, 16)).shape == (1, 512)
    assert build_model("cnn-digits", (8, 8), 2, 0).base(torch.zeros(1, 1, 8, 8)).shape == (1, 64)


def test_weights_depend_on_the_seed_alone_and_leave_the_global_stream_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    first = parameters_of(build_model("mlp", (8, 8), 4, 1).base)
    assert torch.equal(torch.rand(2), expected)
    torch.manual_seed(99)
    again, other = (parameters_of(build_model("mlp", (8, 8), 4, seed).base) for seed in (1, 2))
    assert all(torch.equal(a, b) for a, b in zip(first.leaves(), again.leaves(), strict=True))
    assert all(not torch.equal(a, b) for a, b in zip(first.leaves(), other.leaves(), strict=True))


def test_streams_are_keyed_by_purpose() -> None:
    draws = {purpose: seeded(0, purpose, lambda: torch.rand(3)) for purpose in ("a", "b")}
    assert not torch.equal(draws["a"], draws["b"])
    assert torch.equal(draws["a"], seeded(0, "a", lambda: torch.rand(3)))


def test_an_error_while_building_puts_the_global_stream_back() -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    with pytest.raises(ZeroDivisionError):
        seeded(0, "x", lambda: 1 / 0)
    assert torch.equal(torch.random.get_rng_state(), before)
