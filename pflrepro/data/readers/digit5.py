"""Digit-5, or some of its domains, from the array caches of its parts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.model_selection import StratifiedShuffleSplit

from pflrepro.data.arrays import Arrays, read_arrays
from pflrepro.data.datasets import as_described, find
from pflrepro.data.sets.types import DatasetSpec
from pflrepro.errors import CorruptFile

TRAINING = 7438  # images kept of each domain's training part: as many as USPS has [FedBN-code]


def pooled(spec: DatasetSpec, paths: Mapping[str, Path]) -> Arrays:
    """uint8 [n, 3, 32, 32] with `group` = domain, in the order of `spec.made_of`: MNIST, SVHN, USPS, synthetic digits, MNIST-M
    [FDA D.1; FDA-code], which are 184,699 images.

    Each domain is pooled and divided 80/20, stratified (scikit-learn's StratifiedShuffleSplit with random_state 0) [FedBN-code];
    of the 80 % the first 7438 stay, the 20 % all (`split` 1). Resized to 32x32 as PIL does it (bilinear), grey as three equal
    channels.
    """
    images, labels, sizes = [], [], []
    for name in spec.made_of:
        part = as_described(find(name), read_arrays(paths[name], name))
        train, test = _divided(part)
        images.append(_as_32x32(part.x[np.concatenate([train, test])], paths[name]))
        labels.append(part.y[np.concatenate([train, test])])
        sizes.append((len(train), len(test)))
    return Arrays(
        name=spec.name,
        x=np.concatenate(images),
        y=np.concatenate(labels),
        split=np.repeat(np.tile(np.array([0, 1], np.uint8), len(sizes)), np.array(sizes).reshape(-1)),
        group=np.repeat(np.arange(len(sizes)), [sum(size) for size in sizes]),
        classes=np.array(spec.class_names),
    )


def _divided(part: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers of a domain's training and test part, in their random order."""
    halves = StratifiedShuffleSplit(n_splits=1, test_size=0.2, random_state=0)
    train, test = next(halves.split(np.zeros(len(part)), part.y))
    return train[:TRAINING], test


def _as_32x32(x: np.ndarray, path: Path) -> np.ndarray:
    if x.dtype.kind == "f":  # USPS: -1 .. 1 to bytes, truncated [FedBN-code, torchvision]
        x = ((x + 1) / 2 * 255).astype(np.uint8)
    if x.ndim == 3:
        x = x[:, None]
    if x.dtype != np.uint8 or x.ndim != 4 or x.shape[1] not in (1, 3):
        raise CorruptFile(f"{path} holds no images: {x.dtype} of shape {x.shape[1:]}")
    if x.shape[2:] != (32, 32):
        resized = np.empty((*x.shape[:2], 32, 32), np.uint8)
        for source, target in zip(x.reshape(-1, *x.shape[2:]), resized.reshape(-1, 32, 32), strict=True):
            target[...] = np.asarray(Image.fromarray(source).resize((32, 32), Image.Resampling.BILINEAR))
        x = resized
    return np.broadcast_to(x, (len(x), 3, 32, 32))
