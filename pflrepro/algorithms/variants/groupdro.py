"""GroupDRO as FedBR's code runs it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pflrepro.algorithms.groupdro import GroupDRO
from pflrepro.algorithms.task import Context, Setup
from pflrepro.trees import Tree


@dataclass(frozen=True)
class FedBRGroupDRO(GroupDRO):
    """GroupDRO whose omega_i belong to places in the cohort, and whose momentum goes on from round to round, by place too.

    There a process works for whichever client it is assigned in a round, and keeps both [BR-code, always with Mixup, momentum 0.9].
    """

    def groups(self, cohort: Tree) -> Tensor:
        return cohort.slot

    # ---- momentum that outlives the round --------------------------------------------------------------------------------------
    def init_client(self, setup: Setup, info: Tree) -> Tree:
        client = super().init_client(setup, info)
        if not setup.momentum:
            return client
        still = setup.pick("shared", "personal").map(torch.zeros_like)
        return client | Tree(slot=Tree(momentum=Tree(params=still)))

    def begin(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        return super().begin(common, own, client, ctx) | client.get("slot", Tree()).only(["momentum"])

    def leave(self, local: Tree, sums: Tree, ctx: Context) -> Tree:
        changed = super().leave(local, sums, ctx)
        return changed | Tree(momentum=local.optimiser) if "optimiser" in local else changed

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        kept, upload = super().finish(local, client, ctx)
        slot = local.only(["momentum"])
        return kept | (Tree(slot=slot) if slot else Tree()), upload
