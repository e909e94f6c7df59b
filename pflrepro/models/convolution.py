"""Convolutions on a GPU in which every client has weights of its own: batched products of matrices."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._C._functorch import get_unwrapped, is_batchedtensor, is_functorch_wrapped_tensor

LARGEST = (
    1 << 21
)  # numbers in the patches of one client's batch: with more, its own convolution fills a GPU well enough


class Conv2d(nn.Conv2d):
    """`nn.Conv2d`; on a GPU a `product` with the patches where `vmap` maps over its weights and a client's batch is small.

    `vmap` makes one grouped convolution of the clients' convolutions, and cuDNN works through small groups one after another.
    """

    def forward(self, x: Tensor) -> Tensor:
        if x.is_cuda and _is_plain(self) and x.dim() == 4 and _patches(self, x) <= LARGEST and _mapped(self.weight):
            return product(self, x)
        return super().forward(x)


def product(module: nn.Conv2d, x: Tensor) -> Tensor:
    """A plain convolution of x [B, C, H, W] as one product: weights [O, C kh kw] with patches [C kh kw, B H' W'].

    Example:
        >>> layer, x = nn.Conv2d(2, 3, (3, 5)), torch.randn(4, 2, 9, 11)
        >>> torch.allclose(product(layer, x), layer(x), atol=1e-6)
        True
    """
    patches = _Patches.apply(x, module.kernel_size)
    high, wide = (x.shape[-2 + axis] - module.kernel_size[axis] + 1 for axis in (0, 1))
    out = (module.weight.flatten(1) @ patches).view(-1, len(x), high, wide).transpose(0, 1)
    return out if module.bias is None else out + module.bias[:, None, None]


class _Patches(torch.autograd.Function):
    """x [B, C, H, W] -> [C kh kw, B H' W'], by one copy of all clients' windows; the derivative sums each place's windows.

    `F.unfold` gives the same by a call a sample, and the derivative of `Tensor.unfold` has no rule for `vmap`.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, kernel: tuple[int, int]) -> Tensor:
        windows = x.unfold(2, kernel[0], 1).unfold(3, kernel[1], 1)  # [B, C, H', W', kh, kw]
        return windows.permute(1, 4, 5, 0, 2, 3).flatten(0, 2).flatten(1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, tuple[int, int]], output: Tensor) -> None:
        ctx.shape, ctx.kernel = inputs[0].shape, inputs[1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        batch, _, high, wide = ctx.shape
        columns = gradient.view(len(gradient), batch, -1).transpose(0, 1)
        return F.fold(columns, (high, wide), ctx.kernel), None


def _is_plain(module: nn.Conv2d) -> bool:
    """Whether each output is one product of all channels of a window, and there is a window at every place."""
    unusual = (module.stride, module.dilation) != ((1, 1), (1, 1)) or module.padding not in ((0, 0), 0, "valid")
    return module.groups == 1 and not unusual


def _patches(module: nn.Conv2d, x: Tensor) -> int:
    """How many numbers all windows of one client's x have."""
    places = (x.shape[-2] - module.kernel_size[0] + 1) * (x.shape[-1] - module.kernel_size[1] + 1)
    return len(x) * places * module.weight[0].numel()


def _mapped(tensor: Tensor) -> bool:
    """Whether a `vmap` around this call maps over the tensor, whatever other transforms are between."""
    while is_functorch_wrapped_tensor(tensor):
        if is_batchedtensor(tensor):
            return True
        tensor = get_unwrapped(tensor)
    return False
