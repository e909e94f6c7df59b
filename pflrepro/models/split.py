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

from pflrepro.trees import Tree


@dataclass(frozen=True)
class SplitModel:
    """A freshly initialised network: `base` maps x to z in R^K, `head` maps z to C logits."""

    base: nn.Module
    head: nn.Module
    features: int


class FunctionalModule:
    """`module(x)` as a function of (parameters, buffers, x), in training or in evaluation mode; `skeleton` is it without data."""

    def __init__(self, module: nn.Module) -> None:
        self.has_buffers = any(True for _ in buffers_of(module).leaves())
        self.size = sum(parameter.numel() for parameter in module.parameters())
        self.skeleton = copy.deepcopy(module).to("meta").requires_grad_(False)
        self._local = threading.local()

    def __call__(self, parameters: Tree, buffers: Tree, x: Tensor, training: bool) -> tuple[Tensor, Tree]:
        """The output and the buffers after the call; in evaluation mode these are the buffers that came in."""
        if not hasattr(self._local, "modes"):
            self._local.modes = {mode: _Slots(copy.deepcopy(self.skeleton).train(mode)) for mode in (True, False)}
        return self._local.modes[training](parameters, buffers, x, training)

    def __getstate__(self) -> dict[str, object]:
        return {"has_buffers": self.has_buffers, "size": self.size, "skeleton": self.skeleton}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state, _local=threading.local())


class _Slots:
    """One thread's skeleton in one mode, with the places of its parameters and buffers."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.parameters, self.buffers = [], []
        for prefix, child in module.named_modules():
            path = f"{prefix}." if prefix else ""
            self.parameters += [
                (child._parameters, name, path + name) for name, p in child._parameters.items() if p is not None
            ]
            if isinstance(child, nn.modules.batchnorm._NormBase):
                child.num_batches_tracked = None  # an integer counter that only a missing momentum would read
            self.buffers += [(child._buffers, name, path + name) for name, b in child._buffers.items() if b is not None]

    def __call__(self, parameters: Tree, buffers: Tree, x: Tensor, training: bool) -> tuple[Tensor, Tree]:
        for place, name, path in self.parameters:
            place[name] = parameters[path]
        for place, name, path in self.buffers:  # a native norm layer updates in place: give it a copy
            place[name] = buffers[path].clone() if training else buffers[path]
        output = self.module(x)
        kept = Tree({path: place[name] for place, name, path in self.buffers}) if training else buffers
        for place, name, _ in self.parameters + self.buffers:
            place[name] = None  # hold no tensor of a finished call
        return output, kept


def parameters_of(module: nn.Module) -> Tree:
    """A copy of a module's parameters, keyed by their dotted names."""
    return Tree({name: value.detach().clone() for name, value in module.named_parameters()})


def buffers_of(module: nn.Module) -> Tree:
    """A copy of a module's floating-point buffers (a norm layer's running mean and variance), keyed by their dotted names."""
    return Tree(
        {name: value.detach().clone() for name, value in module.named_buffers() if torch.is_floating_point(value)}
    )
