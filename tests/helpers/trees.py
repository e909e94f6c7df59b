"""Trees of tensors compared."""

from __future__ import annotations

import torch

from pflrepro.trees import Tree


def assert_close(a: Tree, b: Tree, tolerance: float = 1e-12) -> None:
    """Every leaf differs by at most `tolerance`."""
    for mine, theirs in zip(a.leaves(), b.leaves(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=tolerance)


def assert_same(a: Tree, b: Tree) -> None:
    """Every leaf is equal."""
    assert_close(a, b, 0.0)
