"""SCAFFOLD (Karimireddy et al., ICML 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.momentum import effective_steps
from pflrepro.algorithms.task import Context, Setup
from pflrepro.checked import Positive
from pflrepro.trees import Tree, select


@dataclass(frozen=True)
class Scaffold(Method):
    """SCAFFOLD: each client corrects its gradient by the difference of a global and an own control variate.

        client: y <- y - eta (g(y) - c_i + c)
        client: c_i^+ = c_i - c + (w^t - y) / (T_i eta)
        server: w^{t+1} = w^t + eta_g (1/m) sum_{i in S_t} (y_i - w^t)
        server: c <- c + (1/N) sum_{i in S_t} (c_i^+ - c_i)

    For the shared groups; a client takes T_i steps from y = w^t. The second line is the paper's option II [LIB; inferred for DBE: same
    authors, same platform]. No sum is weighted [LIB; the theory's]. All control variates start at 0, and c_i stays as it is while its
    client is absent, or takes no step. With client momentum rho, w^t - y is no longer eta times the sum of T gradients; T is then
    replaced by the number of `momentum.effective_steps`, exact for a constant gradient [FedNTD repository]. Tested: the global model.

    Attributes:
        server_rate: eta_g; 1.0 [LIB].
    """

    server_rate: Positive = 1.0

    # ---- state -------------------------------------------------------------------------------------------------------------
    def init_server(self, setup: Setup) -> Tree:
        return super().init_server(setup) | Tree(control=setup.pick("shared").map(torch.zeros_like))

    def init_client(self, setup: Setup, info: Tree) -> Tree:
        return super().init_client(setup, info) | Tree(control=setup.pick("shared").map(torch.zeros_like))

    def send(self, server: Tree, cohort: Tree) -> tuple[Tree, Tree]:
        common, own = super().send(server, cohort)
        return common | server.only(["control"]), own

    # ---- one client --------------------------------------------------------------------------------------------------------
    def correct(self, grads: Tree, local: Tree, ctx: Context) -> Tree:
        grads = super().correct(grads, local, ctx)
        difference = ctx.common.control - ctx.client.control
        return grads | (grads.only(difference) + difference.only(grads))

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        kept, _ = super().finish(local, client, ctx)
        shared = ctx.pick(local.params, "shared")
        change = shared - ctx.common.params.only(shared)
        moves = (ctx.steps.train > 0) & (ctx.scalars.rate > 0)
        steps = effective_steps(ctx.steps.train, ctx.task.momentum, ctx.scalars.rate)
        length = torch.where(moves, steps * ctx.scalars.rate, 1.0)
        control = select(moves, client.control - ctx.common.control - change / length, client.control)
        return kept | Tree(control=control), Tree(change=change, control_change=control - client.control)

    # ---- the server --------------------------------------------------------------------------------------------------------
    def aggregate(self, server: Tree, uploads: Tree, cohort: Tree, ctx: Context) -> Tree:
        each = torch.ones_like(cohort.p)
        params = server.params.only(server.control) + self.server_rate * uploads.change.mix(each / len(each))
        control = server.control + uploads.control_change.mix(each / cohort.N)
        return Tree(params=params, control=control)
