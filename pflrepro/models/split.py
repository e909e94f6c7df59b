"""A network as pure functions: `base` (the feature extractor) and `head` (the classifier), parameters outside.

The modules are kept without data; a call puts the given tensors in their places and runs `forward`. That is
`torch.func.functional_call` with less bookkeeping, and safe from several threads because each thread has its own skeleton.
"""

from __future__ import annotations

import copy
import threading
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pflrepro.models.dropout import Keyed, site_of
from pflrepro.products import Linear
from pflrepro.trees import Tree


@dataclass(frozen=True)
class SplitModel:
    """A freshly initialised network: `base` maps x to z in R^K, `head` maps z to C logits."""

    base: nn.Module
    head: nn.Module
    features: int


class FunctionalModule:
    """`module(x)` as a function of (parameters, buffers, x), in training or in evaluation mode; `skeleton` is it without data.

    `draws`: whether it draws random numbers in training, from the `key` [2] in [0, 1) of the call (see `models.dropout`).
    """

    def __init__(self, module: nn.Module) -> None:
        self.has_buffers = any(True for _ in buffers_of(module).leaves())
        self.size = sum(parameter.numel() for parameter in module.parameters())
        self.draws = any(isinstance(child, Keyed) for child in module.modules())
        self.skeleton = copy.deepcopy(module).to("meta").requires_grad_(False)
        self._local = threading.local()

    def __call__(
        self, parameters: Tree, buffers: Tree, x: Tensor, training: bool, key: Tensor | None = None
    ) -> tuple[Tensor, Tree]:
        """The output and the buffers after the call; in evaluation mode these are the buffers that came in."""
        if not hasattr(self._local, "modes"):
            self._local.modes = {mode: _Slots(copy.deepcopy(self.skeleton).train(mode)) for mode in (True, False)}
        return self._local.modes[training](parameters, buffers, x, training, key)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_local"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _local=threading.local())


class _Slots:
    """One thread's skeleton in one mode, with the places of its parameters, its buffers and its random numbers."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.parameters, self.buffers, self.keyed = [], [], []
        for prefix, child in module.named_modules():
            path = f"{prefix}." if prefix else ""
            self.parameters += [
                (child._parameters, name, path + name) for name, p in child._parameters.items() if p is not None
            ]
            if isinstance(child, nn.modules.batchnorm._NormBase):
                child.num_batches_tracked = None  # an integer counter that only a missing momentum would read
            self.buffers += [(child._buffers, name, path + name) for name, b in child._buffers.items() if b is not None]
            if type(child) is nn.Linear:
                child.__class__ = Linear
            if isinstance(child, Keyed):
                child.site = site_of(prefix)
                self.keyed.append(child)

    def __call__(
        self, parameters: Tree, buffers: Tree, x: Tensor, training: bool, key: Tensor | None
    ) -> tuple[Tensor, Tree]:
        for place, name, path in self.parameters:
            place[name] = parameters[path]
        for place, name, path in self.buffers:  # a native norm layer updates in place: give it a copy
            place[name] = buffers[path].clone() if training else buffers[path]
        for child in self.keyed:
            child.key = key
        output = self.module(x)
        kept = Tree({path: place[name] for place, name, path in self.buffers}) if training else buffers
        for place, name, _ in self.parameters + self.buffers:
            place[name] = None  # hold no tensor of a finished call
        for child in self.keyed:
            child.key = None
        return output, kept


def parameters_of(module: nn.Module) -> Tree:
    """A copy of a module's parameters, keyed by their dotted names."""
    return Tree({name: value.detach().clone() for name, value in module.named_parameters()})


def buffers_of(module: nn.Module) -> Tree:
    """A copy of a module's floating-point buffers (a norm layer's running mean and variance), keyed by their dotted names."""
    return Tree(
        {name: value.detach().clone() for name, value in module.named_buffers() if torch.is_floating_point(value)}
    )
