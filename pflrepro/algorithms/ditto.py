"""Ditto (Li et al., ICML 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.phases import Clock, Phase
from pflrepro.algorithms.task import Context, Setup
from pflrepro.checked import Count, NonNegative
from pflrepro.trees import Tree


@dataclass(frozen=True)
class Ditto(Method):
    """Ditto: beside FedAvg, every client trains a personal model that is pulled towards the received one.

        v_i <- v_i - eta (grad l_i(v_i) + lambda (v_i - w^t))

    w is FedAvg's. v_i goes on from the client's last one; w^t is what was received, so the two trainings do not touch and their order
    is free. All v_i start as the common initial model. Tested: v_i.

    Attributes:
        proximal: lambda; 1.0, the middle of the official grid 0.1, 1, 2 [off]; DBE's and GPFL's value is not printed [?].
            0 leaves v_i purely local.
        personal_epochs: passes of v_i a round; 1 [LIB]; DBE's times suggest about 5 [inferred]; 5 [FDA].
    """

    trees: ClassVar[tuple[str, ...]] = ("params", "personal")
    roles: ClassVar[tuple[str, ...]] = ("shared", "personal")

    proximal: NonNegative = 1.0
    personal_epochs: Count = 1

    def init_client(self, setup: Setup, info: Tree) -> Tree:
        return super().init_client(setup, info) | Tree(personal=setup.pick("shared"))

    def phases(self, clock: Clock) -> list[Phase]:
        return [Phase("personal", passes=self.personal_epochs, stream="clients/personal"), *super().phases(clock)]

    def model(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        return super().model(common, own, client, ctx) | client.personal

    def begin(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        received = ctx.pick(common.params, "shared")
        local = super().begin(common, own, client, ctx)
        return local | Tree(params=local.params | received, personal=client.personal)

    def step(self, local: Tree, batch: Tree, ctx: Context) -> Tree:
        if ctx.phase.name != "personal":
            return super().step(local, batch, ctx)
        grads, local = self.gradient(local.params | local.personal, local, batch, ctx, role="personal")
        grads = grads.only(local.personal)
        drift = local.personal.only(grads) - ctx.common.params.only(grads)
        return local | ctx.descend(local, grads + self.proximal * drift, "personal")

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        kept, upload = super().finish(local, client, ctx)
        return kept | Tree(personal=local.personal), upload

    def trained(self, local: Tree, ctx: Context) -> Tree:
        return super().trained(local, ctx) | local.personal
