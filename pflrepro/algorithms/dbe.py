"""DBE (NeurIPS 2023): a personal bias between base and head, and mean regularisation of the features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from pflrepro.algorithms.contract import Method, mean
from pflrepro.algorithms.phases import Clock, Part, Phase
from pflrepro.algorithms.task import Context, Setup
from pflrepro.checked import NonNegative, Share
from pflrepro.errors import UserError
from pflrepro.models.layers import is_linear
from pflrepro.trees import Tree


@dataclass(frozen=True)
class PRBM(Method):
    """PRBM, personalised representation bias memory: a trainable vector of the client is added to the features.

        z = z^g + b_i

    b_i in R^K starts at 0 and never leaves the client. It is trained by the run's SGD, its momentum and decay included, from the same
    gradient as base and head [DBE-code]; where these train in turns (FedRep, FedPAC), in both turns [inferred]. What is tuned before a
    test is base and head alone in FedAvgFT and FedBABU, where the bias stays as it is; Per-FedAvg's adaptation takes the bias, too.
    """

    def layout(self, setup: Setup) -> dict[str, Part]:
        return super().layout(setup) | {"bias": Part("personal", Tree(b=setup.zeros(setup.features)))}

    def init_client(self, setup: Setup, info: Tree) -> Tree:
        _check_head(setup)
        return super().init_client(setup, info)

    def phases(self, clock: Clock) -> list[Phase]:
        return [phase.joined("bias", "base", "head") for phase in super().phases(clock)]

    def embed(self, params: Tree, z: Tensor, ctx: Context) -> Tensor:
        return super().embed(params, z, ctx) + params.bias.b


@dataclass(frozen=True)
class FeatureMeans(Method):
    """The initialisation period of MR: one round of plain training, of which only each client's mean of the features m_i is kept.

    m_i <- (1 - mu) m_i + mu mean_b z^g at every batch, from m_i = 0 [DBE-code]; at mu = 1 it ends as the last batch's mean.
    Server: zbar = sum_i p_i ((1 - q) m_i + e_i), e_i the client's noise. The trained parameters are discarded [DBE-code].
    A client without a batch, one with too few samples, uploads m_i = 0, which counts in the sum with its p_i, n_i / n, all the same.
    """

    running: Share = 1.0
    perturbation: Share = 0.0

    def begin(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        return super().begin(common, own, client, ctx) | Tree(r=ctx.scalars.rate.new_zeros(ctx.task.features))

    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        value, out = super().loss(params, local, batch, ctx)
        r = (1 - self.running) * local.r + self.running * mean(out.z, batch)
        return value, out | Tree(keep=Tree(r=r))

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        return Tree(), Tree(r=local.r)

    def aggregate(self, server: Tree, uploads: Tree, cohort: Tree, ctx: Context) -> Tree:
        zbar = (1 - self.perturbation) * uploads.mix(cohort.p).r
        # every client uploads once, so that of the noise only its weighted mean ever counts
        return Tree(zbar=zbar + cohort.p @ server.noise[cohort.id] if "noise" in server else zbar)


@dataclass(frozen=True)
class MR(Method):
    """MR, mean regularisation: a penalty keeps the mean of a client's features near the mean over all clients, zbar.

        L + kappa (1/K) sum_k (r_k - zbar_k)^2 / 2 [DBE-code]
        r <- (1 - mu) sg(r) + mu mean_b(z^g_b)

    On the parameters that are uploaded. Before round 0 each client trains for one round and sends m_i, the mean of its features, once;
    zbar = sum_i p_i m_i is fixed then (`FeatureMeans`), and goes to all. r is 0 at the start of each round. The gradient flows through
    the current batch's mean. The factor 1/2 is the released code's; the paper writes kappa * MSE. It acts where an uploaded base
    learns [DBE section 5.2.3, inferred]: not while the base is frozen (FedRep's head phase, which leaves r at 0 too), not on a copy
    that is tuned only to be tested (FedBABU), not on a personal model (Ditto, APFL).

    Attributes:
        kappa: 50 for the papers' CNN [DBE-code run script; recalled: paper C.2]; ResNet-18: 1, fastText: 0.1 [recalled].
        mr_momentum: mu; 1.0 for the papers' CNN [DBE-code run script], ResNet-18: 0.1, fastText: 1.0 [recalled].
        perturbation: q: m_i is uploaded as (1 - q) m_i + e [DBE Table 3, the formula from FedPCL's code]; 0: whole. Table 3: 0.2, then
            0.1 to 0.9 with s = 0.05 [recalled].
        mean_noise: s: e ~ N(0, s^2 I), drawn once a client; 0: none. Table 3: 0.05, then 0.05 to 5 with q = 0.2 [recalled].
    """

    gathers: ClassVar[dict[str, str]] = {"server/zbar": "the mean of the features"}

    kappa: NonNegative = 50.0
    mr_momentum: Share = 1.0
    perturbation: Share = 0.0
    mean_noise: NonNegative = 0.0

    def prologue(self) -> Method:
        return FeatureMeans(self.mr_momentum, self.perturbation)

    def init_server(self, setup: Setup) -> Tree:
        _check_head(setup)
        server = super().init_server(setup) | Tree(zbar=setup.zeros(setup.features))
        if not self.mean_noise:
            return server
        return server | Tree(noise=self.mean_noise * setup.normal("dbe/noise", setup.clients, setup.features))

    def send(self, server: Tree, cohort: Tree) -> tuple[Tree, Tree]:
        common, own = super().send(server, cohort)
        return common | server.only(["zbar"]), own

    def received(self, common: Tree, own: Tree) -> Tree:
        return super().received(common.without(["zbar"]), own)  # which came once, before the first round

    def begin(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        return super().begin(common, own, client, ctx) | Tree(r=torch.zeros_like(common.zbar))

    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        value, out = super().loss(params, local, batch, ctx)
        if not self.regularises(ctx):
            return value, out
        r = (1 - self.mr_momentum) * local.r + self.mr_momentum * mean(out.z, batch)
        penalty = 0.5 * ((r - ctx.common.zbar) ** 2).mean()
        return value + self.kappa * penalty, out | Tree(keep=Tree(r=r))

    def regularises(self, ctx: Context) -> bool:
        """Whether an uploaded base learns here."""
        adapting = ctx.phase is not None and ctx.phase.where == "adapt"
        return ctx.role == "shared" and not adapting and ctx.trains("base")


@dataclass(frozen=True)
class DBE(PRBM, MR):
    """DBE, domain bias eliminator: PRBM and MR together; on FedAvg it is the paper's main method.

        z = z^g + b_i, CE(psi(z), y) + kappa (1/K) sum_k (r_k - zbar_k)^2 / 2

    Tested: argmax head(base(x) + b_i) with the received base and head and the client's own b_i.
    """


def _check_head(setup: Setup) -> None:
    """`UserError` where something that changes their length stands between the features and a linear head."""
    head = setup.parts["head"].params
    if is_linear(head) and head.weight.shape[1] != setup.features:
        raise UserError(
            f"DBE's bias and means have the length of the features, {setup.features}, but the head reads {head.weight.shape[1]} "
            "numbers: use the host without a projection that changes it (moon in place of moon/fedbr)"
        )
