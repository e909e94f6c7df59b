"""MOON (Li, He and Song, CVPR 2021): a client's features are pulled towards the global model's and away from its own last ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from pflrepro.algorithms.contract import Method, mean
from pflrepro.algorithms.task import Context, Setup
from pflrepro.checked import NonNegative, Positive
from pflrepro.trees import Tree


@dataclass(frozen=True)
class Moon(Method):
    """MOON: a contrastive term pulls a client's features towards the global model's and away from those of its own last model.

        CE + mu mean_b(-log(e^{cos(z, z_g) / tau} / (e^{cos(z, z_g) / tau} + e^{cos(z, z_p) / tau})))

    z: of the model being trained; z_g: of the received model; z_p: of the model with which the client left its last round; both
    frozen, in evaluation mode, with the running statistics that the client has at that step. Before its first round a client has no
    z_p, and the term is left out [off]. z are the features of the base, without a projection [LIB, so most likely DBE: inferred]; the
    bias of DBE comes after them. A client without a step leaves its round with the received model. Averaged with p_i.
    Tested: the global model.

    Attributes:
        mu: 1 [off: from 0.1, 1, 5, 10]; FedBR tunes in 0.01, 0.1, 1, 10 [BR], 0.01 [BR-code]; DBE's value is not printed [?].
            0 is FedAvg.
        tau: 0.5 [off, BR-code]; not stated in FedBR.
    """

    gathers: ClassVar[dict[str, str]] = {"clients/seen": "whether the client has taken part"}

    mu: NonNegative = 1.0
    tau: Positive = 0.5

    def init_client(self, setup: Setup, info: Tree) -> Tree:
        previous = Tree(base=setup.parts["base"].params)
        return super().init_client(setup, info) | Tree(previous=previous, seen=setup.zeros())

    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        value, out = super().loss(params, local, batch, ctx)
        frozen, z = ctx.at(training=False), self.compared(params, out.z)

        def nearness(model: Tree) -> Tensor:
            other = local.params | model
            return F.cosine_similarity(z, self.compared(other, self.forward(other, batch.x, frozen).z))

        received = ctx.pick(ctx.common.params, "shared")
        difference = nearness(received) - nearness(received | ctx.client.previous)
        return value - self.weight(ctx) * mean(F.logsigmoid(difference / self.tau), batch), out

    def compared(self, params: Tree, z: Tensor) -> Tensor:
        """What cosines are taken of: the features z [B, K] themselves."""
        return z

    def weight(self, ctx: Context) -> Tensor | float:
        """mu, and 0 before the client has left a round."""
        return self.mu * ctx.client.seen

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        kept, upload = super().finish(local, client, ctx)
        return kept | Tree(previous=local.params.only(client.previous), seen=torch.ones_like(client.seen)), upload
