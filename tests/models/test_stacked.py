"""Every network with stacked parameters is each of the networks alone: values, gradients, running statistics."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.func import grad, vmap

from pflrepro.models import MODELS, build_model
from pflrepro.models.split import FunctionalModule, SplitModel, buffers_of, parameters_of
from pflrepro.trees import Tree, stack

KEY = torch.tensor([0.3, 0.6])  # of what a network draws itself
TOLERANCE = {"rtol": 1e-9, "atol": 1e-9}


def parts(network: SplitModel) -> tuple[Tree, Tree]:
    modules = {"base": network.base, "head": network.head}
    return tuple(Tree({n: f(m).to(torch.float64) for n, m in modules.items()}) for f in (parameters_of, buffers_of))


def loss_of(network: SplitModel, training: bool) -> Callable[[Tree, Tree, Tensor], tuple[Tensor, Tree]]:
    """(mean square of the logits and of z, {z, logits, buffers})."""
    base, head = FunctionalModule(network.base), FunctionalModule(network.head)

    def loss(params: Tree, buffers: Tree, x: Tensor) -> tuple[Tensor, Tree]:
        z, after_base = base(params.base, buffers.base, x, training, KEY)
        logits, after_head = head(params.head, buffers.head, z, training, KEY)
        out = Tree(z=z, logits=logits, buffers=Tree(base=after_base, head=after_head))
        return logits.square().mean() + z.square().mean(), out

    return loss


@pytest.mark.parametrize("name", [*MODELS, "cnn4@conv1", "resnet30@b2", "ecg-resnet@b1", "cct-7-3x1@block1"])
def test_stacked_is_each_alone(
    name: str, smallest: Callable[[str], tuple], samples: Callable[..., torch.Tensor]
) -> None:
    networks = [build_model(name, smallest(name), 3, seed) for seed in (0, 1)]
    params, buffers = zip(*map(parts, networks), strict=True)
    x = samples(name, 2, 2)
    for training in (True, False) if any(tree.has_leaves() for tree in buffers) else (True,):
        loss = loss_of(networks[0], training)
        grads, out = vmap(grad(loss, has_aux=True))(stack(list(params)), stack(list(buffers)), x)
        for k in range(2):
            inputs = params[k].map(lambda leaf: leaf.clone().requires_grad_())
            value, expected = loss(inputs, buffers[k], x[k])
            alone = inputs.refill(iter(torch.autograd.grad(value, list(inputs.leaves()))))
            for found, wanted in ((out[k], expected), (grads[k], alone)):
                torch.testing.assert_close(found.flat(), wanted.map(torch.detach).flat(), **TOLERANCE)
