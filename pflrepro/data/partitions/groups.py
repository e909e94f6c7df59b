"""Partitions by the groups of a data set: writers, patients, users, domains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from pflrepro.checked import AtLeastOne
from pflrepro.data.partitions.kind import Data, Spec
from pflrepro.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, repr=False)
class Group(Spec):
    """One client a group of the data set (writer, patient, user, domain) of at least LEAST samples; a group of one sample has nothing
    to train on: it is refused, and left out by group:2.

    Clients come in the order of the group numbers; smaller groups are left out, and so are their samples.
    """

    kind: ClassVar[str] = "group"
    numbers: ClassVar[tuple[str, ...]] = ("LEAST",)
    own_minimum: ClassVar[bool] = True
    counted: ClassVar[bool] = True
    least: AtLeastOne = 1

    @property
    def value(self) -> str:
        return "" if self.least == 1 else str(self.least)

    @classmethod
    def help(cls) -> str:
        return f"{cls.kind} or {super().help()}"

    def owners(self, data: Data) -> tuple[Tensor, int, Tensor | None]:
        import torch

        from pflrepro.data.partitions.rows import numbered

        group, found = numbered(str(self), data.labels, data.groups)
        large = torch.bincount(group, minlength=found) >= self.least
        if not large.any():
            raise UserError(f"partition '{self}': no group has {self.least:,} samples")
        place = torch.where(large, large.cumsum(0) - 1, -1)
        return place[group], int(large.sum()), None

    def without_smaller(self, least: int) -> str:
        return f"{self.kind}:{least} leaves such groups out, and "


@dataclass(frozen=True, repr=False)
class GroupClasses(Spec):
    """K clients a group, each a block of consecutive classes (PACS: 2, classes 0-3 and 4-6).

    The first blocks are larger by one where the classes do not divide evenly [BR, PACS: 2 blocks].
    """

    kind: ClassVar[str] = "group-classes"
    numbers: ClassVar[tuple[str, ...]] = ("K",)
    own_minimum: ClassVar[bool] = True
    counted: ClassVar[bool] = True
    parts: AtLeastOne

    def owners(self, data: Data) -> tuple[Tensor, int, Tensor | None]:
        import torch

        from pflrepro.data.partitions.rows import numbered

        group, found = numbered(str(self), data.labels, data.groups)
        classes = int(data.labels.max()) + 1
        if self.parts > classes:
            raise UserError(f"K in {self.form()} must be <= {classes}, the number of classes, not {self.parts}")
        blocks = np.array_split(np.arange(classes), self.parts)
        block = torch.from_numpy(np.repeat(np.arange(self.parts), list(map(len, blocks)))).to(data.labels.device)
        return group * self.parts + block[data.labels], found * self.parts, None
