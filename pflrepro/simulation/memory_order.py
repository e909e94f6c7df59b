"""The order in which parameters lie in memory; measured in benchmarks/memory_layout.py."""

from __future__ import annotations

import torch
from torch import Tensor

from pflrepro.trees import Tree


def fast_layout(local: Tree, stacks: bool = False) -> Tree:
    """The same numbers in the memory order that a CPU works fastest on; shapes and values are untouched.

    Convolution weights go channels-last (max-pooling behind them is then 6 times faster), matrices row by row, as the gradients of
    dense layers come. The layout survives `w - rate * g`, whose result follows w. With `stacks`, also of the models of all clients,
    a row each.
    """

    def arrange(leaf: Tensor) -> Tensor:
        dense, kernels = ((2, 3), (4, 5)) if stacks else ((2,), (4,))
        if leaf.device.type != "cpu" or leaf.ndim not in dense + kernels:
            return leaf
        return leaf.contiguous() if leaf.ndim in dense else _channels_last(leaf)

    return local.map(arrange)


def _channels_last(leaf: Tensor) -> Tensor:
    """Convolution weights [..., o, i, h, w] with the input channels innermost in memory."""
    moved = leaf.movedim(-3, -1)
    fresh = torch.empty(moved.shape, dtype=leaf.dtype, device=leaf.device)  # `contiguous` ignores axes of length 1
    fitting = fresh.movedim(-1, -3)
    return leaf if leaf.stride() == fitting.stride() else fitting.copy_(leaf)
