"""Augmentation of batches where they lie: tensor operations decided by drawn numbers, alike on every device."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

PADDING = 4  # pixels at every side [BR, the usual choice for 32x32 images]


def crop_and_flip(x: Tensor, numbers: Tensor, black: Tensor) -> Tensor:
    """Each image of x [..., B, C, H, W] cropped at random after padding, and flipped left to right half of the time.

    Args:
        numbers: [..., B, 3] uniform in [0, 1): where the crop starts, from the top and from the left, and the flip (below 1/2).
        black: the value of the padding, a number or [C, 1, 1].
    """
    images, drawn = x.reshape(-1, *x.shape[-3:]), numbers.reshape(-1, 3)
    count, _, height, width = images.shape
    places = 2 * PADDING + 1
    top, left = (drawn[:, :2] * places).long().clamp(max=places - 1).unbind(1)
    rows = top[:, None] + torch.arange(height, device=x.device)
    columns = torch.arange(width, device=x.device).expand(count, -1)
    columns = left[:, None] + torch.where(drawn[:, 2:] < 0.5, columns.flip(1), columns)
    padded = F.pad(images - black, [PADDING] * 4) + black
    image = torch.arange(count, device=x.device)[:, None, None]
    cropped = padded.movedim(1, 3)[image, rows[:, :, None], columns[:, None, :]]
    return cropped.movedim(3, 1).reshape(x.shape)
