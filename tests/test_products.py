"""Products by either library: the same numbers, whatever the layout of the operands."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from pflrepro import operations, products
from pflrepro.products import product


@pytest.fixture(params=["as here", "without oneDNN"])
def library(request, monkeypatch) -> None:
    if request.param == "without oneDNN":
        monkeypatch.setattr(products, "_one_dnn", lambda: False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("relu", [False, True])
def test_it_is_the_product(library, dtype: torch.dtype, relu: bool) -> None:
    draw = torch.Generator().manual_seed(0)
    a, b = torch.randn(7, 33, generator=draw, dtype=dtype), torch.randn(33, 5, generator=draw, dtype=dtype)
    bias = torch.randn(5, generator=draw, dtype=dtype)
    for left, right in ((a, b), (a.T.contiguous().T, b), (a, b.T.contiguous().T)):
        for added in (None, bias):
            expected = left.double() @ right.double() + (0 if added is None else added.double())
            expected = expected.relu() if relu else expected
            found = product(left, right, added, relu)
            assert found.dtype == dtype
            torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-5 if dtype == torch.float32 else 1e-12)


def test_nothing_to_sum_is_zero(library) -> None:
    assert product(torch.ones(2, 0), torch.ones(0, 3)).tolist() == [[0.0] * 3] * 2
    assert product(torch.ones(0, 4), torch.ones(4, 3)).shape == (0, 3)


def test_operations_of_what_is_nested() -> None:
    """y = w x with w [4, 3], x [3, 5]: 120 operations; with the gradients by w and x 360, however they are taken."""
    w, x = torch.ones(4, 3, requires_grad=True), torch.ones(3, 5, requires_grad=True)
    with operations.Operations() as counted:
        torch.autograd.grad((w @ x).sum(), [w, x])
    assert counted.operations == 360
    with operations.Operations() as counted:
        torch.func.grad(lambda w, x: (w @ x).sum(), argnums=(0, 1))(w.detach(), x.detach())
    assert counted.operations == 360


def test_products_with_vectors_and_onednns_are_counted() -> None:
    with operations.Operations() as counted:
        product(torch.ones(2, 3), torch.ones(3, 5), torch.ones(5), relu=True)
    assert counted.operations == 60
    with operations.Operations() as counted:
        _ = torch.ones(4, 3) @ torch.ones(3), torch.ones(7) @ torch.ones(7)
    assert counted.operations == 24 + 14


@pytest.mark.parametrize(
    ("groups", "stride", "transposed"), [(1, 1, False), (4, 1, False), (2, 2, False), (1, 2, True)]
)
def test_the_derivatives_of_a_convolution_count_as_forward_does(groups: int, stride: int, transposed: bool) -> None:
    """Each of the two derivatives moves as many numbers through as many weights; torch's own rule agrees where groups = 1."""
    kind = torch.nn.ConvTranspose2d if transposed else torch.nn.Conv2d
    layer, x = kind(4, 8, 3, stride, groups=groups), torch.ones(2, 4, 9, 9, requires_grad=True)
    with operations.Operations() as forward:
        out = layer(x)
    with operations.Operations() as backward:
        torch.autograd.grad(out.sum(), [x, layer.weight])
    if not transposed:
        assert forward.operations == 2 * out.numel() * 9 * 4 // groups
    assert backward.operations == 2 * forward.operations > 0
    with operations.Operations() as one:
        torch.autograd.grad(layer(x.detach()).sum(), [layer.weight])
    assert one.operations == 2 * forward.operations, "forward and one derivative"
    if groups == 1:
        with FlopCounterMode(display=False) as theirs:
            layer(x).sum().backward()  # it cannot count `autograd.grad`
        assert theirs.get_total_flops() == 3 * forward.operations
