"""What clients see of a data set where that depends on the client: rotated, corrupted, augmented, tested elsewhere.

A shift is drawn from the partition's seed and from each image's row number, so that a smaller part of the same clients' data
holds the same images. Draws are made on the host. Rotations and crops move pixels where the samples are, on the federation's
device, and are made anew each time (under a second); corruptions are made on the host, one image after the other by libraries
that work there, and are kept in the data root.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pflrepro.data.arrays import SHIFT_REVISION, Arrays, read_arrays, save_arrays
from pflrepro.data.augment import PADDING, crop_and_flip
from pflrepro.data.corruptions import CORRUPTIONS, SEVERITIES, corrupt
from pflrepro.data.datasets import load_arrays
from pflrepro.data.frost import frost_photographs
from pflrepro.data.root import cache_path
from pflrepro.data.rotation import ANGLES, rotate
from pflrepro.data.sets.types import DatasetSpec
from pflrepro.errors import CorruptFile, UserError, unknown
from pflrepro.randomness import generator

log = logging.getLogger("pflrepro.data")
Rows = Sequence[np.ndarray]  # row numbers, one array a client


@dataclass(frozen=True, eq=False)
class Clients:
    """What a federation is made of: samples [n, ...] and labels [n] on its device, and each client's row numbers, on the host."""

    x: Tensor
    y: Tensor
    train: Rows
    test: Rows


@dataclass(frozen=True, eq=False)
class _Task:
    clients: Clients
    value: str  # behind the colon of the shift's name
    seed: int
    spec: DatasetSpec
    root: str | Path | None

    def official_test(self) -> tuple[Tensor, Tensor]:
        """The official test rows of the source: samples and labels, where the clients' are."""
        source = load_arrays(self.spec.source, self.root)
        if source.split is None or not source.split.any():
            raise UserError(f"data set {self.spec.source!r} in this data root does not say which rows are test rows")
        rows = source.split == 1
        return tuple(torch.from_numpy(values[rows]).to(self.clients.x.device) for values in (source.x, source.y))


def shifted(spec: DatasetSpec, clients: Clients, seed: int, root: str | Path | None = None) -> Clients:
    """`clients` of the data set as they see it; the same object for a set without a shift.

    Raises `MissingData` where a corruption lacks its photographs.

    Args:
        seed: of the partition.
    """
    if not spec.shift:
        return clients
    kind, _, value = spec.shift.partition(":")
    if kind not in SHIFTS:
        raise unknown("shift", kind, SHIFTS)
    return SHIFTS[kind](_Task(clients, value, seed, spec, root))


def _rotate_clients(task: _Task) -> Clients:
    """Client i's images turned by its angle, the (i mod 10)-th of 0, 15, .. 135 degrees [BR A; BR-code]."""
    degrees = torch.zeros(len(task.clients.x))
    for client, rows in enumerate(task.clients.train):
        degrees[rows] = _angle(client)
    return _tested_under_angles(task, rotate(task.clients.x, degrees))


def _rotate_images(task: _Task) -> Clients:
    """Each image turned by an angle from its client's own distribution over the ten angles, Dir(value) [BR A; BR-code]."""
    degrees = torch.zeros(len(task.clients.x))
    for client, rows in enumerate(task.clients.train):
        odds = generator(task.seed, "shift/angles", client=client).dirichlet([float(task.value)] * len(ANGLES))
        draws = [generator(task.seed, "shift/angle", client=row).random() for row in rows.tolist()]
        choice = np.searchsorted(odds.cumsum()[:-1], draws, side="right")
        degrees[rows] = torch.tensor(ANGLES, dtype=degrees.dtype)[choice]
    return _tested_under_angles(task, rotate(task.clients.x, degrees))


def _angle(client: int) -> int:
    return ANGLES[client % len(ANGLES)]


def _tested_under_angles(task: _Task, x: Tensor) -> Clients:
    """Client i is tested on the complete official test set, turned by its angle: the mean over ten clients is FedBR's."""
    pictures, labels = task.official_test()
    angles = sorted({_angle(client) for client in range(len(task.clients.train))})
    blocks = {angle: len(x) + k * len(labels) + np.arange(len(labels)) for k, angle in enumerate(angles)}
    return Clients(
        torch.cat([x, *(rotate(pictures, angle) for angle in angles)]),
        torch.cat([task.clients.y, labels.repeat(len(angles))]),
        task.clients.train,
        [blocks[_angle(client)] for client in range(len(task.clients.train))],
    )


def _official_test(task: _Task, x: Tensor | None = None) -> Clients:
    """Every client is tested on the official test set as it is."""
    pictures, labels = task.official_test()
    own = task.clients.x if x is None else x
    rows = len(own) + np.arange(len(labels))
    tests = [rows for _ in task.clients.train]
    return Clients(torch.cat([own, pictures]), torch.cat([task.clients.y, labels]), task.clients.train, tests)


def _augment_once(task: _Task) -> Clients:
    """Each training image is cropped at random from itself with a black edge of 4 and flipped with odds 1/2 [BR], once
    [BR-code]."""
    x = task.clients.x
    places = np.array([2 * PADDING + 1, 2 * PADDING + 1, 2])
    draws = generator(task.seed, "shift/crops").integers(0, places, (len(x), 3))
    draws[:, 2] = 1 - draws[:, 2]  # a flip is the lower half of its range
    numbers = torch.from_numpy((draws + 0.5) / places).to(x.device)
    return _official_test(task, crop_and_flip(x, numbers, torch.zeros((), dtype=x.dtype, device=x.device)))


def _corrupt_half(task: _Task) -> Clients:
    """The first half of the clients get a corruption and a severity each, for training and test images [FDA 5.1, C.1.1]."""
    pairs = corruptions(task.spec.shift, len(task.clients.train))
    return _corrupted(task, [pair for pair in pairs if pair[0]])


def corruptions(shift: str, clients: int) -> list[tuple[str, int]]:
    """Corruption and severity of each client's images under a shift of a data set; ("", 0) for a client without.

    Example:
        >>> corruptions("corrupt-half:code", 4)
        [('motion-blur', 1), ('defocus-blur', 2), ('', 0), ('', 0)]
    """
    kind, _, value = shift.partition(":")
    if kind == "corrupt-all":
        name, severity = value.split(",")
        return [(name, int(severity))] * clients
    half = clients // 2 if kind == "corrupt-half" else 0
    return [pair_of(client, value) for client in range(half)] + [("", 0)] * (clients - half)


def pair_of(client: int, assignment: str) -> tuple[str, int]:
    """Corruption and severity of a client: i mod 10, and (i mod 5) + 1 ("code", 10 pairs) or i div 10 + 1 ("paper", 50 pairs)."""
    if assignment not in ("code", "paper"):
        raise unknown("assignment of corruptions", assignment, ("code", "paper"))
    turn = client if assignment == "code" else client // len(CORRUPTIONS)
    return list(CORRUPTIONS)[client % len(CORRUPTIONS)], turn % len(SEVERITIES) + 1


def _corrupt_all(task: _Task) -> Clients:
    """Every client's images with one corruption [FDA 5.2, C.3]."""
    return _corrupted(task, corruptions(task.spec.shift, len(task.clients.train)))


def _corrupted(task: _Task, pairs: Sequence[tuple[str, int]]) -> Clients:
    """`task.clients` with client i's images corrupted by the i-th pair."""
    clients = task.clients
    held = [np.concatenate([train, test]) for train, test in zip(clients.train, clients.test, strict=True)][
        : len(pairs)
    ]
    rows = np.concatenate(held) if held else np.zeros(0, np.int64)
    if not len(rows):
        return clients
    places = torch.from_numpy(rows).to(clients.x.device)
    clean = clients.x[places].cpu().numpy()
    path = _kept(task, pairs, held, clean)
    pixels = _read_kept(path, rows, clean.shape[1:])
    if pixels is None:
        pixels = _made(task, pairs, held, clean)
        _keep(path, pixels, rows)
    x = clients.x.clone()
    x[places] = torch.from_numpy(pixels).to(x.device)
    return Clients(x, clients.y, clients.train, clients.test)


def _made(task: _Task, pairs: Sequence[tuple[str, int]], held: Rows, clean: np.ndarray) -> np.ndarray:
    """uint8 [n, ...]: the images `clean` of the rows `held`, one after the other, corrupted."""
    photographs = frost_photographs(task.root) if any(kind == "frost" for kind, _ in pairs) else ()
    pixels, images = [], iter(clean)
    for (kind, severity), rows in zip(pairs, held, strict=True):
        for row in rows.tolist():
            random = generator(task.seed, f"shift/{kind}/{severity}", client=row)
            pixels.append(corrupt(next(images), kind, severity, random, photographs))
    return np.stack(pixels)


def _kept(task: _Task, pairs: Sequence[tuple[str, int]], held: Rows, clean: np.ndarray) -> Path:
    """Where these corrupted images are kept: the name is a fingerprint of all that they depend on."""
    digest = hashlib.sha256(f"{task.spec.source} {SHIFT_REVISION} {task.seed} {list(pairs)}\n".encode())
    for rows, images in zip(held, np.split(clean, np.cumsum([len(rows) for rows in held])[:-1]), strict=True):
        digest.update(f"{len(rows)}\n".encode())
        digest.update(np.ascontiguousarray(rows, "<i8").data)
        digest.update(images.data)
    home = cache_path(task.spec.name, task.root).parent
    return home / f"corrupted-{digest.hexdigest()[:16]}.npz"


def _read_kept(path: Path, rows: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """The kept images of `rows`; None where there are none, or others: they are made again then."""
    try:
        kept = read_arrays(path)
    except FileNotFoundError:
        return None
    except CorruptFile as error:
        log.warning("corrupted images are made again: %s", error)
        return None
    same = kept.x.shape == (len(rows), *shape) and kept.x.dtype == np.uint8 and np.array_equal(kept.y, rows)
    return kept.x if same else None


def _keep(path: Path, pixels: np.ndarray, rows: np.ndarray) -> None:
    try:
        save_arrays(path, Arrays(path.stem, pixels, rows))
    except UserError:  # a data root that may only be read: the images are made again next time
        return


SHIFTS: dict[str, Callable[[_Task], Clients]] = {
    "rotate-clients": _rotate_clients,
    "rotate-images": _rotate_images,
    "official-test": _official_test,
    "augment-once": _augment_once,
    "corrupt-half": _corrupt_half,
    "corrupt-all": _corrupt_all,
}
