"""FedCM (Xu et al., arXiv 2106.10874, 2021): every local step also goes along the last round's global direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.momentum import effective_steps
from pflrepro.algorithms.task import Context, Setup
from pflrepro.checked import Between, Positive
from pflrepro.trees import Tree, select


@dataclass(frozen=True)
class FedCM(Method):
    """FedCM: every step is mixed with the direction in which all participants moved in the last round.

        client: v = alpha (g + decay w) + (1 - alpha) Delta_t, w <- w - eta v
        server: Delta_{t+1} = mean_{i in S_t}((w^t - w_i) / (eta T_i)), Delta_0 = 0
        server: w^{t+1} = w^t + server_rate (sum_i p_i w_i - w^t)

    For every shared group, with its own Delta. T_i: the steps taken; the last line is w^t - eta_g Delta_{t+1} with eta_g = server_rate
    eta T where all take T steps. The mean has weights p_i (paper: uniform, which is the same for equal sizes), without clients that
    took no step; if nobody took one, Delta stays. Tested: the global model.

    With the run's momentum rho, v is what the run's SGD is given, b <- rho b + v, w <- w - eta b; T_i is then replaced by the
    momentum-corrected number of steps, so that a constant v gives Delta = v (with T_i itself Delta grows without bound for rho >
    alpha) [inferred].

    Attributes:
        alpha: 0.1 [BR-code; recalled: the paper's]; not stated in FedBR. 1 is FedAvg. Not 0: with Delta_0 = 0
            nothing would ever move (in `fedcm/fedbr` the first round would, and every later one repeat it).
        server_rate: eta_g as a multiple of eta T; 1, plain averaging [BR-code].
    """

    alpha: Annotated[float, Between(0, 1, open_low=True)] = 0.1
    server_rate: Positive = 1.0

    def init_server(self, setup: Setup) -> Tree:
        return super().init_server(setup) | Tree(delta=setup.pick("shared").map(torch.zeros_like))

    def send(self, server: Tree, cohort: Tree) -> tuple[Tree, Tree]:
        common, own = super().send(server, cohort)
        return common | server.only(["delta"]), own

    # ---- one client --------------------------------------------------------------------------------------------------------
    def correct(self, grads: Tree, local: Tree, ctx: Context) -> Tree:
        """What makes the optimiser's step v: it adds decay w (and momentum) to this, which is to be mixed too."""
        grads = super().correct(grads, local, ctx)
        delta = ctx.common.delta.only(grads)
        mixed = grads.only(delta)
        full = Tree({name: value + self.added(name, local, ctx) for name, value in mixed.items()})
        return grads | (mixed + self.share(ctx) * (delta - full))

    def share(self, ctx: Context) -> Tensor | float:
        """What Delta has in a step."""
        return 1 - self.alpha

    def added(self, group: str, local: Tree, ctx: Context) -> Tree | float:
        """What the optimiser adds to the gradient of `group` that is to be mixed like it."""
        decays = ctx.scalars.decays
        return decays[group] * local.params[group] if group in decays else 0.0

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        kept, upload = super().finish(local, client, ctx)
        return kept, upload | Tree(length=ctx.scalars.rate * self.steps(ctx))  # eta T_i, 0 without a step

    def steps(self, ctx: Context) -> Tensor:
        """T_i, corrected for momentum."""
        return effective_steps(ctx.steps.train, ctx.task.momentum, ctx.scalars.rate)

    # ---- the server --------------------------------------------------------------------------------------------------------
    def aggregate(self, server: Tree, uploads: Tree, cohort: Tree, ctx: Context) -> Tree:
        moved = uploads.length > 0
        p = torch.where(moved, cohort.p, 0.0)
        weights = p / torch.where(moved, uploads.length, 1.0) / torch.where(p.sum() > 0, p.sum(), 1.0)

        def direction(old: Tensor, new: Tensor) -> Tensor:
            return torch.tensordot(weights.to(old.dtype), old - new, 1)

        delta = server.params.only(server.delta).map(direction, uploads.params.only(server.delta))
        mean = super().aggregate(server, uploads, cohort, ctx).params
        changed = Tree(params=server.params.only(mean).lerp(mean, self.server_rate))
        return changed | Tree(delta=select(p.sum() > 0, delta, server.delta))
