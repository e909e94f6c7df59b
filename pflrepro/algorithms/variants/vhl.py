"""VHL as FedBR's code ports it."""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from pflrepro.algorithms.phases import Draw, Part
from pflrepro.algorithms.task import Context, Setup
from pflrepro.algorithms.vhl import VHL
from pflrepro.checked import Count
from pflrepro.trees import Tree


@dataclass(frozen=True)
class FedBRVHL(VHL):
    """VHL without further outputs: virtual class c is real class c [BR-code].

    Logits are aligned in place of features, in all epochs; of a mixed batch (Mixup) the unmixed samples, which costs one more pass.
    The port lowers virtual labels by C although they were not raised, so that in L_align real samples attract real ones alone and are
    pushed from all virtual ones. A step's virtual batch is drawn once for all clients of the cohort.

    Attributes:
        align_epochs: 0, all [BR-code].
    """

    align_epochs: Count = 0

    def head(self, head: Part, setup: Setup) -> Part:
        return head

    def draw(self) -> Draw:
        return Draw("uniform", (self.virtual_batch,), common=True)

    def target(self, y: Tensor, ctx: Context) -> Tensor:
        return y

    def unit(self, out: Tree) -> Tensor:
        """What is aligned, of length 1: the logits [B, C]."""
        return F.normalize(out.logits, dim=1)

    def align(self, params: Tree, real: Tree, v: Tensor, y: Tensor, batch: Tree, ctx: Context) -> Tensor:
        if "unmixed" in batch:
            real, batch = self.forward(params, batch.unmixed, ctx), batch.without(["partner"])
        return super().align(params, real, v, -1 - y, batch, ctx)  # labels that no real sample has
