"""FedRoD (Chen and Chao, ICLR 2022): a generic head by balanced softmax, a personal head on top of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pflrepro.algorithms.contract import Method, cross_entropy
from pflrepro.algorithms.phases import Part
from pflrepro.algorithms.task import Context, Setup
from pflrepro.trees import Tree

_ABSENT = -1e9  # stands for log 0: its softmax share is 0, and it is finite


@dataclass(frozen=True)
class FedRoD(Method):
    """FedRoD: base and generic head psi learn a class-balanced task, the personal head h_i what the client's classes add to it.

        base and generic head: l_g = CE(psi(z) + log n_i, y)
        personal head: l_p = CE(sg(psi(z)) + h_i(sg(z)), y)

    n_i [C]: the client's class counts. h_i starts as a copy of psi [LIB] and stays at home. Their parameters do not meet, so that one
    step on l_g + l_p is both steps from the same z. Base and psi are averaged with p_i. Mean regularisation acts on l_g alone, the
    only loss that trains the base [inferred]. Tested: psi(z) + h_i(z) with the received base and psi.
    """

    def layout(self, setup: Setup) -> dict[str, Part]:
        parts = super().layout(setup)
        return parts | {"personal_head": replace(parts["head"], kind="personal")}

    def forward(self, params: Tree, x: Tensor, ctx: Context) -> Tree:
        """As everywhere, with `added` [B, C], the scores of the personal head, from features that carry no gradient."""
        out = super().forward(params, x, ctx)
        features = self.embed(params, out.z, ctx).detach()
        training, statistics = ctx.training and ctx.trains("personal_head"), ctx.buffers.get("personal_head", Tree())
        added, after = ctx.task.head(params.personal_head, statistics, features, training, ctx.key)
        return out | Tree(added=added, buffers=Tree(personal_head=after) if after else Tree())

    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        out = self.forward(params, batch.x, ctx)
        generic = cross_entropy(out.logits + log_counts(ctx.info.counts, out.logits.dtype), batch)
        own = cross_entropy(out.logits.detach() + out.added, batch)
        return generic + own, out | Tree(fit=own)

    def predict(self, params: Tree, x: Tensor, ctx: Context) -> Tensor:
        out = self.forward(params, x, ctx)
        return out.logits + out.added


def log_counts(counts: Tensor, dtype: torch.dtype) -> Tensor:
    """log n_c [C], -1e9 for a class without samples."""
    return torch.where(counts > 0, counts.to(dtype).clamp(min=1).log(), _ABSENT)
