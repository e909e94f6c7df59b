"""Memory orders: the numbers stay, a matrix lies row by row, and the order outlives a step."""

from __future__ import annotations

import pytest
import torch

from pflrepro.simulation.memory_order import fast_layout
from pflrepro.trees import Tree


@pytest.mark.parametrize("shape", [(512, 1024), (10, 512), (8, 4, 5, 5), (8, 1, 5, 5)])
@pytest.mark.parametrize("turned", [False, True])
def test_its_order_is_that_of_gradients_and_outlives_a_step(shape, turned) -> None:
    plain = torch.rand(shape).transpose(0, 1).contiguous().transpose(0, 1) if turned else torch.rand(shape)
    laid = fast_layout(Tree(w=plain)).w
    assert torch.equal(laid, plain)
    order = torch.channels_last if len(shape) == 4 else torch.contiguous_format
    expected = torch.empty(shape, memory_format=order).stride()
    moved = torch.addcmul(laid, torch.rand(shape), torch.tensor(0.1), value=-1)  # as a step of training
    assert laid.stride() == moved.stride() == expected


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
