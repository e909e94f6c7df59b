"""GRP-FED (Chou et al., 2021): a fair global model, and personal extractors that a discriminator keeps near its features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pflrepro.algorithms.contract import Method, mean
from pflrepro.algorithms.phases import Part
from pflrepro.algorithms.task import Context, Setup
from pflrepro.checked import Count, NonNegative, Share
from pflrepro.models.layers import perceptron
from pflrepro.trees import Tree


@dataclass(frozen=True)
class GRPFED(Method):
    """GRP-FED: a fair average of F^g and C, and beside it a personal extractor F_m^l that a discriminator D_m keeps near it.

        F^g, C: L^g = J(C(F^g(x)), y) (Eq. 1)
        F_m^l: beta J(C(F_m^l(x)), y) + (1 - beta) L_R, L_R = log(1 - D_m(f^l)) (Eqs. 4, 5)
        D_m: L_D = -log D_m(f^g) - log(1 - D_m(f^l))
        server: q <- max(0, q + q_step (sigma - sigma_old) / ((sigma + sigma_old) / 2)) (Eq. 2)
        server: theta <- sum_m lambda_m theta_m, lambda_m = L_m^q / sum_j L_j^q (Eq. 3)

    Every batch takes the first three steps in this order. In the second C is as the first left it and D_m is fixed; in the third D_m,
    the probability that a feature is the global extractor's, has f^g of the extractor as received, both extractors fixed. (The printed
    L_D, log(1 - D(f^g)) + log D(f^l), has no lower bound; both pull the same way.) Momentum is the run's, fresh every round, kept
    apart for each of the three. sigma is the standard deviation of the cohort's losses; q is unchanged in the first round [inferred].
    lambda_m is without sizes, over the cohort [inferred]. L_m is the mean of L^g over the batches of the last local epoch, before
    their steps; 0 for a client without a batch.
    Start: F_m^l is the common initial extractor, D_m one draw for all. Tested: C(F_m^l(x)), C as received; the global model is what
    the server has.

    Attributes:
        q0, q_step: start of q and eta_q; 10, 0.5 [GRP 4.1].
        beta: weight of the local loss; 0.5 [GRP 4.3]. 1: no regulariser.
        discriminator_width: hidden width of D_m: K -> width -> 1 with ReLU; 0: K ("two-layer" [GRP 4.1], width not given [?]).
    """

    gathers: ClassVar[dict[str, str]] = {
        "server/q": "the power",
        "server/spread": "the spread of the losses",
        "server/started": "whether a round has been closed",
    }
    trees: ClassVar[tuple[str, ...]] = ("params", "personal")
    roles: ClassVar[tuple[str, ...]] = ("shared", "personal")
    recorded: ClassVar[str] = "shared"  # L^g, the loss that its server and its Figure 3 go by
    revision: ClassVar[int] = 2

    q0: NonNegative = 10.0
    q_step: NonNegative = 0.5
    beta: Share = 0.5
    discriminator_width: Count = 0

    # ---- state ---------------------------------------------------------------------------------------------------------------
    def layout(self, setup: Setup) -> dict[str, Part]:
        k = setup.features
        width = self.discriminator_width or k
        first = setup.module("grpfed/first", lambda: nn.Linear(k, width))
        second = setup.module("grpfed/second", lambda: nn.Linear(width, 1))
        layers = {f"first.{leaf}": value for leaf, value in first.items()}
        layers |= {f"second.{leaf}": value for leaf, value in second.items()}
        return super().layout(setup) | {"discriminator": Part("personal", Tree(layers))}

    def init_server(self, setup: Setup) -> Tree:
        zero = setup.zeros()
        return super().init_server(setup) | Tree(q=zero + self.q0, spread=zero, started=zero)

    def init_client(self, setup: Setup, info: Tree) -> Tree:
        client = super().init_client(setup, info)
        personal = Tree(base=setup.parts["base"].params, discriminator=client.params.discriminator)
        return client.without(["params"]) | Tree(personal=personal, params=client.params.without(["discriminator"]))

    # ---- one client ----------------------------------------------------------------------------------------------------------
    def model(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        return super().model(common, own, client, ctx) | client.personal.only(["base"])

    def begin(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        received, zero = ctx.pick(common.params, "shared"), torch.zeros_like(ctx.scalars.rate)
        local = super().begin(common, own, client, ctx)
        return local | Tree(
            params=local.params | received,
            personal=client.personal,
            report=Tree(loss=zero, of=zero, step=zero),
        )

    def step(self, local: Tree, batch: Tree, ctx: Context) -> Tree:
        grads, local = self.gradient(local.params, local, batch, ctx)
        local = local | ctx.descend(local, self.correct(grads, local, ctx))  # (1)
        grads, local = self.gradient(local.params | local.personal.only(["base"]), local, batch, ctx, role="personal")
        local = local | ctx.descend(local, grads.only(["base"]), "personal")  # (2)
        return local | ctx.descend(local, self.discriminate(local, batch, ctx), "personal")  # (3)

    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        """L^g, which is reported (role `shared`), or beta J + (1 - beta) L_R."""
        value, out = super().loss(params, local, batch, ctx)
        if ctx.role == "shared":
            return value, out | Tree(keep=Tree(report=self.record(value.detach(), local.report, ctx)))
        regulariser = mean(-F.softplus(self.logit(local.personal.discriminator, out.z)), batch)
        return self.beta * value + (1 - self.beta) * regulariser, out

    def logit(self, discriminator: Tree, z: Tensor) -> Tensor:
        """The logit of D(z), the probability that z [B, K] is of the global extractor: [B]."""
        return perceptron(discriminator, z).squeeze(-1)

    def discriminate(self, local: Tree, batch: Tree, ctx: Context) -> Tree:
        """The gradient of L_D by D_m. Norm layers use the batch, as in training, and keep nothing of these passes."""

        def features(params: Tree, role: str) -> Tensor:
            statistics = local.get("buffers", Tree()).get(role, Tree())
            return self.forward(params, batch.x, ctx.at(role=role, buffers=statistics, training=True)).z.detach()

        of_global = features(ctx.common.params, "shared")
        of_local = features(local.params | local.personal.only(["base"]), "personal")

        def objective(trained: Tree) -> tuple[Tensor, Tree]:
            g, s = (self.logit(trained.discriminator, z) for z in (of_global, of_local))
            return mean(F.softplus(-g) + F.softplus(s), batch), Tree()

        return ctx.differentiate(objective, local.personal.only(["discriminator"]))[0]

    def record(self, value: Tensor, report: Tree, ctx: Context) -> Tree:
        """The report (a sum of losses, of how many, batches so far) with one more batch, which counts in the last epoch."""
        step, steps = report.step + 1, ctx.steps.train
        taken = torch.where(step > steps - steps // max(1, ctx.task.local_epochs), torch.ones_like(report.of), 0.0)
        return Tree(loss=report.loss + taken * value, of=report.of + taken, step=step)

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        kept, upload = super().finish(local, client, ctx)
        reported = local.report.loss / local.report.of.clamp(min=1)
        return kept | local.only(["personal"]), upload | Tree(F=reported)

    def trained(self, local: Tree, ctx: Context) -> Tree:
        return super().trained(local, ctx) | local.personal.only(["base"])

    # ---- the server ----------------------------------------------------------------------------------------------------------
    def aggregate(self, server: Tree, uploads: Tree, cohort: Tree, ctx: Context) -> Tree:
        spread = uploads.F.std(correction=0)
        q = self.power(server, spread)
        weights = (q * (uploads.F + 1e-12).log()).softmax(0)  # lambda_m (Eq. 3) through logarithms
        return Tree(params=uploads.params.mix(weights), q=q, spread=spread, started=torch.ones_like(q))

    def power(self, server: Tree, spread: Tensor) -> Tensor:
        """The new q (Eq. 2)."""
        middle = ((spread + server.spread) / 2).clamp(min=torch.finfo(spread.dtype).tiny)
        moved = (server.q + self.q_step * (spread - server.spread) / middle).clamp(min=0)
        return torch.where(server.started > 0, moved, server.q)
