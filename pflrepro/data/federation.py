"""The data of all clients in a few tensors on one device."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pflrepro.data.arrays import Arrays
from pflrepro.data.checked_data import (
    Factor,
    checked_labels,
    checked_parts,
    checked_samples,
    checked_unit,
    numbers_of,
    warn_of_shared_rows,
)
from pflrepro.data.heterogeneity import heterogeneity
from pflrepro.data.partition import Partition
from pflrepro.data.picture import counts_html, plot_counts
from pflrepro.data.sets.types import DatasetSpec
from pflrepro.data.shifts import Clients, shifted
from pflrepro.device import resolve_device
from pflrepro.errors import UserError, check_range, check_word, in_short
from pflrepro.randomness import generator
from pflrepro.trees import Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Federation:
    """Samples on a device and each client's training, validation and test rows.

    Samples, labels and rows may be given as tensors, arrays or lists, the rows of a client also as a mask of n true or false.

    Attributes:
        x: [n, ...] raw samples as stored (uint8 images stay uint8).
        y: [n] int64 labels, 0 to C - 1.
        rows: split ("train", "valid", "test") -> one int64 array of row numbers a client, on the host.
        classes: C, the number of labels.
        unit: (scale, offset), a sample is trained on as scale * x + offset; each of them one number, or one a channel (the first
            axis of a sample).
        name: the data set's name, for pictures and messages.
        proxy: samples of another origin that methods may hand to all clients, as a federation of their own; or None.

    A client may have no row in a split, and clients may share rows; a warning says where one is tested on samples that it trains on.

    Raises `UserError` for samples that are no finite numbers, labels that are not one of 0..C-1 a sample, row numbers outside the data,
    other than one training and one test part a client, rows of nobody at all, a `unit` that does not fit the samples, and a device that
    this machine has not got.

    Example:
        >>> x, y = np.random.default_rng(0).random((6, 4)), [0, 1, 0, 1, 0, 1]
        >>> Federation(x, y, train=[[0, 1], [2, 3]], test=[[4], [5]])
        Federation(unnamed: 2 clients, 2 classes, 4 training samples (2..2 a client), 2 test samples)
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        train: Sequence[Any],
        test: Sequence[Any],
        *,
        classes: int | None = None,
        unit: tuple[Factor, Factor] = (1.0, 0.0),
        name: str = "",
        seed: int = 1,
        device: str | torch.device = "cpu",
        proxy: Federation | None = None,
    ) -> None:
        if not (proxy is None or isinstance(proxy, Federation)):
            raise UserError(f"proxy must be a Federation, not {in_short(proxy)}")
        self.proxy = None if proxy is None else proxy.to(device)
        self.device = _placed(device)
        self.x = checked_samples(x).to(self.device)
        y, self.classes = checked_labels(y, len(self.x), classes)
        self.y = y.to(self.device)
        self.unit, self.name, self.seed = checked_unit(unit), name, check_range("seed", seed, 0, integer=True)
        self._factors = self._factors_of(self.unit)
        self._black = self._black_of(self.unit)
        rows = {split: checked_parts(split, parts, len(self.y)) for split, parts in (("train", train), ("test", test))}
        if len(rows["train"]) != len(rows["test"]) or not rows["train"]:
            raise UserError(
                "a federation needs one training and one test part a client, "
                f"not {len(rows['train'])} and {len(rows['test'])}"
            )
        if not any(map(len, rows["train"] + rows["test"])):
            raise UserError(f"none of the {len(rows['train'])} clients has a training or test row")
        warn_of_shared_rows(rows["train"], rows["test"], len(self.y))
        self.rows = rows | {"valid": [np.zeros(0, np.int64) for _ in rows["train"]]}

    @classmethod
    def of(
        cls,
        spec: DatasetSpec,
        arrays: Arrays,
        partition: Partition,
        *,
        seed: int = 1,
        root: str | Path | None = None,
        device: str | torch.device = "cpu",
        proxy: Federation | None = None,
    ) -> Federation:
        """The federation of a data set's arrays and a partition of them, with what its clients see instead where it has a shift.

        Args:
            seed: of the partition.
            root: the data root, where shifts find the official test rows and keep corrupted images.
            device: where the samples are moved first, so that what clients see is made there.
        """
        device = _placed(device)
        rows = {side: [np.asarray(part.cpu()) for part in getattr(partition, side)] for side in ("train", "test")}
        x, y = (torch.from_numpy(values).to(device) for values in (arrays.x, arrays.y))
        clients = shifted(spec, Clients(x, y, rows["train"], rows["test"]), seed, root)
        facts = {"classes": spec.classes, "unit": tuple(spec.to_unit), "name": spec.name, "seed": seed}
        return cls(clients.x, clients.y, clients.train, clients.test, device=device, proxy=proxy, **facts)

    @property
    def clients(self) -> int:
        """N, the number of clients."""
        return len(self.rows["train"])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample as stored."""
        return tuple(self.x.shape[1:])

    def to(self, device: str | torch.device) -> Federation:
        """The same federation with its samples on another device; `UserError` for one that this machine has not got."""
        device = _placed(device)
        other = object.__new__(Federation)
        proxy = None if self.proxy is None else self.proxy.to(device)
        factors = {dtype: [factor.to(device) for factor in pair] for dtype, pair in self._factors.items()}
        black = {dtype: value.to(device) for dtype, value in self._black.items()}
        moved = {"x": self.x.to(device), "y": self.y.to(device), "proxy": proxy, "_factors": factors, "_black": black}
        other.__dict__.update(self.__dict__, device=device, **moved)
        return other

    def hold_out(self, share: float) -> Federation:
        """The same federation with `share` of each client's training rows as validation data.

        The rows are a random part, drawn once from the partition's seed (the papers' code takes the tail of a shuffled file).
        `UserError` unless 0 <= share < 1.
        """
        if check_range("share of validation samples", share, 0, 1, open_high=True) == 0:
            return self
        other = object.__new__(Federation)
        other.__dict__.update(self.__dict__)
        train, valid = [], []
        for client, rows in enumerate(self.rows["train"]):
            order = generator(self.seed, "validation", client=client).permutation(len(rows))
            cut = len(rows) - int(len(rows) * share)
            train.append(rows[np.sort(order[:cut])])
            valid.append(rows[np.sort(order[cut:])])
        other.rows = self.rows | {"train": train, "valid": valid}
        return other

    def part(self, clients: Sequence[int]) -> Federation:
        """Some of the clients alone, in that order, numbered from 0; the samples are not copied.

        `UserError` for clients that are not there, and for none.
        """
        chosen = numbers_of("clients", clients, self.clients)
        if not len(chosen):
            raise UserError("a part of a federation has one client at least, not none")
        other = object.__new__(Federation)
        other.__dict__.update(self.__dict__)
        other.rows = {split: [rows[client] for client in chosen] for split, rows in self.rows.items()}
        return other

    def sizes(self, split: str) -> np.ndarray:
        """The number of samples of each client in a split, int64 [N]; `UserError` for an unknown one."""
        check_word("split", split, self.rows)
        return np.array([len(part) for part in self.rows[split]], dtype=np.int64)

    def counts(self, split: str = "train") -> Tensor:
        """Client x class counts, int64 [N, C], on the host; `UserError` for an unknown split."""
        check_word("split", split, self.rows)
        y = self.y.cpu()
        return torch.stack(
            [torch.bincount(y[torch.as_tensor(part)], minlength=self.classes) for part in self.rows[split]]
        )

    def info(self) -> Tree:
        """What a method may know of each client: `id`, `n` (training samples), `counts` [N, C]; on the device."""
        counts = self.counts("train")
        info = Tree(id=torch.arange(self.clients), n=counts.sum(1), counts=counts)
        return info.to(self.device)

    def batch(self, rows: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """(x, y) of the given rows [...]: x in the run's number type, normalised, with a channel dimension for images [H, W]."""
        flat = rows.reshape(-1)
        x = self.x.index_select(0, flat)
        if x.dtype != dtype:
            x = x.to(dtype)
        if self._factors:
            scale, offset = self._factors[dtype]
            x = x * scale + offset
        elif self.unit != (1.0, 0.0):
            x = x * self.unit[0] + self.unit[1]
        if x.ndim == 3:
            x = x.unsqueeze(1)
        return x.view(*rows.shape, *x.shape[1:]), self.y.index_select(0, flat).view(rows.shape)

    def black(self, dtype: torch.dtype) -> Tensor:
        """What a stored 0 is trained on as: a number, or one a channel [C, 1, 1]."""
        return self._black[dtype]

    def _black_of(self, unit: tuple[Factor, Factor]) -> dict[torch.dtype, Tensor]:
        """`black` of each number type, made once: a captured graph must not copy a number from the host."""
        if self._factors:
            return {dtype: pair[1] for dtype, pair in self._factors.items()}
        return {
            dtype: torch.tensor(float(unit[1]), dtype=dtype, device=self.device)
            for dtype in (torch.float32, torch.float64)
        }

    def _factors_of(self, unit: tuple[Factor, Factor]) -> dict[torch.dtype, list[Tensor]]:
        """Scale and offset a channel as tensors of each number type on the device, made once; {} for plain numbers."""
        if all(isinstance(factor, (int, float)) for factor in unit):
            return {}
        channels = self.shape[0] if len(self.shape) > 2 else 1
        for factor in unit:
            if not isinstance(factor, (int, float)) and len(factor) != channels:
                raise UserError(
                    f"a normalisation with {len(factor)} channels does not fit samples of {list(self.shape)}"
                )
        axes = (-1, *(1 for _ in self.shape[1:])) if len(self.shape) > 2 else (1,)
        pair = [
            torch.tensor([factor] if isinstance(factor, (int, float)) else factor, dtype=torch.float64).view(axes)
            for factor in unit
        ]
        return {dtype: [factor.to(self.device, dtype) for factor in pair] for dtype in (torch.float32, torch.float64)}

    def heterogeneity(self) -> float:
        """The mean total-variation distance between a client's label distribution and the pooled one, in [0, 1]."""
        return heterogeneity(self._all_counts())

    def _all_counts(self) -> np.ndarray:
        """Samples of each client and class in all splits together, int64 [N, C]."""
        return sum(self.counts(split) for split in self.rows).numpy()

    def __repr__(self) -> str:
        train, test = self.sizes("train"), self.sizes("test")
        idle = int((train == 0).sum())
        return (
            f"Federation({self.name or 'unnamed'}: {self.clients} clients, {self.classes} classes, "
            f"{train.sum()} training samples ({train.min()}..{train.max()} a client), {test.sum()} test samples"
            f"{f'; clients without training samples: {idle}' if idle else ''})"
        )

    def _repr_html_(self) -> str:
        names = {"train": "training", "valid": "validation", "test": "test"}
        sizes = {names[split]: self.sizes(split) for split in names if split in self.rows}
        return counts_html(self.name or "unnamed", self._all_counts(), sizes)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Bubbles of samples per client and class, all splits together; the area is proportional to the samples."""
        return plot_counts(self._all_counts(), ax, self.name)


def _placed(device: str | torch.device) -> torch.device:
    """A device by its name, `auto` too; PyTorch's own is taken as it is, for a check on `meta`, which holds no numbers."""
    return device if isinstance(device, torch.device) else torch.device(resolve_device(device))
