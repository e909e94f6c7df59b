"""`Context.each` of the loop: every upload is asked by itself, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.func import vmap

from pflrepro.trees import Tree

# FedGen's server step on one core, one after another against at once: 1.6 times the time for heads of 5 thousand numbers (CNN4), the
# same for 51 thousand (100 classes), two thirds for 530 thousand (CNN4 cut behind conv2), half for 2.2 million (HAR).
LARGE_ROW = 1 << 17

Asked = Callable[[Tree, Tensor], Tensor]


@dataclass(frozen=True)
class RowByRow:
    """One large row after another, in as many threads as there are worker processes, which wait meanwhile; small rows at once.

    Each row is worked through by one thread and the rows' gradients are added in order: the numbers do not depend on `threads`.
    """

    threads: int = 1

    def __call__(self, function: Asked, rows: Tree, shared: Tensor) -> Tensor:
        count = len(next(rows.leaves()))
        if rows.size() < LARGE_ROW * count:
            return vmap(function, in_dims=(0, None))(rows, shared)
        threads = min(self.threads, count) if shared.device.type == "cpu" else 1
        return _EachRow.apply(shared, function, [rows[i] for i in range(count)], threads)


class _EachRow(torch.autograd.Function):
    """Answers of all rows to `shared`, stacked; with its derivative by `shared`, a row a thread at a time."""

    @staticmethod
    def forward(ctx: Any, shared: Tensor, function: Asked, rows: Sequence[Tree], threads: int) -> Tensor:
        ctx.threads, ctx.answers = threads, _in_threads(threads, partial(_answer, function, shared), rows)
        return torch.stack([answer.detach() for _, answer in ctx.answers])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        found = _in_threads(ctx.threads, _derivative, zip(ctx.answers, gradient, strict=True))
        return torch.stack(found).sum(0), None, None, None


def _answer(function: Asked, shared: Tensor, row: Tree) -> tuple[Tensor, Tensor]:
    """The row's own copy of `shared`, and its answer, which knows where it comes from."""
    with torch.enable_grad():
        own = shared.detach().requires_grad_()
        return own, function(row, own)


def _derivative(given: tuple[tuple[Tensor, Tensor], Tensor]) -> Tensor:
    (own, answer), gradient = given
    return torch.autograd.grad(answer, own, gradient)[0]


def _in_threads(threads: int, function: Callable[[Any], Any], given: Any) -> list[Any]:
    if threads == 1:
        return list(map(function, given))
    return list(_pool(threads).map(function, given))


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads that stay: a new one has to be given its room for oneDNN's products again."""
    return ThreadPoolExecutor(threads, "asking", torch.set_num_threads, (1,))
