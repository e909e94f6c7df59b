"""Products of matrices on a CPU, by the faster of the two libraries that PyTorch holds."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor

SMALL = 1 << 20  # with fewer multiplications the calls of an own derivative take longer than the product


@cache
def _one_dnn() -> bool:
    """Whether PyTorch was built with oneDNN and offers its product by itself, as `torch.compile` calls it."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def product(a: Tensor, b: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
    """a [M, K] @ b [K, N], plus `bias` [N], and ReLU of that; without a gradient.

    In float32 on a CPU by oneDNN. PyTorch's own choice there is MKL, which leaves the widest vectors of processors of other makers
    unused: on one core of an AMD EPYC 106 against 245 billion operations a second (256 x 512 x 512). Everything else, and where
    oneDNN is missing, by PyTorch's own. The two differ by rounding; on one machine it is always the same one.

    Example:
        >>> product(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, -3.0], [4.0, 0.0]]), torch.tensor([1.0, 0.0]), relu=True)
        tensor([[12.,  0.]])
    """
    if a.dtype == torch.float32 and a.device.type == "cpu" and a.numel() and b.numel() and _one_dnn():
        return torch.ops.mkldnn._linear_pointwise(a, b.t(), bias, "relu" if relu else "none", [], "")
    out = a @ b if bias is None else torch.addmm(bias, a, b)
    return out.relu_() if relu else out


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [..., K] weight^T [K, U] + bias, as `F.linear`, with all its derivatives; by the library that `product` takes.

    Within a transform of `torch.func`, which oneDNN's product is unknown to, it is `F.linear`.
    """
    given = (x, weight) if bias is None else (x, weight, bias)
    if x.numel() * weight.shape[0] < SMALL or not all(map(_plain, given)) or not _one_dnn():
        return F.linear(x, weight, bias)
    if torch.is_grad_enabled() and any(each.requires_grad for each in given):
        return _Linear.apply(x, weight, bias)
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def _plain(tensor: Tensor) -> bool:
    return tensor.dtype == torch.float32 and tensor.device.type == "cpu" and not is_functorch_wrapped_tensor(tensor)


class _Linear(torch.autograd.Function):
    """oneDNN's product and its derivatives, which are such products again."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        rows = gradient.reshape(-1, gradient.shape[-1])
        return (
            linear(gradient, weight.t()) if of_x else None,
            linear(rows.t(), x.reshape(-1, x.shape[-1]).t()) if of_weight else None,
            rows.sum(0) if of_bias else None,
        )


class Linear(nn.Linear):
    """`nn.Linear` by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)
