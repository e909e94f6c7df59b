"""A StyleGAN-v2 generator that is never trained: structured noise by class (the virtual images of VHL).

Karras et al., "Analyzing and improving the image quality of StyleGAN", CVPR 2020, section 2 (weight demodulation) and figure 7
(skip connections); compact: one width for all resolutions, bilinear up-sampling in place of the blurred one.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pflrepro.models.initialise import seeded

_GAIN = math.sqrt(2.0)  # keeps the variance behind a leaky ReLU of slope 0.2 near 1
_AT_ONCE = 100  # images drawn at once: small enough for any machine


def _activate(x: Tensor) -> Tensor:
    return F.leaky_relu(x, 0.2) * _GAIN


class Mapping(nn.Module):
    """z [n, latent] -> w [n, latent]: z scaled to unit mean square, then `depth` dense layers."""

    def __init__(self, latent: int, depth: int) -> None:
        super().__init__()
        self.weights = nn.ParameterList(torch.randn(latent, latent) / math.sqrt(latent) for _ in range(depth))

    def forward(self, z: Tensor) -> Tensor:
        w = z * (z.square().mean(1, keepdim=True) + 1e-8).rsqrt()
        for weight in self.weights:
            w = _activate(F.linear(w, weight))
        return w


class ModulatedConv(nn.Module):
    """A convolution whose input channels are scaled by a style s = A w + 1, per sample.

    W'_oik = s_i W_oik; demodulated: W''_oik = W'_oik / sqrt(sum_ik W'_oik^2 + 1e-8). Scaling x by s before and the result by the
    root after the convolution is the same, and needs one convolution for all samples.
    """

    def __init__(self, incoming: int, outgoing: int, kernel: int, latent: int, demodulate: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outgoing, incoming, kernel, kernel) / math.sqrt(incoming * kernel**2))
        self.style = nn.Parameter(torch.randn(incoming, latent) / math.sqrt(latent))
        self.demodulate = demodulate

    def forward(self, x: Tensor, w: Tensor) -> Tensor:
        s = F.linear(w, self.style) + 1
        out = F.conv2d(x * s[:, :, None, None], self.weight, padding=self.weight.shape[-1] // 2)
        if not self.demodulate:
            return out
        scale = (s.square() @ self.weight.square().sum((2, 3)).T + 1e-8).rsqrt()  # [n, outgoing]
        return out * scale[:, :, None, None]


class Layer(nn.Module):
    """Modulated 3x3 convolution, plus a noise image times `strength`, leaky ReLU.

    Training would start from strength 0, where noise does nothing; here nothing is trained, so it gets a value of its own.
    """

    def __init__(self, width: int, latent: int, strength: float) -> None:
        super().__init__()
        self.conv, self.strength = ModulatedConv(width, width, 3, latent), strength

    def forward(self, x: Tensor, w: Tensor, noise: Tensor) -> Tensor:
        return _activate(self.conv(x, w) + self.strength * noise)


class Generator(nn.Module):
    """z [n, latent] and noise images -> images [n, channels, size, size], around [-1, 1].

    A learned 4x4 constant; then per resolution (4, 8, .. size) two layers (one at 4x4) and a to-RGB convolution (1x1, modulated,
    not demodulated) whose output is added to the up-sampled image so far.
    """

    def __init__(
        self, channels: int, size: int, latent: int = 64, width: int = 32, depth: int = 4, strength: float = 0.5
    ) -> None:
        super().__init__()
        self.sides = [4 * 2**k for k in range(max(size // 4, 1).bit_length())]
        if self.sides[-1] != size:
            raise ValueError(f"the size of the images is a power of two from 4, not {size}")
        self.latent, self.mapping = latent, Mapping(latent, depth)
        self.constant = nn.Parameter(torch.randn(1, width, 4, 4))
        self.layers = nn.ModuleList(Layer(width, latent, strength) for _ in range(2 * len(self.sides) - 1))
        self.colours = nn.ModuleList(ModulatedConv(width, channels, 1, latent, False) for _ in self.sides)

    @property
    def noise_sides(self) -> list[int]:
        """The side of the noise image of each layer."""
        return [side for side in self.sides for _ in range(1 if side == 4 else 2)]

    def forward(self, z: Tensor, noise: list[Tensor]) -> Tensor:
        """`noise`: one [n, 1, side, side] a layer, see `noise_sides`."""
        w = self.mapping(z)
        x = self.layers[0](self.constant.expand(len(z), -1, -1, -1), w, noise[0])
        image = self.colours[0](x, w)
        for k, side in enumerate(self.sides[1:], start=1):
            x, image = (F.interpolate(v, size=side, mode="bilinear", align_corners=False) for v in (x, image))
            for i in (2 * k - 1, 2 * k):
                x = self.layers[i](x, w, noise[i])
            image = image + self.colours[k](x, w)
        return image / math.sqrt(len(self.sides))


def class_images(shape: tuple[int, int, int], labels: np.ndarray, draw: np.random.Generator) -> Tensor:
    """One image in [0, 1] a label, float32 [n, *shape] on the CPU, 8 bits deep; `draw` decides everything.

    A class c has a latent distribution z ~ N(m_c, 0.3^2), m_c ~ N(0, 0.5^2) [BR-code], and likewise noise images around those of
    its own [inferred]. Images are made at the next power of two and resized. Rounding to 8 bits, as in an image file, hides
    what differs in the last place between machines.
    """
    channels, height, width = shape
    size = max(4, 2 ** math.ceil(math.log2(max(height, width))))
    network = seeded(int(draw.integers(2**31)), "stylegan2", lambda: Generator(channels, size)).double()
    shapes = [(network.latent,), *((1, side, side) for side in network.noise_sides)]
    present = np.unique(labels)
    centres = [0.5 * draw.standard_normal((len(present), *form)) for form in shapes]
    which = np.searchsorted(present, labels)
    images = []
    with torch.no_grad():
        for start in range(0, len(labels), _AT_ONCE):
            chosen = which[start : start + _AT_ONCE]
            z, *noise = (
                torch.from_numpy(centre[chosen] + 0.3 * draw.standard_normal((len(chosen), *form)))
                for centre, form in zip(centres, shapes, strict=True)
            )
            made = network(z, noise)
            if (height, width) != (size, size):
                made = F.interpolate(made, size=(height, width), mode="bilinear", align_corners=False)
            images.append((made.clamp(-1, 1) + 1) / 2)
    return ((torch.cat(images) * 255).round() / 255).float()
