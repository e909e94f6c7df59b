"""The order in which parameters lie in memory; measured in benchmarks/memory_layout.py."""

from __future__ import annotations

import torch
from torch import Tensor

from pflrepro.trees import Tree

PAGE = 1024  # float32 in 4 KiB


def fast_layout(local: Tree, stacks: bool = False) -> Tree:
    """The same numbers in the memory order that a CPU works fastest on; shapes and values are untouched.

    Convolution weights go channels-last (max-pooling behind them is then 6 times faster). Matrices stay row by row, but for those
    whose rows are whole pages and whose columns are not: these go column by column, since what lies whole pages apart has one place
    in the cache, and the gradient of such a weight takes 1.4 times as long. The layout survives `w - rate * g`, whose result
    follows w. With `stacks`, also of the models of all clients, a row each.
    """

    def arrange(leaf: Tensor) -> Tensor:
        if leaf.device.type == "cpu" and stacks and leaf.ndim in (3, 5):
            return _stacked_layout(leaf)
        if leaf.device.type != "cpu" or leaf.ndim not in (2, 4):
            return leaf
        if leaf.ndim == 2:
            return _matrix_layout(leaf)
        empty = torch.empty(leaf.shape, dtype=leaf.dtype, memory_format=torch.channels_last)
        return leaf if leaf.stride() == empty.stride() else empty.copy_(leaf)

    return local.map(arrange)


def by_columns(rows: int, columns: int) -> bool:
    """Whether a matrix of `rows` x `columns` is worked on faster where it lies column by column."""
    return columns % PAGE == 0 and rows % PAGE != 0


def _matrix_layout(leaf: Tensor) -> Tensor:
    if by_columns(*leaf.shape):
        return leaf if leaf.stride(0) == 1 else leaf.t().contiguous().t()
    return leaf.contiguous()


def _stacked_layout(leaf: Tensor) -> Tensor:
    """Matrices [n, a, b] and convolution weights [n, o, i, h, w] as `fast_layout` has one of them, one row after the other."""
    if leaf.ndim == 3 and not by_columns(*leaf.shape[1:]):
        return leaf.contiguous()
    order = (0, 2, 1) if leaf.ndim == 3 else (0, 1, 3, 4, 2)
    back = (0, 2, 1) if leaf.ndim == 3 else (0, 1, 4, 2, 3)
    moved = leaf.permute(order)
    fresh = torch.empty(moved.shape, dtype=leaf.dtype, device=leaf.device)  # `contiguous` ignores axes of length 1
    return fresh.copy_(moved).permute(back)
