"""APPLE (Luo and Wu, IJCAI 2022): every client learns how to mix the core models of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.phases import Clock, Part, Phase
from pflrepro.algorithms.task import Context, Setup, Task
from pflrepro.checked import NonNegative, Share
from pflrepro.trees import Tree, repeat

EPSILON = 1e-3  # base of the scheduler [off]


@dataclass(frozen=True)
class Apple(Method):
    """APPLE: every client learns a core model and how to mix the cores of all clients; only the cores are exchanged.

        w_i^p = sum_j p_ij w_j^c, p^0_j = n_j / n
        min_{w_i^c, p_i} l_i(w_i^p) + lambda(r) (mu/2) |p_i - p^0|^2
        w_i^c <- w_i^c - eta p_ii g, p_ij <- p_ij - eta_2 (<g, w_j^c> + lambda(r) mu (p_ij - p^0_j))

    One gradient g of l_i at w_i^p gives both steps; all other cores are fixed. lambda(r) = 0.001^(r/L), 0 from round r = L on [off].
    p_i starts at p^0 [off], all cores as the common initial model (drawn each by itself [off], their average would be a poor network).
    Uploaded is the core. The method supposes that everybody takes part; the core of an absent client stays as it last was. Batch-norm
    statistics stay with the client.
    Tested: the mixture, before local training with the cores received, after it with the own core as trained [off: after].

    Attributes:
        weight_rate: eta_2; 0.001 [off].
        mu: 0.1 [off], whose code has no factor 1/2, so that 0.2 here gives its steps.
        horizon: L as a share of the rounds; 0.1 [off].
    """

    gathers: ClassVar[dict[str, str]] = {"server/strength": "the weight of the loss scheduler"}
    server_store: ClassVar[bool] = True

    weight_rate: NonNegative = 1e-3
    mu: NonNegative = 0.1
    horizon: Share = 0.1

    @property
    def knows_rounds(self) -> bool:
        return self.horizon > 0 or super().knows_rounds

    # ---- state ---------------------------------------------------------------------------------------------------------------
    def layout(self, setup: Setup) -> dict[str, Part]:
        return super().layout(setup) | {"weights": Part("personal", Tree(p=self.sizes(setup, setup.dtype)))}

    def init_server(self, setup: Setup) -> Tree:
        cores = repeat(super().init_server(setup).params, setup.clients)
        return Tree(params=Tree(), cores=cores, strength=setup.zeros() + float(self.horizon > 0))

    def sizes(self, task: Task, dtype: torch.dtype) -> Tensor:
        """p^0_j = n_j / n, [N]."""
        return task.info.n.to(dtype) / task.info.n.sum()

    def strength(self, t: int, rounds: int) -> float:
        """lambda(t), the loss scheduler of a run of `rounds` rounds."""
        horizon = self.horizon * rounds
        return EPSILON ** (t / horizon) if t < horizon else 0.0

    def send(self, server: Tree, cohort: Tree) -> tuple[Tree, Tree]:
        return server, Tree()

    # ---- one client ----------------------------------------------------------------------------------------------------------
    def phases(self, clock: Clock) -> list[Phase]:
        return [Phase(rate={"weights": self.weight_rate}, decay={"weights": 0.0})]

    def model(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        return common.cores.mix(client.params.weights.p)

    def begin(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        return Tree(params=common.cores[ctx.info.id] | client.params)

    def mixture(self, params: Tree, ctx: Context) -> Tree:
        """w_i^p from the own core and weights in `params` and the cores of the others as received."""
        p = params.weights.p
        own = (torch.arange(len(p), device=p.device) == ctx.info.id).to(p.dtype)
        others, share = ctx.common.cores.mix(p * (1 - own)), (p * own).sum()
        # one operation, which also keeps the memory order of the weights
        return others.map(lambda other, mine: torch.addcmul(other, mine, share), params.only(others))

    def gradient(self, params: Tree, local: Tree, batch: Tree, ctx: Context, role: str = "shared") -> tuple[Tree, Tree]:
        """Both gradients from one at the mixture: p_ii g, and <g, w_j^c> + lambda(r) mu (p_ij - p^0_j)."""
        mixture = self.mixture(params, ctx)
        grads, local = super().gradient(params | mixture, local, batch, ctx, role)
        g, p = grads.only(mixture), params.weights.p
        own = torch.arange(len(p), device=p.device) == ctx.info.id
        slopes = torch.where(own, g.dot(params.only(g)), ctx.common.cores.only(g).project(g))
        pull = self.mu * ctx.common.strength * (p - self.sizes(ctx.task, p.dtype))
        return grads | g * p[ctx.info.id] | Tree(weights=grads.weights + Tree(p=slopes + pull)), local

    def trained(self, local: Tree, ctx: Context) -> Tree:
        return self.mixture(local.params, ctx)

    # ---- the server ----------------------------------------------------------------------------------------------------------
    def aggregate(self, server: Tree, uploads: Tree, cohort: Tree, ctx: Context) -> Tree:
        strength = torch.full_like(server.strength, self.strength(ctx.clock.t + 1, ctx.clock.rounds))
        return Tree(cores=server.cores.put(cohort.id, uploads.params), strength=strength)
