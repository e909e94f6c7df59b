"""The compact convolutional transformer of FedBR's CIFAR-100."""

from __future__ import annotations

from torch import Tensor, empty, nn

from pflrepro.models.dropout import Dropout, DropPath
from pflrepro.models.inputs import image
from pflrepro.models.layers import LOGITS, Plan

WIDTH, HEADS, HIDDEN, BLOCKS = 256, 4, 512, 7
ATTENTION_DROPOUT, PATH_DROPOUT = 0.1, 0.1  # [BR-code]


class Tokens(nn.Module):
    """Feature map [B, D, H, W] -> [B, H W, D], plus a learned position [H W, D] (truncated normal, std 0.2)."""

    def __init__(self, number: int, width: int) -> None:
        super().__init__()
        self.position = nn.Parameter(nn.init.trunc_normal_(empty(number, width), std=0.2))

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(2).transpose(1, 2) + self.position


class Attention(nn.Module):
    """Self-attention of `heads` heads, scale (width / heads)^-1/2; queries, keys and values without bias; weights dropped with p.

    Written out, for the fused kernels have no rule for stacked weights. The softmax is a module of its own so that its output
    counts in the estimate of memory.
    """

    def __init__(self, width: int, heads: int, p: float = 0.0) -> None:
        super().__init__()
        self.heads, self.each = heads, width // heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.softmax, self.dropout = nn.Softmax(dim=-1), Dropout(p)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, self.each)).movedim(2, 0).transpose(2, 3).unbind(0)
        weights = self.dropout(self.softmax(q @ k.transpose(-2, -1) * self.each**-0.5))  # [B, heads, T, T]
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class Encoder(nn.Module):
    """s <- s + attention(norm1(s)); s <- norm2(s); s <- s + mlp(s): the second residual branches off behind norm2 [BR-code].

    Attributes:
        attention, path: probabilities to drop an attention weight, and to drop a branch of a sample.
    """

    def __init__(self, width: int, heads: int, hidden: int, attention: float = 0.0, path: float = 0.0) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads, attention)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))
        self.path1, self.path2 = DropPath(path), DropPath(path)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm2(x + self.path1(self.attention(self.norm1(x))))
        return x + self.path2(self.mlp(x))


class SequencePool(nn.Module):
    """The mean of the tokens weighted by a softmax over their scores: [B, T, D] -> [B, D]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return (self.score(x).softmax(1) * x).sum(1)


def cct(shape: tuple[int, ...], classes: int) -> Plan:
    """CCT-7/3x1 of Compact-Transformers [BR-code]: base 3,757,569 parameters for 3x32x32, K = 256.

    One 3x3 convolution to 256 channels without bias, ReLU, 3x3 max-pooling with stride 2: a token a position, 256 for 32x32
    (other sizes have as many as fit). 7 encoders with 4 heads and a hidden layer of 512, layer norm, sequence pooling, the head.
    Convolution Kaiming normal (fan in, as `kaiming_normal_` does by default [recalled]); linear layers truncated normal with
    std 0.02 and zero bias.

    In training attention weights are dropped with probability 0.1, and the branches of block k (from 0) with 0.1 k / 6 a sample.
    """
    channels, *sides = image(shape)
    height, width = ((side - 1) // 2 + 1 for side in sides)
    convolution = nn.Conv2d(channels, WIDTH, 3, padding=1, bias=False)
    nn.init.kaiming_normal_(convolution.weight)
    first = [convolution, nn.ReLU(), nn.MaxPool2d(3, 2, padding=1), Tokens(height * width, WIDTH)]
    paths = [PATH_DROPOUT / (BLOCKS - 1) * k for k in range(BLOCKS)]
    plan: Plan = {"tokens": first}
    plan |= {f"block{k + 1}": [Encoder(WIDTH, HEADS, HIDDEN, ATTENTION_DROPOUT, paths[k])] for k in range(BLOCKS)}
    plan |= {"pool": [nn.LayerNorm(WIDTH), SequencePool(WIDTH)], LOGITS: [nn.Linear(WIDTH, classes)]}
    for module in (m for row in plan.values() for top in row for m in top.modules()):
        if isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return plan
