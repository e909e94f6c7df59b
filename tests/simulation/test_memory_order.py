"""Memory orders: the numbers stay, a matrix lies as its shape asks for, and the order outlives a step."""

from __future__ import annotations

import pytest
import torch

from pflrepro.simulation.memory_order import fast_layout
from pflrepro.trees import Tree

ROWS, COLUMNS = (True, False), (False, True)  # whether it lies in one piece: itself, and turned


@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((512, 1024), COLUMNS),  # rows of whole pages: a column's numbers would lie pages apart
        ((10, 2048), COLUMNS),
        ((1024, 1664), ROWS),
        ((512, 1600), ROWS),
        ((1024, 1024), ROWS),  # whole pages either way
        ((10, 512), ROWS),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_a_matrix_lies_as_its_shape_asks_for(shape, order, turned, rate) -> None:
    plain = torch.rand(shape[::-1]).t() if turned else torch.rand(shape)
    laid = fast_layout(Tree(w=plain)).w
    moved = laid - rate * laid
    for leaf in (laid, moved):
        assert (leaf.is_contiguous(), leaf.t().is_contiguous()) == order
    assert torch.equal(laid, plain)


@pytest.mark.parametrize("shape", [(3, 512, 1024), (3, 8, 16), (3, 4, 2, 5, 5), (3, 4, 1, 5, 5)])
def test_in_a_stack_each_client_has_the_order_of_a_model_alone(shape) -> None:
    plain = torch.rand(shape)
    laid = fast_layout(Tree(w=plain), stacks=True).w
    assert torch.equal(laid, plain)
    for stacked, alone in zip(laid, plain, strict=True):
        assert stacked.stride() == fast_layout(Tree(w=alone)).w.stride()


def test_what_lies_well_already_is_not_copied() -> None:
    tree = Tree(dense=torch.rand(512, 1024), head=torch.rand(10, 512), conv=torch.rand(8, 4, 5, 5), bias=torch.rand(8))
    once = fast_layout(tree)
    again = fast_layout(once)
    assert [leaf.data_ptr() for leaf in again.leaves()] == [leaf.data_ptr() for leaf in once.leaves()]
    assert once.head is tree.head and once.bias is tree.bias
