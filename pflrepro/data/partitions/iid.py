"""Samples in random order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pflrepro.data.partitions.kind import Data, Spec

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, repr=False)
class Iid(Spec):
    """Equal numbers of randomly drawn samples a client (they differ by one at most)."""

    kind: ClassVar[str] = "iid"

    def owners(self, data: Data) -> tuple[Tensor, int, Tensor | None]:
        import torch

        from pflrepro.data.partitions.rows import shuffled

        clients, samples = self.possible(data), len(data.labels)
        client = torch.empty_like(data.labels)
        place = torch.arange(samples, device=data.labels.device)
        client[shuffled(samples, "partition/order", data.seed, data.labels.device)] = place * clients // samples
        return client, clients, None
