"""Residual networks: ResNet-18 and its group-norm variants, those for CIFAR, and the one-dimensional one for ECG.

All convolutions are without bias and Kaiming normal (fan out), norms start at scale 1 and shift 0, linear layers have PyTorch's
initialisation, as torchvision's.
"""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn, ones, zeros

from pflrepro.models.inputs import image, signal
from pflrepro.models.layers import LOGITS, GlobalAverage, Plan, Reshape, dense

Norm = Callable[[int], nn.Module]  # number of channels -> norm layer


class SharedAffineGroupNorm(nn.Module):
    """Group norm with one scale and one shift a group instead of a channel, eps 1e-5 [FDA-code]."""

    def __init__(self, groups: int, channels: int) -> None:
        super().__init__()
        self.each = channels // groups
        self.weight, self.bias = nn.Parameter(ones(groups)), nn.Parameter(zeros(groups))

    def forward(self, x: Tensor) -> Tensor:
        scale, shift = (v.unsqueeze(1).expand(-1, self.each).reshape(-1) for v in (self.weight, self.bias))
        return F.group_norm(x, len(self.weight), scale, shift, 1e-5)


def norm_layer(kind: str, dims: int = 2) -> Norm:
    """A norm layer's constructor by name.

    Args:
        kind: `batch`; `groups:G`, a group norm of G groups; `each:C`, of C channels a group; `shared:C`, the same with
            `SharedAffineGroupNorm`.
        dims: 1 for signals, 2 for images.
    """
    if kind == "batch":
        return (nn.BatchNorm1d, nn.BatchNorm2d)[dims - 1]
    word, _, number = kind.partition(":")
    if word == "groups":
        return lambda channels: nn.GroupNorm(int(number), channels)
    layer = {"each": nn.GroupNorm, "shared": SharedAffineGroupNorm}[word]
    return lambda channels: layer(channels // int(number), channels)


class PaddedShortcut(nn.Module):
    """The identity at every `stride`-th position with zeros for the additional channels: no parameters."""

    def __init__(self, stride: int, extra: int) -> None:
        super().__init__()
        self.stride, self.extra = stride, extra

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.extra))


class BasicBlock(nn.Module):
    """relu(norm(conv(relu(norm(conv(x))))) + shortcut(x)); nothing is written in place.

    The shortcut is the identity where the shape stays, else a 1x1 convolution with norm (`projection`) or `PaddedShortcut`.
    """

    def __init__(
        self,
        incoming: int,
        outgoing: int,
        stride: int,
        norm: Norm,
        *,
        kernel: int = 3,
        dims: int = 2,
        projection: bool = True,
    ) -> None:
        super().__init__()
        conv = (nn.Conv1d, nn.Conv2d)[dims - 1]
        self.conv1 = conv(incoming, outgoing, kernel, stride, padding=kernel // 2, bias=False)
        self.norm1 = norm(outgoing)
        self.conv2 = conv(outgoing, outgoing, kernel, padding=kernel // 2, bias=False)
        self.norm2 = norm(outgoing)
        self.relu1, self.relu2 = nn.ReLU(), nn.ReLU()
        if stride == 1 and incoming == outgoing:
            self.shortcut = nn.Identity()
        elif projection:
            self.shortcut = nn.Sequential(conv(incoming, outgoing, 1, stride, bias=False), norm(outgoing))
        else:
            self.shortcut = PaddedShortcut(stride, outgoing - incoming)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.norm2(self.conv2(self.relu1(self.norm1(self.conv1(x)))))
        return self.relu2(inner + self.shortcut(x))


def _stages(widths: tuple[int, ...], blocks: tuple[int, ...], norm: Norm, projection: bool) -> Plan:
    """{"b1": blocks of the first width, ...}; all stages but the first start with stride 2."""
    plan: Plan = {}
    incoming = widths[0]
    for k, (width, number) in enumerate(zip(widths, blocks, strict=True), start=1):
        strides = [1 if k == 1 else 2] + [1] * (number - 1)
        row = []
        for stride in strides:
            row.append(BasicBlock(incoming, width, stride, norm, projection=projection))
            incoming = width
        plan[f"b{k}"] = row
    return plan


def _initialised(plan: Plan) -> Plan:
    for module in (m for row in plan.values() for top in row for m in top.modules()):
        if isinstance(module, (nn.Conv1d, nn.Conv2d)):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return plan


def resnet18(shape: tuple[int, ...], classes: int, norm: str = "batch", stem: str = "imagenet") -> Plan:
    """ResNet-18 as torchvision's [LIB]: 11,279,112 parameters for three channels and 200 classes.

    DBE's positions are CONV-B1 (`conv`), B1-B2 .. B4-POOL (`b1` .. `b4`), POOL-FC (`pool`).

    Args:
        stem: `imagenet`, 7x7 convolution with stride 2 and 3x3 max-pooling with stride 2, also on 64x64 [LIB]; `small`, a 3x3
            convolution with stride 1 and no pooling, customary for images of 32x32 [inferred: no paper states one].
        norm: `batch` [GPFL, DBE]; `each:32`, group norm of 32 channels a group (base 11,176,512); `shared:32`, the same with one
            scale and shift a group, pFedFDA's (base 11,167,212, confirmed by its Table 8 [FDA-code]).
    """
    channels, *_ = image(shape)
    layer = norm_layer(norm)
    if stem == "imagenet":
        first = [
            nn.Conv2d(channels, 64, 7, 2, padding=3, bias=False),
            layer(64),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, padding=1),
        ]
    else:
        first = [nn.Conv2d(channels, 64, 3, padding=1, bias=False), layer(64), nn.ReLU()]
    plan = {"conv": first, **_stages((64, 128, 256, 512), (2, 2, 2, 2), layer, projection=True)}
    return _initialised(plan | {"pool": [GlobalAverage()], LOGITS: [nn.Linear(512, classes)]})


def resnet_cifar(
    shape: tuple[int, ...], classes: int, blocks: tuple[int, int, int], norm: str = "batch", hidden: bool = True
) -> Plan:
    """ResNet for CIFAR: 3x3 stem to 16 channels, three stages of 16, 32, 64 channels, K = 64.

    GRP-FED's "ResNet-30" is not of the form 6n + 2 [inferred]: read as 30 convolutions in residual blocks, `blocks`
    = 5, 5, 5 (the body of ResNet-32). FedBR's released code holds 3, 3, 3 with group norm of 2 groups [BR-code]. Shortcuts are
    parameter-free, as for CIFAR in the paper that introduced ResNets [inferred].

    Args:
        norm: `batch` [inferred for GRP-FED], or `groups:2`.
        hidden: the head has a hidden layer of 64 [GRP; width ?], else it is linear.
    """
    channels, *_ = image(shape)
    layer = norm_layer(norm)
    plan = {
        "conv": [nn.Conv2d(channels, 16, 3, padding=1, bias=False), layer(16), nn.ReLU()],
        **_stages((16, 32, 64), blocks, layer, projection=False),
        "pool": [GlobalAverage()],
        **(dense((64, 64)) if hidden else {}),
        LOGITS: [nn.Linear(64, classes)],
    }
    return _initialised(plan)


def resnet_ecg(shape: tuple[int, ...], classes: int) -> Plan:
    """GRP-FED's "5-layer 1D ResNet" for ECG [GRP; layer shapes: inferred ?].

    Convolution of width 7, stride 2, to 32 channels; residual blocks of two convolutions of width 5 to 64 and to 128 channels, each
    with stride 2 and a 1x1 shortcut; batch norm [inferred]; global average pool, K = 128. The head has a hidden layer of 128 [GRP;
    width ?].
    """
    channels, length = signal(shape)
    layer = norm_layer("batch", dims=1)
    first = nn.Conv1d(channels, 32, 7, 2, padding=3, bias=False)
    plan = {
        "conv": [Reshape(channels, length), first, layer(32), nn.ReLU()],
        "b1": [BasicBlock(32, 64, 2, layer, kernel=5, dims=1)],
        "b2": [BasicBlock(64, 128, 2, layer, kernel=5, dims=1)],
        "pool": [GlobalAverage()],
        **dense((128, 128)),
        LOGITS: [nn.Linear(128, classes)],
    }
    return _initialised(plan)
