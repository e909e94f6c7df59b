"""FedPAC (Xu et al., ICLR 2023): features aligned to global centroids, heads combined by a quadratic programme."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from pflrepro.algorithms.contract import Method, mean, one_hot
from pflrepro.algorithms.phases import Clock, Phase
from pflrepro.algorithms.simplex import minimise
from pflrepro.algorithms.task import Context, Setup
from pflrepro.checked import Count, NonNegative
from pflrepro.trees import Tree, repeat

SMALLEST = 1e-3  # mixture weights below are set to 0 and the rest scaled up [off]


@dataclass(frozen=True)
class FedPAC(Method):
    """FedPAC: the base is aligned to the global class centroids c_k, and every client's head is a mixture of the cohort's.

        head: psi_i <- SGD_psi l_i(phi^t, psi)
        base: CE + alignment (1/K) mean_b(|z_b - c_{y_b}|^2)
        h_i = (pi_k mu_k)_k, V_i = (1/n_i) sum_k (pi_k E_k|z|^2 - pi_k^2 |mu_k|^2)
        server: phi = sum_i p_i phi_i, c_k = sum_i n_ik mu_ik / sum_i n_ik
        server: psi_i <- sum_j a_ij psi_j, a_i = argmin_a(|h_i - sum_j a_j h_j|^2 + sum_j a_j^2 V_j)

    Class shares pi_k = n_ik / n_i, means mu_k, h_i [C, K] and the variance V_i are taken with the received phi; then the head alone is
    trained, then the base alone, aligned from the second round on (to mu_y where nobody had class y in the round before); then the new
    means mu_ik with the trained base. a_i lies in the simplex, weights below 0.001 are set to 0 [off]. After the last round heads are
    not combined: every client is tested with the head it trained itself [inferred: a branch of the official code, never reached there].
    Tested: the received base with the own head as the server combined it.

    Attributes:
        alignment: lambda; 1 [off], tuned in {0.1, 0.5, 1, 5, 10} for pFedFDA's tables [FDA]. A distance summed over the K
            features would need lambda / K.
        head_passes, head_rate: the head phase, 1 epoch at rate 0.1 [FDA, off]; the platform takes the run's rate.
    """

    gathers: ClassVar[dict[str, str]] = {"server/centroids": "means of features", "server/present": "classes seen"}

    alignment: NonNegative = 1.0
    head_passes: Count = 1
    head_rate: NonNegative = 0.1

    @property
    def knows_rounds(self) -> bool:
        return True  # the last one

    # ---- state: the server keeps a head a client -----------------------------------------------------------------------------
    def init_server(self, setup: Setup) -> Tree:
        params = super().init_server(setup).params
        return Tree(
            params=params.without(["head"]),
            heads=repeat(params.head, setup.clients),
            centroids=setup.zeros(setup.classes, setup.features),
            present=setup.zeros(setup.classes),
        )

    def send(self, server: Tree, cohort: Tree) -> tuple[Tree, Tree]:
        return server.only(["params", "centroids", "present"]), Tree(params=Tree(head=server.heads[cohort.id]))

    # ---- the round of a client -----------------------------------------------------------------------------------------------
    def phases(self, clock: Clock) -> list[Phase]:
        return [
            Phase("statistics", scan=True),
            Phase(
                "head", train=("head",), passes=self.head_passes, rate={"head": self.head_rate}, stream="clients/head"
            ),
            Phase("base", train=("base",)),
            Phase("centroids", scan=True),
        ]

    def observe(self, local: Tree, batch: Tree, ctx: Context) -> Tree:
        z = self.forward(local.params, batch.x, ctx).z
        members = one_hot(batch.y, ctx.task.classes, z.dtype) * batch.mask[:, None]
        return Tree(z=members.T @ z, squares=members.T @ (z * z).sum(1))

    def leave(self, local: Tree, sums: Tree, ctx: Context) -> Tree:
        if not ctx.phase.scan:
            return Tree()
        n, total = ctx.info.counts.to(sums.z.dtype), ctx.info.n.clamp(min=1)
        mu = sums.z / n.clamp(min=1)[:, None]
        if ctx.phase.name == "centroids":
            return Tree(mu=mu)
        pi = n / total
        variance = (sums.squares / total - pi**2 * (mu**2).sum(1)).sum() / total  # pi_k E_k|z|^2 = (sum |z|^2) / n_i
        return Tree(mu=mu, h=pi[:, None] * mu, V=variance)

    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        value, out = super().loss(params, local, batch, ctx)
        if ctx.phase.name != "base":
            return value, out
        present = ctx.common.present
        target = torch.where(present[:, None] > 0, ctx.common.centroids, local.mu)[batch.y]
        started = present.max()  # 0 in the first round, when no centroid exists, 1 afterwards
        return value + started * self.alignment * mean((out.z - target) ** 2, batch).mean(), out

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        kept, upload = super().finish(local, client, ctx)
        return kept, upload | local.only(["mu", "h", "V"])

    # ---- the server ----------------------------------------------------------------------------------------------------------
    def aggregate(self, server: Tree, uploads: Tree, cohort: Tree, ctx: Context) -> Tree:
        heads = uploads.params.head
        if not ctx.clock.last:
            heads = heads.mix(self.mixture(uploads.h, uploads.V, cohort.n))
        n = cohort.counts.to(uploads.mu.dtype)
        totals = n.sum(0)
        return Tree(
            params=uploads.params.without(["head"]).mix(cohort.p),
            heads=server.heads.put(cohort.id, heads),
            centroids=torch.einsum("ik,ikf->kf", n, uploads.mu) / totals.clamp(min=1)[:, None],
            present=(totals > 0).to(n.dtype),
        )

    def mixture(self, h: Tensor, variance: Tensor, n: Tensor) -> Tensor:
        """The mixture weights a [m, m] from h [m, C, K] and V [m]; clients without samples (n = 0) have nothing to give.

        Where nobody has, all keep their heads.
        """
        rows, givers = h.flatten(1).double().cpu().numpy(), np.flatnonzero(n.cpu().numpy() > 0)
        if not len(givers):
            return torch.eye(len(rows), dtype=h.dtype, device=h.device)
        noise = np.diag(variance.double().cpu().numpy()[givers])
        weights = np.zeros((len(rows), len(rows)))
        for i, row in enumerate(rows):
            away = row - rows[givers]
            weights[i, givers] = minimise(away @ away.T + noise)
        weights[weights < np.minimum(SMALLEST, weights.max(1, keepdims=True))] = 0
        return torch.as_tensor(weights / weights.sum(1, keepdims=True), dtype=h.dtype, device=h.device)
