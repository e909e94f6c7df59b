"""A server's questions to all uploads: one after another or at once, in threads, with the same numbers."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from pflrepro.products import linear
from pflrepro.simulation.asking import LARGE_ROW
from pflrepro.simulation.batched import Batched
from pflrepro.simulation.loop import Loop, differentiate
from pflrepro.trees import Tree


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(("size", "calls"), [(LARGE_ROW - 1, 1), (LARGE_ROW, 3)])
def test_a_server_asks_large_uploads_one_after_another_and_small_ones_at_once(
    size: int, calls: int, workers: int
) -> None:
    rows = Tree(weight=torch.arange(3.0)[:, None].expand(3, size))
    asked = []

    def answer(row: Tree, z: torch.Tensor) -> torch.Tensor:
        asked.append(row.weight.shape)
        return z * row.weight[:2]

    def objective(trained: Tree) -> tuple[torch.Tensor, Tree]:
        return Loop(workers).each(answer, rows, trained.z).sum(), Tree()

    grads, _ = differentiate(objective, Tree(z=torch.ones(2)))
    assert asked == [torch.Size([size])] * calls
    assert grads.z.tolist() == [3.0, 3.0]  # 0 + 1 + 2
    given = rows, torch.ones(2)
    assert torch.equal(Loop(workers).each(answer, *given), Batched.each(answer, *given))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_threads_of_a_server_change_no_bit(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    rows, z = Tree(weight=torch.randn(5, 512, 512, dtype=dtype)), torch.randn(10, 512, dtype=dtype)

    def answer(row: Tree, z: torch.Tensor) -> torch.Tensor:
        return linear(z, row.weight).relu()

    def gradient(ask) -> torch.Tensor:
        """Of a loss that the rows count in differently."""
        weights = torch.arange(1.0, 6.0, dtype=dtype)
        grads, _ = differentiate(lambda p: (torch.tensordot(weights, ask(p.z), 1).square().sum(), Tree()), Tree(z=z))
        return grads.z

    one, three = (gradient(partial(Loop(workers).each, answer, rows)) for workers in (1, 3))
    assert torch.equal(one, three)
    if dtype == torch.float64:
        plain = gradient(lambda z: torch.stack([answer(rows[i], z) for i in range(5)]))
        torch.testing.assert_close(one, plain)


def test_an_error_in_a_servers_thread_is_the_callers() -> None:
    rows = Tree(weight=torch.zeros(2, LARGE_ROW))
    with pytest.raises(RuntimeError, match="must match"):
        Loop(2).each(lambda row, z: row.weight + z, rows, torch.ones(3))
