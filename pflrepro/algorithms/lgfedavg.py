"""LG-FedAvg (Liang et al., arXiv 2001.01523, 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.phases import Part, as_kind
from pflrepro.algorithms.task import Context, Setup
from pflrepro.trees import Tree


@dataclass(frozen=True)
class LGFedAvg(Method):
    """LG-FedAvg: the mirror image of FedPer; the base stays at home, the head is shared, both train together.

        psi^{t+1} = (1/m) sum_i psi_i [off]

    All bases start from the common initial model. Global is the network's `head`, its last linear layer or the classifier block that
    the network names so; the reference shares the last two or three layers.
    Tested: the own base with the received head; after local training with the own head, where it fits better [inferred: GRP-FED].
    """

    def layout(self, setup: Setup) -> dict[str, Part]:
        return as_kind(super().layout(setup), "personal", "base")

    def aggregate(self, server: Tree, uploads: Tree, cohort: Tree, ctx: Context) -> Tree:
        return Tree(params=uploads.params.mix(torch.full_like(cohort.p, 1 / len(cohort.p))))
