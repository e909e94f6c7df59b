"""Convolutions on a GPU in which every client has weights of its own, as batched products of matrices."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn
from torch._C._functorch import get_unwrapped, is_batchedtensor, is_functorch_wrapped_tensor


class Conv2d(nn.Conv2d):
    """`nn.Conv2d`, on a GPU by `unfolded` where `vmap` maps over its weights.

    PyTorch makes one grouped convolution of all clients' convolutions, for which cuDNN has no fast way where each group is small
    (`benchmarks/convolution.py`).
    """

    def forward(self, x: Tensor) -> Tensor:
        if x.is_cuda and unfolds(self) and _mapped(self.weight):
            return unfolded(self, x)
        return super().forward(x)


def unfolds(module: nn.Module) -> bool:
    """Whether `unfolded` computes this module: a convolution of all channels with zeros around."""
    plain = isinstance(module, nn.Conv2d) and module.groups == 1 and module.padding_mode == "zeros"
    return plain and not isinstance(module.padding, str)


def unfolded(module: nn.Conv2d, x: Tensor) -> Tensor:
    """The convolution of x [B, C, H, W] as one product: weights [O, C kh kw] with the patches [C kh kw, B H' W'].

    Example:
        >>> layer, x = nn.Conv2d(2, 3, 5, stride=2, padding=1), torch.randn(4, 2, 9, 11)
        >>> torch.allclose(unfolded(layer, x), layer(x), atol=1e-6)
        True
    """
    patches = F.unfold(x, module.kernel_size, module.dilation, module.padding, module.stride)
    batch, inputs, places = patches.shape
    across = _places(x.shape[-1], module, 1)
    out = module.weight.flatten(1) @ patches.transpose(0, 1).reshape(inputs, batch * places)
    out = out.view(-1, batch, places // across, across).transpose(0, 1)
    return out if module.bias is None else out + module.bias[:, None, None]


def _places(size: int, module: nn.Conv2d, axis: int) -> int:
    """Where the kernel fits along an axis of this size."""
    covered = module.dilation[axis] * (module.kernel_size[axis] - 1) + 1
    return (size + 2 * module.padding[axis] - covered) // module.stride[axis] + 1


def _mapped(tensor: Tensor) -> bool:
    """Whether a `vmap` around this call maps over the tensor, whatever other transforms are between."""
    while is_functorch_wrapped_tensor(tensor):
        if is_batchedtensor(tensor):
            return True
        tensor = get_unwrapped(tensor)
    return False
