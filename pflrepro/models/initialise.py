"""Initial weights from a keyed stream, without touching the global generator."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

from pflrepro.models.layers import Plan
from pflrepro.randomness import generator

T = TypeVar("T")
_lock = threading.Lock()


def seeded(seed: int, purpose: str, build: Callable[[], T]) -> T:
    """`build()` with PyTorch's default initialisation drawn from the stream (seed, purpose); the global stream is put back."""
    with _lock, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(generator(seed, purpose).integers(2**63)))
        return build()


def draw_as_he(plan: Plan) -> None:
    """New weights for all convolutions and linear layers of `plan`: N(0, 2 / inputs of a unit), biases 0 (He et al., ICCV 2015).

    pFedFDA names "He" without the mode or the distribution [FDA section 4]: fan-in and normal are [inferred]. Norm layers and
    embeddings stay. Draws from the global generator.
    """
    for module in nn.ModuleList(module for layers in plan.values() for module in layers).modules():
        if isinstance(module, (nn.Linear, nn.Conv1d, nn.Conv2d)):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
