"""Products by either library: the same numbers, whatever the layout of the operands."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from pflrepro import operations, products
from pflrepro.models.split import FunctionalModule, parameters_of
from pflrepro.products import linear, product
from pflrepro.trees import Tree


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


class Used(TorchDispatchMode):
    """The names of the operations within it."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.add(function.overloadpacket.__name__)
        return function(*args, **(kwargs or {}))


BIG = 32, 256, 160  # samples, inputs, outputs: enough for oneDNN


def layer(*lead: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    """x [*lead, 32, 256], weight, bias, with gradients."""
    draw = torch.Generator().manual_seed(0)
    rows, inputs, outputs = BIG
    shapes = (*lead, rows, inputs), (outputs, inputs), (outputs,)
    return tuple(torch.randn(shape, generator=draw, dtype=dtype).requires_grad_() for shape in shapes)


@pytest.mark.parametrize("lead", [(), (3,)])
@pytest.mark.parametrize("turned", [False, True])
def test_a_linear_layer_and_its_gradients_are_pytorchs(library, lead, turned: bool) -> None:
    x, weight, bias = layer(*lead)
    used = weight.t().contiguous().t() if turned else weight

    def gradients(by):
        return torch.autograd.grad((by(x, used, bias) ** 2).mean(), [x, weight, bias])

    torch.testing.assert_close(linear(x, used, bias), F.linear(x, used, bias), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(gradients(linear), gradients(F.linear), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(linear(x, used), F.linear(x, used), rtol=1e-4, atol=1e-4)
    (summed,) = torch.autograd.grad(linear(x, used, bias).sum(), [weight])  # a gradient that is one number, repeated
    torch.testing.assert_close(summed, x.flatten(0, -2).sum(0).expand_as(weight), rtol=1e-4, atol=1e-4)


def test_derivatives_of_its_derivatives_are_pytorchs() -> None:
    x, weight, bias = layer()

    def twice(by):
        (first,) = torch.autograd.grad((by(x, weight, bias) ** 3).mean(), [weight], create_graph=True)
        return torch.autograd.grad((first**2).sum(), [x, weight, bias])

    for found, expected in zip(twice(linear), twice(F.linear), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=float(expected.abs().max()) * 1e-4)


def test_within_transforms_and_in_double_precision_it_is_pytorchs_bit_for_bit() -> None:
    x, weight, bias = (each.detach() for each in layer())
    stacked = torch.stack([weight, 2 * weight])
    ways = (
        lambda by: torch.func.vmap(by, (None, 0, None))(x, stacked, bias),
        lambda by: torch.func.grad(lambda w: by(x, w, bias).sum())(weight),
        lambda by: torch.func.grad(lambda b: by(x, weight, b).sum())(bias),
        lambda by: by(x.double(), weight.double(), bias.double()),
    )
    for way in ways:
        assert torch.equal(way(linear), way(F.linear))


@pytest.mark.skipif(not products._one_dnn(), reason="PyTorch without oneDNN")
def test_any_networks_linear_layers_go_this_way_where_they_are_large() -> None:
    network = nn.Sequential(nn.Linear(256, 160), nn.ReLU(), nn.Linear(160, 10))
    module, parameters = FunctionalModule(network), parameters_of(network)
    with torch.no_grad(), Used() as large:
        found, _ = module(parameters, Tree(), torch.ones(32, 256), True)
    assert {"_linear_pointwise", "addmm"} <= large.names, "the first layer, the second"
    torch.testing.assert_close(found, network(torch.ones(32, 256)), rtol=1e-4, atol=1e-4)
    with torch.no_grad(), Used() as small:
        module(parameters, Tree(), torch.ones(2, 256), True)
    assert "_linear_pointwise" not in small.names and type(network[0]) is nn.Linear


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
