"""FedFomo (Zhang et al., ICLR 2021): every client mixes the models of others that help on its validation data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from pflrepro.algorithms.contract import Method, cross_entropy
from pflrepro.algorithms.phases import Clock, Part, Phase, as_kind
from pflrepro.algorithms.task import Context, Setup
from pflrepro.checked import AtLeastOne
from pflrepro.trees import Tree, repeat, select

BLOCK = 1024  # clients whose affinities are ordered at once


@dataclass(frozen=True)
class FedFomo(Method):
    """FedFomo: a client goes on from a mixture of other clients' models, weighted by how much each lowers its validation loss.

        theta_i <- sum_n w~_n theta_n, w~_n = max(w_n, 0) / sum_m max(w_m, 0)
        w_n = (L_i(theta_i^old) - L_i(theta_n)) / (|theta_n - theta_i^old|_2 + 1e-5)

    Over the M models received, then local training; there is no global model. L_i is the loss on the validation part (the mean over
    samples). Where no w_n is positive, the client goes on from its own trained model. theta_i^old is the model with which its last
    local training began. The server keeps every client's last model and the affinity P, which starts as the identity; client i gets
    the models with the M largest P_in (ties: the lowest id; its own is a candidate like any other); then P_in grows by w_n, negative
    ones too. All of that is [LIB]'s. Batch-norm statistics are the client's own, for its candidates too [inferred]. A fifth of the
    training part (a fixed random one) is validation data [LIB]; n_i counts the rest.
    Tested: the own model before this round's mixing [LIB].

    Attributes:
        models: M, at most N; 5 [LIB; author]; a poster of the same authors, with the same numbers for baselines, has all 20 [?].
    """

    holdout: ClassVar[float] = 0.2
    gathers: ClassVar[dict[str, str]] = {"server/P": "preferences", "server/models": "starts empty"}
    server_store: ClassVar[bool] = True

    models: AtLeastOne = 5

    # ---- state ---------------------------------------------------------------------------------------------------------------
    def layout(self, setup: Setup) -> dict[str, Part]:
        return as_kind(super().layout(setup), "personal")

    def init_server(self, setup: Setup) -> Tree:
        models = Tree({name: repeat(part.params, setup.clients) for name, part in setup.parts.items()})
        return super().init_server(setup) | Tree(
            models=models, P=torch.eye(setup.clients, dtype=setup.dtype, device=setup.device)
        )

    def init_client(self, setup: Setup, info: Tree) -> Tree:
        client = super().init_client(setup, info)
        return client | Tree(old=client.params)

    def send(self, server: Tree, cohort: Tree) -> tuple[Tree, Tree]:
        # some clients at a time: an order of all clients for each client is the largest thing that many clients need
        ranked = [
            server.P[ids].argsort(dim=1, descending=True, stable=True)[:, : self.models]
            for ids in cohort.id.split(BLOCK)
        ]
        return server.only(["params", "models"]), Tree(chosen=torch.cat(ranked))

    def received(self, common: Tree, own: Tree) -> Tree:
        return Tree(models=common.models[own.chosen])

    # ---- the round of a client -----------------------------------------------------------------------------------------------
    def phases(self, clock: Clock) -> list[Phase]:
        return [Phase("weigh", data="valid", scan=True), Phase()]

    def begin(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        w = torch.zeros(own.chosen.shape, dtype=ctx.scalars.rate.dtype, device=own.chosen.device)
        return super().begin(common, own, client, ctx) | Tree(old=client.old, w=w)

    def candidate(self, k: int, ctx: Context) -> Tree:
        """theta_n of the k-th model received, read from the server's store: one model a client at a time."""
        return ctx.common.models[ctx.own.chosen[k]]

    def observe(self, local: Tree, batch: Tree, ctx: Context) -> Tree:
        def loss(params: Tree) -> Tensor:
            return cross_entropy(self.forward(params, batch.x, ctx).logits, batch)

        n = batch.mask.sum()
        losses = [loss(self.candidate(k, ctx)) for k in range(len(ctx.own.chosen))]
        return Tree(n=n, old=n * loss(local.old), received=n * torch.stack(losses))

    def leave(self, local: Tree, sums: Tree, ctx: Context) -> Tree:
        if ctx.phase.name != "weigh":
            return Tree()
        w = self.weights(local.old, sums, ctx)
        mixed = self.mixture(w.clamp(min=0), local.params, ctx)
        return Tree(params=mixed, old=mixed, w=w)

    def weights(self, old: Tree, sums: Tree, ctx: Context) -> Tensor:
        """w_n [M] of the models received."""
        gain = (sums.old - sums.received) / sums.n.clamp(min=1)
        count = range(len(ctx.own.chosen))
        distance = torch.stack([(self.candidate(k, ctx) - old).squared_norm().sqrt() for k in count])
        # equal models have no gain: without this, rounding of their losses would decide which models are asked for next
        return torch.where(distance > 0, gain / (distance + 1e-5), torch.zeros_like(gain))

    def mixture(self, positive: Tensor, own: Tree, ctx: Context) -> Tree:
        """sum_n w~_n theta_n; `own` where no weight is positive."""
        total = positive.sum()
        share = positive / total.clamp(min=torch.finfo(positive.dtype).tiny)
        mixed = own * 0.0
        for k in range(len(ctx.own.chosen)):
            mixed = mixed + self.candidate(k, ctx) * share[k]
        return select(total > 0, mixed, own)

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        kept, _ = super().finish(local, client, ctx)
        return kept | Tree(old=local.old), Tree(model=local.params, w=local.w, chosen=ctx.own.chosen)

    # ---- the server ----------------------------------------------------------------------------------------------------------
    def aggregate(self, server: Tree, uploads: Tree, cohort: Tree, ctx: Context) -> Tree:
        P = server.P.index_put((cohort.id[:, None], uploads.chosen), uploads.w, accumulate=True)
        return Tree(models=server.models.put(cohort.id, uploads.model), P=P)
