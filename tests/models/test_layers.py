"""Named layers: every one can divide base and head, and every one's output can be had."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import nn

from pflrepro.models import MODELS, build_model, layer_outputs, splits
from pflrepro.models.layers import LOGITS, Reshape, assemble, is_linear, perceptron
from pflrepro.models.split import SplitModel, buffers_of, parameters_of
from pflrepro.trees import Tree


def trees_of(network: SplitModel) -> tuple[Tree, Tree]:
    parts = {"base": network.base, "head": network.head}
    return tuple(Tree({name: f(part) for name, part in parts.items()}) for f in (parameters_of, buffers_of))


@pytest.mark.parametrize("name", MODELS)
def test_the_listed_splits_are_the_networks_layers(name: str, smallest: Callable[[str], tuple]) -> None:
    assert tuple(MODELS[name].plan(smallest(name), 2)) == (*splits(name), LOGITS)


# One a family: all of them share the code that cuts.
@pytest.mark.parametrize(
    "name", ["mlp3", "cnn4", "domainbed-cnn", "resnet30", "ecg-resnet", "cct-7-3x1", "fasttext", "har-cnn"]
)
def test_the_network_is_the_same_wherever_it_is_split(
    name: str, smallest: Callable[[str], tuple], samples: Callable[..., torch.Tensor]
) -> None:
    shape, x = smallest(name), samples(name, 2).float()
    whole = build_model(name, shape, 3, 5)
    whole.base.eval(), whole.head.eval()
    expected = whole.head(whole.base(x))
    for split in splits(name):
        network = build_model(f"{name}@{split}", shape, 3, 5)
        network.base.eval(), network.head.eval()
        z = network.base(x)
        assert z.shape == (2, network.features), split
        torch.testing.assert_close(network.head(z), expected, rtol=0, atol=0, msg=split)


@pytest.mark.parametrize("name", MODELS)
def test_the_outputs_of_all_layers_are_the_modules_own(
    name: str, smallest: Callable[[str], tuple], samples: Callable[..., torch.Tensor]
) -> None:
    network, x = build_model(name, smallest(name), 3, 5), samples(name, 2).double()
    network.base.double(), network.head.double()  # in float32 wide layers are another library's (`pflrepro.products`)
    found = layer_outputs(network, *trees_of(network), x)
    network.base.eval(), network.head.eval()
    assert tuple(found) == (*splits(name), LOGITS)
    with torch.no_grad():
        z = network.base(x)
        assert torch.equal(found[MODELS[name].split].flatten(1), z)
        assert torch.equal(found[LOGITS], network.head(z))


def test_the_outputs_do_not_depend_on_the_split_and_have_the_layers_shapes() -> None:
    """DBE measures at CONV1-CONV2, CONV2-FC1, FC1-FC2 and the logits: 28,800, 10,816 and 512 numbers on Tiny-ImageNet."""
    x = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    found = []
    for split in splits("cnn4"):
        network = build_model(f"cnn4@{split}", (3, 64, 64), 200, 0)
        found.append(layer_outputs(network, *trees_of(network), x))
    shapes = {name: tuple(value.shape) for name, value in found[0].items()}
    assert shapes == {"conv1": (2, 32, 30, 30), "conv2": (2, 64, 13, 13), "fc1": (2, 512), LOGITS: (2, 200)}
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=0, atol=0)


def test_what_is_added_at_the_split_reaches_the_layers_behind_it_only() -> None:
    """DBE's z = z^g + zbar^p: the entry at its position is z^g."""
    network, x = build_model("cnn4@conv2", (16, 16), 4, 0), torch.randn(3, 1, 16, 16)
    params, buffers = trees_of(network)
    plain = layer_outputs(network, params, buffers, x)
    moved = layer_outputs(network, params, buffers, x, at_split=lambda z: z + 1)
    assert torch.equal(moved["conv1"], plain["conv1"]) and torch.equal(moved["conv2"], plain["conv2"])
    torch.testing.assert_close(moved[LOGITS], network.head(network.base(x) + 1).detach())
    assert not torch.equal(moved["fc1"], plain["fc1"])


def test_the_outputs_are_those_of_the_given_parameters_and_statistics() -> None:
    network, other = (build_model("ecg-resnet", (16,), 3, seed) for seed in (0, 1))
    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(0))
    other.base(x + 3)  # in training mode: moves the running statistics
    params, buffers = trees_of(other)
    other.base.eval()
    found = layer_outputs(network, params, buffers, x)
    assert torch.equal(found["pool"], other.base(x).detach())
    assert network.base.training, "the network itself is left alone"


def test_a_feature_map_travels_as_a_vector() -> None:
    first, second = nn.Conv1d(1, 2, 3), nn.Conv1d(2, 2, 3)
    network = assemble({"a": [Reshape(1, 8), first], "b": [second, nn.Flatten()], LOGITS: [nn.Linear(8, 5)]}, "a", (8,))
    assert network.features == 12
    assert [type(m).__name__ for m in network.base] == ["Reshape", "Conv1d", "Flatten"]
    assert [type(m).__name__ for m in network.head] == ["Unflatten", "Conv1d", "Flatten", "Linear"]
    x = torch.randn(3, 8)
    assert torch.equal(network.base(x), first(x.unsqueeze(1)).flatten(1))
    assert torch.equal(network.head(network.base(x)), network.head[-1](second(first(x.unsqueeze(1))).flatten(1)))


@pytest.mark.parametrize("sizes", [(), (4, 3), (4, 6, 2), (4, 5, 6, 3)])
def test_a_perceptron_is_linear_layers_with_relu_between_them(sizes: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    linear = [nn.Linear(a, b) for a, b in pairwise(sizes)]
    modules = [module for layer in linear for module in (layer, nn.ReLU())][:-1]
    x = torch.randn(7, 4)
    expected = nn.Sequential(*modules)(x)
    names = ("first", "second", "third")
    by_layer = Tree({name: parameters_of(layer) for name, layer in zip(names, linear, strict=False)})
    flat = parameters_of(nn.ModuleList(linear))
    assert torch.equal(perceptron(by_layer, x), expected) and torch.equal(perceptron(flat, x), expected)


def test_one_linear_layer_is_known_by_its_parameters() -> None:
    assert is_linear(parameters_of(nn.Linear(3, 2))) and is_linear(parameters_of(nn.Linear(3, 2, bias=False)))
    for other in (nn.LayerNorm(3), nn.Conv1d(1, 2, 3), nn.Sequential(nn.Linear(3, 2)), nn.ReLU()):
        assert not is_linear(parameters_of(other))
