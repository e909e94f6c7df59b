"""The networks of the papers, split into base and head."""

from __future__ import annotations

from torch import nn

from pflrepro.errors import UserError
from pflrepro.models.split import SplitModel


def _image(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(channels, height, width) of an input of shape [H, W] or [C, H, W]."""
    if len(shape) not in (2, 3):
        raise UserError(f"this network takes images [H, W] or [C, H, W], not inputs of shape {list(shape)}")
    return (1, *shape) if len(shape) == 2 else tuple(shape)


def mlp(shape: tuple[int, ...], classes: int, hidden: int = 32) -> SplitModel:
    """One hidden layer with ReLU, for tests and teaching. x [*shape] -> z [hidden] -> logits [classes]."""
    size = 1
    for side in shape:
        size *= side
    return SplitModel(
        nn.Sequential(nn.Flatten(), nn.Linear(size, hidden), nn.ReLU()), nn.Linear(hidden, classes), hidden
    )


def cnn4(shape: tuple[int, ...], classes: int) -> SplitModel:
    """The papers' four-layer CNN [DBE, GPFL; protocol section 2].

    Two 5x5 convolutions (32, 64 channels, stride 1, no padding), each followed by 2x2 max-pooling and ReLU, a hidden layer of
    512 with ReLU, the head. 582,026 parameters for 1x28x28 and 10 classes; 924,708 for 3x32x32 and 100; 5,694,600 for 3x64x64
    and 200. Pooling stands before the ReLU: the two commute (both are monotone), values and gradients are the same, and the
    ReLU has a quarter of the work.
    """
    channels, height, width = _image(shape)
    sides = [((side - 4) // 2 - 4) // 2 for side in (height, width)]
    if min(sides) < 1:
        raise UserError(
            f"cnn4 needs images of at least 16x16, not {height}x{width}; valid for small images: cnn-digits, mlp"
        )
    base = nn.Sequential(
        nn.Conv2d(channels, 32, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(32, 64, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * sides[0] * sides[1], 512),
        nn.ReLU(),
    )
    return SplitModel(base, nn.Linear(512, classes), 512)


def cnn_digits(shape: tuple[int, ...], classes: int, norm: bool = False) -> SplitModel:
    """Two 3x3 convolutions (16, 32 channels), a hidden layer of 64: for the 8x8 digits, which the papers' CNN does not fit.

    `norm` puts a batch-norm layer behind each convolution (the conformance suite's network with running statistics).
    """
    channels, height, width = _image(shape)
    sides = [(side - 2) // 2 - 2 for side in (height, width)]
    if min(sides) < 1:
        raise UserError(f"cnn-digits needs images of at least 8x8, not {height}x{width}")

    def block(incoming: int, outgoing: int) -> list[nn.Module]:
        return [nn.Conv2d(incoming, outgoing, 3), *([nn.BatchNorm2d(outgoing)] if norm else [])]

    layers = [*block(channels, 16), nn.MaxPool2d(2), nn.ReLU(), *block(16, 32), nn.ReLU(), nn.Flatten()]
    base = nn.Sequential(*layers, nn.Linear(32 * sides[0] * sides[1], 64), nn.ReLU())
    return SplitModel(base, nn.Linear(64, classes), 64)
