"""Pictures turned about their centre, as PIL turns them: counter-clockwise, nearest pixel, black corners, same size.

Which pixel goes where depends on the angle alone: PIL turns a picture of pixel numbers once an angle on the host, and one gather
moves the pixels of all pictures where they lie. Nothing is computed with them, so every device gives PIL's bytes.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from PIL import Image
from torch import Tensor

# FedBR's ten angles [BR A], in degrees.
ANGLES = tuple(range(0, 150, 15))
CHUNK = 2**20  # pixel numbers at a time, 8 MiB: memory stays bounded however many pictures there are


def rotate(pictures: Tensor, degrees: Tensor | float) -> Tensor:
    """Pictures [n, ..., height, width], each turned by its angle, as new pixels of the same type on the same device.

    Args:
        degrees: [n], an angle a picture, or one for all of them.
    """
    count, (height, width) = len(pictures), pictures.shape[-2:]
    # float64, in which PIL computes: an angle such as 0.1 stays what it is
    wanted = torch.as_tensor(degrees, dtype=torch.float64, device=pictures.device).expand(count)
    angles, which = wanted.unique(return_inverse=True)
    sources = [_sources(height, width, angle) for angle in angles.tolist()]
    table = torch.from_numpy(np.array(sources, dtype=np.int64)).to(pictures.device)
    flat = pictures.flatten(-2)
    turned = torch.empty(flat.shape, dtype=flat.dtype, device=flat.device)
    step = max(1, CHUNK // (height * width))
    for start in range(0, count, step):
        part = slice(start, start + step)
        source = table[which[part]].view(-1, *(1,) * (flat.ndim - 2), height * width)
        # the same numbers for every channel: expanded, not copied
        moved = flat[part].gather(-1, source.clamp(min=0).expand_as(flat[part]))
        turned[part] = moved.masked_fill_(source < 0, 0)
    return turned.view(pictures.shape)


@lru_cache(maxsize=64)
def _sources(height: int, width: int, degrees: float) -> np.ndarray:
    """For each pixel of a turned picture the number of the pixel that it shows, int64 [height * width]; -1 where it shows none."""
    numbers = np.arange(height * width, dtype=np.int32).reshape(height, width)
    turned = Image.fromarray(numbers).rotate(degrees, Image.Resampling.NEAREST, fillcolor=-1)
    return np.asarray(turned).reshape(-1).astype(np.int64)
