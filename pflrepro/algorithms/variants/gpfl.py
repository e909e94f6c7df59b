"""GPFL without one of its parts: the rows of its Table 6.

What takes a part's place is not printed [inferred]; without both valve and embeddings GPFL is FedPer.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from pflrepro.algorithms.gpfl import GPFL, CategoryEmbeddings, ConditionalValve
from pflrepro.errors import UserError
from pflrepro.trees import Tree


@dataclass(frozen=True)
class WithoutPCI(ConditionalValve, CategoryEmbeddings):
    """GPFL without personalised conditional input: p = (1..1) and g = (0..0) for all clients.

    They must differ, or the two routes would be one [inferred].
    """


@dataclass(frozen=True)
class WithoutCoV(CategoryEmbeddings):
    """GPFL without the conditional valve: f^G = f^P = f, both guidances kept [GPFL section 5]."""


@dataclass(frozen=True)
class WithoutMLG(GPFL):
    """GPFL without the magnitude guidance L_mlg: that of `guidance` 0 [GPFL section 5]. `guidance` stays at its default."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.guidance != GPFL.guidance:
            raise UserError(
                f"guidance of gpfl/without-mlg must be left at {GPFL.guidance}, not {self.guidance}: there is nothing that it weighs"
            )

    def guide(self, guided: Tensor, embeddings: Tensor, received: Tensor, batch: Tree) -> Tensor:
        return self.angle(guided, embeddings, batch)


@dataclass(frozen=True)
class WithoutGCE(ConditionalValve):
    """GPFL without category embeddings: no guidance; the valve, trained and shared, with p = (1..1) [inferred]."""
