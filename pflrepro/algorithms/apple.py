"""APPLE (Luo and Wu, IJCAI 2022): every client learns how to mix the core models of all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.phases import Clock, Part, Phase
from pflrepro.algorithms.task import Context, Setup, Task
from pflrepro.errors import UserError, check_range, check_words
from pflrepro.trees import Tree, repeat, stack

EPSILON = 1e-3  # base of the exponential scheduler [off]


@dataclass(frozen=True)
class Apple(Method):
    """APPLE: w_i^p = sum_j p_ij w_j^c; client i learns its own core w_i^c and its weights p_i in R^N, all other cores fixed.

    min over w_i^c, p_i of l_i(w_i^p) + lambda(r) (mu / 2) |p_i - p^0|^2, p^0_j = n_j / n. One gradient g of l_i at w_i^p gives
    both steps: w_i^c <- w_i^c - eta p_ii g, p_ij <- p_ij - eta_2 (<g, w_j^c> + lambda(r) mu (p_ij - p^0_j)).
    lambda(r) = epsilon^(r/L) or (1 + cos(pi r/L)) / 2, 0 from round r = L on. Uploaded is the core. The method supposes that
    everybody takes part; the core of an absent client stays as it last was. Batch-norm statistics stay with the client.
    Tested: the mixture, before local training with the cores received, after it with the own core as trained [off: after].

    The platform's variant: start=uniform, core_rate=clients, upload=mixture, scheduler=cosine, horizon=1, weight_rate=0, mu=0,
    slope=mean. There later clients see cores of the same round, here all train side by side.

    Attributes:
        weight_rate: eta_2; 0.001 [off]; 0 by default on the platform.
        mu: 0.1 [off], whose code has no factor 1/2, so that 0.2 here gives its steps.
        scheduler: `exponential` [off] or `cosine`.
        horizon: L as a share of the rounds; 0.1 [off], 1 on the platform.
        start: p_i starts at p^0, `sizes` [off], or at 1/N, `uniform` [LIB].
        first_cores: before round 0 `equal` (recommended), or each client's drawn by itself, `own` [off], whose average is a poor
            network; groups beside base and head start equal.
        core_rate: eta is the rate of the `run`, or that times the number of `clients` [LIB].
        upload: the `core` [off], or a copy of the `mixture` [LIB], which is then also what is tested before training.
        slope: of l_i by p_ij: the inner `product` <g, w_j^c> [off], or the `mean` of g w_j^c over the entries of each weight and
            bias, then over these [LIB].
    """

    weight_rate: float = 1e-3
    mu: float = 0.1
    scheduler: str = "exponential"
    horizon: float = 0.1
    start: str = "sizes"
    first_cores: str = "equal"
    core_rate: str = "run"
    upload: str = "core"
    slope: str = "product"
    server_store: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("APPLE's weight_rate", self.weight_rate, 0)
        check_range("APPLE's mu", self.mu, 0)
        check_range("APPLE's horizon", self.horizon, 0, 1)
        check_words(self, "APPLE", _WORDS)

    @property
    def knows_rounds(self) -> bool:
        return self.horizon > 0 or super().knows_rounds

    # ---- state ---------------------------------------------------------------------------------------------------------------
    def layout(self, setup: Setup) -> dict[str, Part]:
        p0 = self.sizes(setup, setup.dtype)
        p = p0 if self.start == "sizes" else torch.full_like(p0, 1 / setup.clients)
        return super().layout(setup) | {"weights": Part("personal", Tree(p=p))}

    def init_server(self, setup: Setup) -> Tree:
        cores = repeat(super().init_server(setup).params, setup.clients)
        if self.first_cores == "own":
            drawn = stack([setup.network(f"apple/core{j}") for j in range(setup.clients)])
            if [leaf.shape for leaf in drawn.leaves()] != [leaf.shape for leaf in cores.only(drawn).leaves()]:
                raise UserError("APPLE's first_cores=own needs a network whose head no plug-in has changed: use equal")
            cores = cores | drawn
        return Tree(params=Tree(), cores=cores, strength=setup.zeros() + float(self.horizon > 0))

    def sizes(self, task: Task, dtype: torch.dtype) -> Tensor:
        """p^0_j = n_j / n, [N]."""
        return task.info.n.to(dtype) / task.info.n.sum()

    def strength(self, t: int, rounds: int) -> float:
        """lambda(t), the loss scheduler of a run of `rounds` rounds."""
        horizon = self.horizon * rounds
        if t >= horizon:
            return 0.0
        return (
            EPSILON ** (t / horizon) if self.scheduler == "exponential" else (1 + math.cos(math.pi * t / horizon)) / 2
        )

    def send(self, server: Tree, cohort: Tree) -> tuple[Tree, Tree]:
        return server, Tree()

    # ---- one client ----------------------------------------------------------------------------------------------------------
    def phases(self, clock: Clock) -> list[Phase]:
        return [Phase(rate={"weights": self.weight_rate}, decay={"weights": 0.0})]

    def model(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        if self.upload == "mixture":
            return common.cores[ctx.info.id]
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
        factor = g
        if self.slope == "mean":
            leaves = len(list(g.leaves()))
            factor = g.map(lambda leaf: leaf / (leaf.numel() * leaves))
        slopes = torch.where(own, factor.dot(params.only(g)), ctx.common.cores.only(g).project(factor))
        pull = self.mu * ctx.common.strength * (p - self.sizes(ctx.task, p.dtype))
        return grads | g * p[ctx.info.id] | Tree(weights=grads.weights + Tree(p=slopes + pull)), local

    def correct(self, grads: Tree, local: Tree, ctx: Context) -> Tree:
        if self.core_rate == "run":
            return grads
        return grads | grads.without(["weights"]) * float(ctx.task.clients)

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        kept, core = super().finish(local, client, ctx)
        return kept, core if self.upload == "core" else Tree(params=self.mixture(local.params, ctx))

    def trained(self, local: Tree, ctx: Context) -> Tree:
        return self.mixture(local.params, ctx)

    # ---- the server ----------------------------------------------------------------------------------------------------------
    def aggregate(self, server: Tree, uploads: Tree, cohort: Tree, ctx: Context) -> Tree:
        strength = torch.full_like(server.strength, self.strength(ctx.clock.t + 1, ctx.clock.rounds))
        return Tree(cores=server.cores.put(cohort.id, uploads.params), strength=strength)


_WORDS = {
    "scheduler": ("exponential", "cosine"),
    "start": ("sizes", "uniform"),
    "first_cores": ("equal", "own"),
    "core_rate": ("run", "clients"),
    "upload": ("core", "mixture"),
    "slope": ("product", "mean"),
}
