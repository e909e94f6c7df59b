"""The ten corruptions of CIFAR10-S and CIFAR100-S, for 32x32 RGB pictures [FDA-code, and the CIFAR-C generator].

The parameters are those of CIFAR-C. The kept library `imagecorruptions` has ImageNet-C's for larger pictures instead, without a
choice; only its frost photographs are used (`frost_photographs`).
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np
from PIL import Image

from pflrepro.errors import UserError, check_range, unknown

SEVERITIES = (1, 2, 3, 4, 5)


def corrupt(
    picture: np.ndarray, kind: str, severity: int, random: np.random.Generator, photographs: Sequence[np.ndarray] = ()
) -> np.ndarray:
    """One uint8 picture [3, 32, 32] with a corruption of severity 1 to 5; `photographs`: for frost, see `frost_photographs`.

    Computed on [0, 1], clipped, multiplied by 255 and truncated.
    """
    if kind not in CORRUPTIONS:
        raise unknown("corruption", kind, CORRUPTIONS)
    level = check_range("severity", severity, 1, len(SEVERITIES), integer=True) - 1
    function, parameters = CORRUPTIONS[kind]
    if kind == "frost":
        if not photographs:
            raise UserError("the corruption frost needs photographs of frost")
        function = partial(function, photographs=photographs)
    values = function(picture / 255.0, parameters[level], random)
    return (np.clip(values, 0.0, 1.0) * 255).astype(np.uint8)


def _gaussian_noise(x: np.ndarray, sigma: float, random: np.random.Generator) -> np.ndarray:
    return x + random.normal(0.0, sigma, x.shape)


def _shot_noise(x: np.ndarray, photons: float, random: np.random.Generator) -> np.ndarray:
    return random.poisson(x * photons) / photons


def _impulse_noise(x: np.ndarray, share: float, random: np.random.Generator) -> np.ndarray:
    hit, white = random.random(x.shape) < share, random.random(x.shape) < 0.5
    return np.where(hit, white.astype(np.float64), x)


def _defocus_blur(x: np.ndarray, disc: tuple[float, float], random: np.random.Generator) -> np.ndarray:
    from scipy.ndimage import correlate

    return correlate(x, defocus_kernel(*disc)[None], mode="mirror")


@lru_cache
def defocus_kernel(radius: float, smoothing: float) -> np.ndarray:
    """A disc of ones about the centre, of sum 1, smoothed with a 3x3 Gaussian; [7, 7], which holds all that is not zero."""
    grid = np.arange(-3, 4)
    disc = (grid[:, None] ** 2 + grid[None] ** 2 <= radius**2).astype(np.float64)
    bell = np.exp(-(np.arange(-1, 2) ** 2) / (2 * smoothing**2))
    bell /= bell.sum()
    padded = np.pad(disc / disc.sum(), 1)
    rows = sum(weight * padded[k : k + 7] for k, weight in enumerate(bell))
    return sum(weight * rows[:, k : k + 7] for k, weight in enumerate(bell))


def _motion_blur(x: np.ndarray, blur: tuple[int, float], random: np.random.Generator) -> np.ndarray:
    """Along one direction from each pixel, at an angle within 45 degrees of the horizontal; pixels at the edge are repeated."""
    radius, deviation = blur
    angle = math.radians(random.uniform(-45, 45))
    steps = np.arange(2 * radius + 1)
    weights = np.exp(-(steps**2) / (2 * deviation**2))
    height, width = x.shape[-2:]
    rows, columns = np.arange(height), np.arange(width)
    blurred = np.zeros_like(x)
    for step, weight in zip(steps, weights / weights.sum(), strict=True):
        across, down = (math.ceil(step * part - 0.5) for part in (math.cos(angle), math.sin(angle)))
        blurred += (
            weight * x[:, np.clip(rows + down, 0, height - 1)[:, None], np.clip(columns + across, 0, width - 1)[None]]
        )
    return blurred


def _fog(x: np.ndarray, fog: tuple[float, float], random: np.random.Generator) -> np.ndarray:
    amount, decay = fog
    brightest = x.max()
    return (x + amount * plasma(x.shape[-1], decay, random)) * brightest / (brightest + amount)


def plasma(size: int, decay: float, random: np.random.Generator) -> np.ndarray:
    """A fractal cloud in [0, 1], [size, size] with `size` a power of 2: diamond-square on a torus.

    Each step halves the cells and divides the width w of the noise w U(-w, w) by `decay`: its amplitude falls by decay squared.
    """
    cloud = np.zeros((size, size))
    step, width = size, 100.0
    while step >= 2:
        half, cells = step // 2, size // step

        def noise(cells: int = cells, width: float = width) -> np.ndarray:
            return width * random.uniform(-width, width, (cells, cells))

        corners = cloud[::step, ::step]
        pairs = corners + np.roll(corners, -1, 0)
        centres = (pairs + np.roll(pairs, -1, 1)) / 4 + noise()
        cloud[half::step, half::step] = centres
        cloud[half::step, ::step] = (pairs + centres + np.roll(centres, 1, 1)) / 4 + noise()
        above = corners + np.roll(corners, -1, 1)
        cloud[::step, half::step] = (above + centres + np.roll(centres, 1, 0)) / 4 + noise()
        step, width = half, width / decay
    cloud -= cloud.min()
    return cloud / cloud.max()


def _frost(
    x: np.ndarray, mixture: tuple[float, float], random: np.random.Generator, photographs: Sequence[np.ndarray]
) -> np.ndarray:
    """A random part of a photograph on top; of the files only the first five are ever drawn [CIFAR-C]."""
    photograph = photographs[random.integers(min(5, len(photographs)))]
    height, width = x.shape[-2:]
    top, left = (random.integers(photograph.shape[k] - side) for k, side in ((1, height), (2, width)))
    return mixture[0] * x + mixture[1] * photograph[:, top : top + height, left : left + width] / 255


def _brightness(x: np.ndarray, more: float, random: np.random.Generator) -> np.ndarray:
    """V of HSV grows: at the same hue and saturation a colour is proportional to V, and black becomes grey."""
    value = x.max(0)
    brighter = np.clip(value + more, 0, 1)
    return np.where(value > 0, x * brighter / np.where(value > 0, value, 1), brighter)


def _contrast(x: np.ndarray, factor: float, random: np.random.Generator) -> np.ndarray:
    mean = x.mean((1, 2), keepdims=True)
    return (x - mean) * factor + mean


def _jpeg(x: np.ndarray, quality: int, random: np.random.Generator) -> np.ndarray:
    stream = io.BytesIO()
    Image.fromarray(np.rint(x * 255).astype(np.uint8).transpose(1, 2, 0)).save(stream, "JPEG", quality=quality)
    # half a grey level up, so that truncation gives the decoded value back
    return (np.asarray(Image.open(stream)).transpose(2, 0, 1) + 0.5) / 255


# name -> how it is made, and its parameter at each severity; the order is that of pFedFDA's code, which clients go through.
CORRUPTIONS: dict[str, tuple[Callable[..., np.ndarray], tuple]] = {
    "motion-blur": (_motion_blur, ((6, 1.0), (6, 1.5), (6, 2.0), (8, 2.0), (9, 2.5))),
    "defocus-blur": (_defocus_blur, ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1))),
    "gaussian-noise": (_gaussian_noise, (0.04, 0.06, 0.08, 0.09, 0.10)),
    "shot-noise": (_shot_noise, (500.0, 250.0, 100.0, 75.0, 50.0)),
    "impulse-noise": (_impulse_noise, (0.01, 0.02, 0.03, 0.05, 0.07)),
    "frost": (_frost, ((1.0, 0.2), (1.0, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))),
    "fog": (_fog, ((0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75))),
    "jpeg": (_jpeg, (80, 65, 58, 50, 40)),
    "brightness": (_brightness, (0.05, 0.1, 0.15, 0.2, 0.3)),
    "contrast": (_contrast, (0.75, 0.5, 0.4, 0.3, 0.15)),
}
