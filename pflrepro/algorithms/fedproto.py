"""FedProto (Tan et al., AAAI 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from pflrepro.algorithms.contract import Method, mean, one_hot
from pflrepro.algorithms.phases import Part, as_kind
from pflrepro.algorithms.task import Context, Setup
from pflrepro.checked import NonNegative
from pflrepro.trees import Tree

# How far a class without a prototype scores below the lowest that has one: never the answer, and no odd loss.
_BEHIND = 20.0


@dataclass(frozen=True)
class FedProto(Method):
    """FedProto: models stay at home, class prototypes c_k in R^K are exchanged.

        CE(f(x; w_i), y) + lambda mean_b((1/K) ||z_b - c_{y_b}||^2)
        server: c_k = (1/m_k) sum_{i: n_ik > 0} c_ik [off, LIB]

    A sample whose class has no prototype adds nothing to the second term. A client's prototype c_ik of class k is the mean of its
    features z of that class, all that are seen in the round's local training, each before the step of its batch [LIB]. The server's is
    the unweighted mean over the m_k participants that have class k; a class that none of them has keeps its last prototype [inferred].
    All clients must start from one model, else their features have nothing in common. Tested: the nearest prototype among all classes.
    Before the first aggregation there is none, all scores are equal and the answer is class 0 (PFLlib counts 0 there).

    Attributes:
        alignment: lambda; 1 [off, LIB]; GPFL's value is not printed [?].
    """

    gathers: ClassVar[dict[str, str]] = {"server/params/prototypes": "means of features"}

    alignment: NonNegative = 1.0

    # ---- state -------------------------------------------------------------------------------------------------------------
    def layout(self, setup: Setup) -> dict[str, Part]:
        none = Tree(c=setup.zeros(setup.classes, setup.features), has=setup.zeros(setup.classes))
        return as_kind(super().layout(setup), "personal") | {"prototypes": Part("frozen", none)}

    def begin(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        prototypes = common.params.prototypes
        working = Tree(sums=torch.zeros_like(prototypes.c), counts=torch.zeros_like(prototypes.has))
        return super().begin(common, own, client, ctx) | working

    # ---- one client --------------------------------------------------------------------------------------------------------
    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        value, out = super().loss(params, local, batch, ctx)
        c, has = params.prototypes.c[batch.y], params.prototypes.has[batch.y]
        value = value + self.alignment * mean(has * ((out.z - c) ** 2).mean(1), batch)
        return value, out | Tree(keep=local.only(["sums", "counts"]) + self.class_sums(out.z, batch, ctx))

    def class_sums(self, z: Tensor, batch: Tree, ctx: Context) -> Tree:
        """Sums [C, K] and counts [C] of the batch's features by class."""
        members = one_hot(batch.y, ctx.task.classes, z.dtype) * batch.mask[:, None]
        return Tree(sums=members.T @ z, counts=members.sum(0))

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        kept, _ = super().finish(local, client, ctx)
        means = local.sums / local.counts.clamp(min=1)[:, None]
        return kept, Tree(c=means, has=(local.counts > 0).to(means.dtype))

    # ---- the server, and the prediction ------------------------------------------------------------------------------------
    def aggregate(self, server: Tree, uploads: Tree, cohort: Tree, ctx: Context) -> Tree:
        old, count = server.params.prototypes, uploads.has.sum(0)
        means = (uploads.c * uploads.has[:, :, None]).sum(0) / count.clamp(min=1)[:, None]
        brought = count > 0
        new = Tree(c=torch.where(brought[:, None], means, old.c), has=torch.where(brought, 1.0, old.has))
        return Tree(params=Tree(prototypes=new))

    def predict(self, params: Tree, x: Tensor, ctx: Context) -> Tensor:
        z, c, has = self.forward(params, x, ctx).z, params.prototypes.c, params.prototypes.has
        # -(1/K) ||z - c||^2 without ||z||^2, which is the same for all classes of a sample
        nearness = (2 * z @ c.T - (c**2).sum(1)) / c.shape[1]
        there = has > 0
        lowest = torch.where(there, nearness, torch.inf).amin(1, keepdim=True)
        absent = torch.where(there.any(), lowest - _BEHIND, torch.zeros_like(lowest))
        return torch.where(there, nearness, absent)
