"""Initial weights from a keyed stream, without touching the global generator."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import torch

from pflrepro.randomness import generator

T = TypeVar("T")
_lock = threading.Lock()


def seeded(seed: int, purpose: str, build: Callable[[], T]) -> T:
    """`build()` with PyTorch's default initialisation drawn from the stream (seed, purpose); the global stream is put back."""
    with _lock, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(generator(seed, purpose).integers(2**63)))
        return build()
