"""Pictures turned about their centre, as PIL turns them: counter-clockwise, nearest pixel, black corners, same size."""

from __future__ import annotations

import numpy as np

# FedBR's ten angles [FedBR A], in degrees.
ANGLES = tuple(range(0, 150, 15))


def rotate(pictures: np.ndarray, degrees: float) -> np.ndarray:
    """uint8 [n, ..., height, width], each turned by the same angle; a new array.

    Which pixel goes where does not depend on the picture: PIL turns a picture of pixel numbers once, and all pictures follow.
    """
    height, width = pictures.shape[-2:]
    source = _sources(height, width, degrees)
    flat = pictures.reshape(*pictures.shape[:-2], height * width)
    turned = np.take(flat, np.maximum(source, 0), axis=-1)
    turned[..., source < 0] = 0
    return turned.reshape(pictures.shape)


def _sources(height: int, width: int, degrees: float) -> np.ndarray:
    """For each pixel of a turned picture the number of the pixel that it shows; -1 where it shows none."""
    from PIL import Image

    numbers = np.arange(1, height * width + 1, dtype=np.int32).reshape(height, width)
    turned = Image.fromarray(numbers).rotate(degrees, Image.Resampling.NEAREST, fillcolor=0)
    return np.asarray(turned).reshape(-1).astype(np.int64) - 1
