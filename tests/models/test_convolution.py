"""A convolution as a product of matrices: the same numbers and derivatives, and where it is taken."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.func import grad, vmap

from pflrepro.models import build_model, convolution
from pflrepro.models.convolution import Conv2d, product
from pflrepro.models.split import FunctionalModule, parameters_of
from pflrepro.trees import Tree, repeat


def derivatives(name: str, shape: tuple[int, ...], order: int) -> list[Tensor]:
    """Of a loss of three clients with weights of their own, in float64: the first, or that of a sum of squares of the first."""
    base = FunctionalModule(build_model(name, shape, 10, 0).base)
    source = torch.Generator().manual_seed(1)
    stacked = repeat(parameters_of(build_model(name, shape, 10, 0).base), 3)
    stacked = stacked.map(lambda v: v.double() + 0.01 * torch.randn(v.shape, generator=source, dtype=torch.float64))
    x = torch.randn(3, 4, *((1, *shape) if len(shape) == 2 else shape), generator=source, dtype=torch.float64)

    def loss(params: Tree, batch: Tensor) -> Tensor:
        return base(params, Tree(), batch, True)[0].square().sum()

    def squares(params: Tree, batch: Tensor) -> Tensor:
        return sum((each**2).sum() for each in grad(loss)(params, batch).leaves())

    return list(vmap(grad(loss if order == 1 else squares))(stacked, x).leaves())


@pytest.mark.filterwarnings("error")  # vmap warns of what it does one after another
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("name", "shape"), [("cnn4", (28, 28)), ("har-cnn", (9, 1, 128))])
def test_a_product_has_the_convolutions_derivatives(
    monkeypatch: pytest.MonkeyPatch, name: str, shape: tuple[int, ...], order: int
) -> None:
    expected, taken = derivatives(name, shape, order), []

    def forward(layer: Conv2d, x: Tensor) -> Tensor:
        assert convolution._mapped(layer.weight) and convolution._is_plain(layer)
        taken.append(convolution._patches(layer, x) <= convolution.LARGEST)
        return product(layer, x)

    monkeypatch.setattr(Conv2d, "forward", forward)
    found = derivatives(name, shape, order)
    assert taken and all(taken)
    for mine, other in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("layer", "plain"),
    [
        (lambda: nn.Conv2d(4, 6, 3), True),
        (lambda: nn.Conv2d(4, 6, 3, padding="valid"), True),
        (lambda: nn.Conv2d(4, 6, 3, padding=1), False),
        (lambda: nn.Conv2d(4, 6, 3, padding="same"), False),
        (lambda: nn.Conv2d(4, 6, 3, stride=2), False),
        (lambda: nn.Conv2d(4, 6, 3, dilation=2), False),
        (lambda: nn.Conv2d(4, 6, 3, groups=2), False),
    ],
)
def test_which_convolutions_are_plain(layer: Callable[[], nn.Conv2d], plain: bool) -> None:
    made = layer()
    assert convolution._is_plain(made) == plain
    if plain:
        x = torch.randn(2, 4, 7, 8)
        torch.testing.assert_close(product(made, x), made(x))


def test_patches_are_counted() -> None:
    layer = nn.Conv2d(32, 64, 5)
    assert convolution._patches(layer, torch.zeros(10, 32, 12, 12)) == 10 * 8 * 8 * 32 * 5 * 5


def test_only_weights_of_each_clients_own_are_mapped() -> None:
    seen: list[bool] = []

    def loss(weight: Tensor, x: Tensor) -> Tensor:
        seen.append(convolution._mapped(weight))
        return (weight * x).sum()

    weight, x = torch.ones(3, 2), torch.ones(3, 2)
    vmap(grad(loss))(weight, x)
    vmap(grad(loss), in_dims=(None, 0))(weight[0], x)
    loss(weight, x)
    assert seen == [True, False, False]
