"""Trees of tensors compared."""

from __future__ import annotations

import torch

from pflrepro.trees import Tree


def assert_close(a: Tree, b: Tree, tolerance: float = 0.0) -> None:
    """Every leaf differs by at most `tolerance`."""
    for mine, theirs in zip(a.leaves(), b.leaves(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=tolerance)
