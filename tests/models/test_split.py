"""Networks as pure functions: the same numbers as the modules, nothing remembered, safe from several threads."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.func import grad, vmap

from pflrepro.models import build_model
from pflrepro.models.split import FunctionalModule, buffers_of, parameters_of
from pflrepro.trees import Tree, stack


@pytest.fixture
def base() -> nn.Module:
    return build_model("cnn-digits-bn", (8, 8), 4, 0).base


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("training", [True, False])
def test_a_call_is_the_modules_call(base: nn.Module, x: torch.Tensor, training: bool) -> None:
    function, parameters, buffers = FunctionalModule(base), parameters_of(base), buffers_of(base)
    output, after = function(parameters, buffers, x, training)
    module = copy.deepcopy(base).train(training)
    assert torch.equal(output, module(x))
    for name, value in buffers_of(module).items():
        assert torch.equal(after[name], value), name


def test_a_call_leaves_its_arguments_alone_and_remembers_nothing(base: nn.Module, x: torch.Tensor) -> None:
    function, parameters, buffers = FunctionalModule(base), parameters_of(base), buffers_of(base)
    kept = copy.deepcopy(dict(buffers))
    first, after = function(parameters, buffers, x, True)
    assert all(torch.equal(buffers[name], value) for name, value in kept.items())
    assert any(not torch.equal(after[name], value) for name, value in kept.items())
    function(parameters * 2, after, x, True)
    again, _ = function(parameters, buffers, x, True)
    assert torch.equal(first, again)


def test_only_floating_point_buffers_are_kept(base: nn.Module) -> None:
    assert {name.rpartition(".")[2] for name in buffers_of(base)} == {"running_mean", "running_var"}
    assert FunctionalModule(base).has_buffers and not FunctionalModule(nn.Linear(2, 2)).has_buffers


def test_parameters_are_copies(base: nn.Module) -> None:
    parameters = parameters_of(base)
    next(parameters.leaves()).add_(1)
    assert all(
        not torch.equal(a, parameters[n])
        for n, a in base.named_parameters()
        if parameters[n] is next(parameters.leaves())
    )
    assert not any(leaf.requires_grad for leaf in parameters.leaves())


def test_stacked_models_with_their_own_statistics_are_each_model_alone(x: torch.Tensor) -> None:
    bases = [build_model("cnn-digits-bn", (8, 8), 4, seed).base for seed in (0, 1)]
    function = FunctionalModule(bases[0])
    parameters, buffers = stack([parameters_of(b) for b in bases]), stack([buffers_of(b) for b in bases])
    outputs, after = vmap(lambda p, b, x: function(p, b, x, True))(parameters, buffers, torch.stack([x, 2 * x]))
    for i, (module, data) in enumerate(zip(bases, (x, 2 * x), strict=True)):
        module.train()
        torch.testing.assert_close(outputs[i], module(data), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(dict(after[i]), dict(buffers_of(module)), rtol=1e-4, atol=1e-5)


def test_gradients_are_the_modules_gradients() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    function, data = FunctionalModule(module), torch.randn(5, 3, dtype=torch.float64)
    gradients = grad(lambda p: function(p, Tree(), data, True)[0].square().sum())(parameters_of(module))
    module(data).square().sum().backward()
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad)


def test_threads_do_not_mix_their_parameters(base: nn.Module, x: torch.Tensor) -> None:
    function, buffers, parameters = FunctionalModule(base), buffers_of(base), parameters_of(base)
    scales = [1.0 + 0.1 * i for i in range(16)]
    expected = [function(parameters * scale, buffers, x, False)[0] for scale in scales]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda scale: function(parameters * scale, buffers, x, False)[0], scales * 3))
    assert all(torch.equal(a, b) for a, b in zip(found, expected * 3, strict=True))


def test_a_function_can_be_copied_and_sent_to_another_process(base: nn.Module, x: torch.Tensor) -> None:
    function, parameters, buffers = FunctionalModule(base), parameters_of(base), buffers_of(base)
    expected, _ = function(parameters, buffers, x, True)
    for other in (copy.deepcopy(function), pickle.loads(pickle.dumps(function))):
        assert other.has_buffers and torch.equal(other(parameters, buffers, x, True)[0], expected)
