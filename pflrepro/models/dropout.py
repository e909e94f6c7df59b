"""Dropout whose masks follow from a key: the same for one client at a time and for all at once, on any device.

PyTorch's own masks come from one generator a process, so that they would depend on which clients train together. Here every number
of a mask is a hash of the key that the client drew for this batch, of the layer's place in the network, and of its own position.
"""

from __future__ import annotations

import zlib

import torch
from torch import Tensor, nn

BITS = 24  # of a random number; what a drawn key in [0, 1) holds in single precision, too


class Keyed(nn.Module):
    """A module that draws random numbers in training: [B, ...], row b from the key and b alone, not from the size of the batch.

    `key` [2] in [0, 1) is put in by `FunctionalModule` for a call, and so is `site`, the module's place in the network. Without a
    key (the network used by itself) PyTorch's generator draws.
    """

    key: Tensor | None = None
    site: int = 0

    def uniform(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Random numbers in [0, 1) of `shape`, in the number type of `like`, on its device."""
        if self.key is None:
            return torch.rand(shape, dtype=like.dtype, device=like.device)
        return hashed(self.key, self.site, shape).to(like.dtype) / 2**BITS


class Dropout(Keyed):
    """Each number is 0 with probability p, the others are divided by 1 - p; in evaluation mode nothing happens."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.p:
            return x
        return self.dropped(x, tuple(x.shape))

    def dropped(self, x: Tensor, shape: tuple[int, ...]) -> Tensor:
        """`x` times a mask of `shape`."""
        return x * ((self.uniform(shape, x) >= self.p).to(x.dtype) / (1 - self.p))

    def extra_repr(self) -> str:
        return f"p={self.p}"


class DropPath(Dropout):
    """Stochastic depth: the whole of a sample's row is dropped, or none of it (Huang et al., ECCV 2016)."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.p:
            return x
        return self.dropped(x, (x.shape[0], *[1] * (x.ndim - 1)))


def site_of(path: str) -> int:
    """A number in [0, 2^31) for a module's dotted path."""
    return zlib.crc32(path.encode()) & 0x7FFFFFFF


def hashed(key: Tensor, site: int, shape: tuple[int, ...]) -> Tensor:
    """Integers in [0, 2^24), int32 of `shape`, from a key [2] in [0, 1).

    The position's number goes through multiplications and shifts that spread every bit over all others (the finaliser of MurmurHash3,
    32 bits, wrapping), with one half of the key before and the other between the two rounds. Fewer than 2^31 numbers.
    """
    first, second = (key.double() * 2**BITS).to(torch.int32).unbind()
    count = 1
    for length in shape:
        count *= length
    bits = torch.arange(count, dtype=torch.int32, device=key.device).view(shape)
    bits = _spread(bits ^ _spread(first ^ site))
    bits = _spread(bits + _spread(second))
    return (bits >> (32 - BITS)) & (2**BITS - 1)


def _spread(bits: Tensor) -> Tensor:
    """The finaliser of MurmurHash3 on int32; a signed shift is made an unsigned one by masking what it shifts in."""
    bits = bits ^ ((bits >> 16) & 0xFFFF)
    bits = bits * -2048144789  # 0x85ebca6b
    bits = bits ^ ((bits >> 13) & 0x7FFFF)
    bits = bits * -1028477387  # 0xc2b2ae35
    return bits ^ ((bits >> 16) & 0xFFFF)
