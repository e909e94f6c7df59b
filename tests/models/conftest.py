"""Shared by the networks' tests: the smallest samples that each model takes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from pflrepro.models import find
from pflrepro.models.inputs import arriving


def _smallest(name: str) -> tuple[int, ...]:
    entry, _ = find(name)
    least = entry.takes.least
    return {"image": (3, least, least), "signal": (2, 1, least), "tokens": (4,), "any": (6,)}[entry.takes.kind]


@pytest.fixture
def smallest() -> Callable[[str], tuple[int, ...]]:
    """`smallest(name)`: the stored shape of the smallest samples of a model."""
    return _smallest


@pytest.fixture
def samples() -> Callable[..., torch.Tensor]:
    """`samples(name, *rows, seed=0)`: float64 [*rows, ...] of the smallest shape; token ids are whole numbers, 0 is padding."""

    def draw(name: str, *rows: int, seed: int = 0) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        size = (*rows, *arriving(_smallest(name)))
        if find(name)[0].takes.kind == "tokens":
            return torch.randint(0, 9, size, generator=generator).double()
        return torch.randn(size, generator=generator, dtype=torch.float64)

    return draw
