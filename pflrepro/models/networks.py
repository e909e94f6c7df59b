"""Dense and convolutional networks of the papers, as rows of named layers.

Pooling stands before the ReLU (or leaky ReLU) in all of them: the two commute (both are monotone), values and gradients are the
same, and the non-linearity has a quarter of the work.
"""

from __future__ import annotations

import math

from torch import nn

from pflrepro.models.inputs import image, signal
from pflrepro.models.layers import LOGITS, GlobalAverage, Plan, Reshape, dense


def mlp(shape: tuple[int, ...], classes: int, hidden: tuple[int, ...] = (32,)) -> Plan:
    """Hidden layers with ReLU. x [*shape] -> z [hidden[-1]] -> logits [classes].

    `mlp` has one of 32, for tests and teaching. `mlp3` has 1000, 500, 100, for Amazon Review: 5,551,802 parameters for 5,000
    inputs and 2 classes; no norm, no dropout [GPFL, LIB].
    """
    plan = dense((math.prod(shape), *hidden))
    plan["fc1"].insert(0, nn.Flatten())
    return plan | {LOGITS: [nn.Linear(hidden[-1], classes)]}


def cnn4(shape: tuple[int, ...], classes: int) -> Plan:
    """The papers' four-layer CNN [DBE, GPFL, LIB].

    Two 5x5 convolutions (32, 64 channels, stride 1, no padding), each followed by 2x2 max-pooling and ReLU, a hidden layer of
    512 with ReLU, the head. 582,026 parameters for 1x28x28 and 10 classes; 924,708 for 3x32x32 and 100; 5,694,600 for 3x64x64
    and 200. DBE's positions are CONV1-CONV2 (`conv1`, 28,800 features at 64x64), CONV2-FC1 (`conv2`, 10,816), FC1-FC2 (`fc1`).
    """
    channels, *sides = image(shape)
    height, width = (((side - 4) // 2 - 4) // 2 for side in sides)
    return {
        "conv1": [nn.Conv2d(channels, 32, 5), nn.MaxPool2d(2), nn.ReLU()],
        "conv2": [nn.Conv2d(32, 64, 5), nn.MaxPool2d(2), nn.ReLU()],
        "fc1": [nn.Flatten(), nn.Linear(64 * height * width, 512), nn.ReLU()],
        LOGITS: [nn.Linear(512, classes)],
    }


def cnn_digits(shape: tuple[int, ...], classes: int, norm: bool = False) -> Plan:
    """Two 3x3 convolutions (16, 32 channels), a hidden layer of 64: for the 8x8 digits, which the papers' CNN does not fit.

    `norm` puts a batch-norm layer behind each convolution (the conformance suite's network with running statistics).
    """
    channels, *sides = image(shape)
    height, width = ((side - 2) // 2 - 2 for side in sides)

    def convolution(incoming: int, outgoing: int) -> list[nn.Module]:
        return [nn.Conv2d(incoming, outgoing, 3), *([nn.BatchNorm2d(outgoing)] if norm else [])]

    return {
        "conv1": [*convolution(channels, 16), nn.MaxPool2d(2), nn.ReLU()],
        "conv2": [*convolution(16, 32), nn.ReLU()],
        "fc1": [nn.Flatten(), nn.Linear(32 * height * width, 64), nn.ReLU()],
        LOGITS: [nn.Linear(64, classes)],
    }


def fedpac(shape: tuple[int, ...], classes: int, convolutions: int) -> Plan:
    """FedPAC's 4- and 5-layer CNNs as pFedFDA uses them [FDA-code]; leaky ReLU 0.01, PyTorch's initialisation.

    5x5 convolution to 16 channels without padding, 5x5 to 32 with padding 1, in the 5-layer network also 3x3 to 64 with padding
    1; each with leaky ReLU and 2x2 max-pooling; a hidden layer of 128 with leaky ReLU, the head. Base: 115,776 parameters with
    two convolutions on 1x28x28 (EMNIST), 106,400 with three on 3x32x32 (CIFAR-10 and -100, Digit-5).
    """
    incoming, *sides = image(shape)
    plan: Plan = {}
    kinds = ((16, 5, 0), (32, 5, 1), (64, 3, 1))[:convolutions]
    for k, (outgoing, kernel, padding) in enumerate(kinds, start=1):
        plan[f"conv{k}"] = [nn.Conv2d(incoming, outgoing, kernel, padding=padding), nn.MaxPool2d(2), nn.LeakyReLU(0.01)]
        sides = [(side + 2 * padding - kernel + 1) // 2 for side in sides]
        incoming = outgoing
    plan["fc1"] = [nn.Flatten(), nn.Linear(incoming * math.prod(sides), 128), nn.LeakyReLU(0.01)]
    return plan | {LOGITS: [nn.Linear(128, classes)]}


def domainbed_cnn(shape: tuple[int, ...], classes: int) -> Plan:
    """DomainBed's MNIST network, FedBR's CNN for RotatedMNIST [BR-code].

    Four 3x3 convolutions with padding 1 (64, 128 with stride 2, 128, 128 channels), each followed by ReLU and then a group norm
    of 8 groups; global average pool, the head. Base 370,560 parameters for one input channel, head 1,290 for 10 classes.
    As the norm comes last, z may be negative.
    """
    incoming, *_ = image(shape)
    plan: Plan = {}
    for k, (outgoing, stride) in enumerate(((64, 1), (128, 2), (128, 1), (128, 1)), start=1):
        convolution = nn.Conv2d(incoming, outgoing, 3, stride, padding=1)
        plan[f"conv{k}"] = [convolution, nn.ReLU(), nn.GroupNorm(8, outgoing)]
        incoming = outgoing
    return plan | {"pool": [GlobalAverage()], LOGITS: [nn.Linear(128, classes)]}


def vgg11(shape: tuple[int, ...], classes: int) -> Plan:
    """The features of torchvision's VGG11 without batch norm, FedBR's network for CIFAR-10 and PACS [BR-code].

    3x3 convolutions with padding 1 to 64, 128, 256, 256, 512, 512, 512, 512 channels with ReLU, 2x2 max-pooling behind the 1st,
    2nd, 4th, 6th and 8th; global average pool, one linear layer. Base 9,220,480 parameters for three input channels.
    Kaiming normal (fan out) and zero biases for the convolutions; PyTorch's initialisation for the linear layer [inferred].
    """
    incoming, *_ = image(shape)
    plan: Plan = {}
    for k, outgoing in enumerate((64, 128, 256, 256, 512, 512, 512, 512), start=1):
        convolution = nn.Conv2d(incoming, outgoing, 3, padding=1)
        nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
        nn.init.zeros_(convolution.bias)
        plan[f"conv{k}"] = [convolution, *([nn.MaxPool2d(2)] if k in (1, 2, 4, 6, 8) else []), nn.ReLU()]
        incoming = outgoing
    return plan | {"pool": [GlobalAverage()], LOGITS: [nn.Linear(512, classes)]}


def har_cnn(shape: tuple[int, ...], classes: int) -> Plan:
    """The CNN for human activity recognition [DBE, GPFL, LIB]: 2,253,958 parameters for 9x1x128 and 6 classes.

    Two 1x9 convolutions (32, 64 channels), each followed by 1x2 max-pooling and ReLU; the head is the whole dense block, 1024,
    512 (with ReLU) and the classes, so that K = 1664 and z is behind `conv2`.
    """
    channels, length = signal(shape)
    left = ((length - 8) // 2 - 8) // 2
    plan: Plan = {
        "conv1": [Reshape(channels, 1, length), nn.Conv2d(channels, 32, (1, 9)), nn.MaxPool2d((1, 2)), nn.ReLU()],
        "conv2": [nn.Conv2d(32, 64, (1, 9)), nn.MaxPool2d((1, 2)), nn.ReLU()],
        **dense((64 * left, 1024, 512)),
        LOGITS: [nn.Linear(512, classes)],
    }
    plan["fc1"].insert(0, nn.Flatten())
    return plan
