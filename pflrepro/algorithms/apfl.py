"""APFL (Deng, Kamani and Mahdavi, arXiv 2003.13461, 2020): a personal model mixed with the global one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.task import Context, Setup
from pflrepro.checked import NonNegative, Share
from pflrepro.trees import Tree


@dataclass(frozen=True)
class APFL(Method):
    """APFL: beside FedAvg's w, every client keeps v_i and a share alpha_i; its model is a mixture of both.

        vbar = alpha v + (1 - alpha) w
        w <- w - eta grad l(w), v <- v - eta alpha grad l(vbar)
        if adaptive: alpha <- clip(alpha - eta_alpha <v - w, grad l(vbar)>, 0, 1)

    Each batch, all from the values before it [recalled]. v_i and w keep running statistics of their own; mean regularisation acts on w
    alone [inferred]. w is averaged with p_i. Tested: vbar with the received w; after training with the own.

    Attributes:
        alpha: its start, or its value for good; 0.5 (the authors' code); {0.25, 0.5, 0.75, 1} tuned, the choice not printed [FDA].
        adaptive: False [inferred for FDA, as it tunes alpha over a grid].
        alpha_rate: eta_alpha as a multiple of the run's rate; 1 [LIB].
    """

    trees: ClassVar[tuple[str, ...]] = ("params", "personal")
    roles: ClassVar[tuple[str, ...]] = ("shared", "personal")

    alpha: Share = 0.5
    adaptive: bool = False
    alpha_rate: NonNegative = 1.0

    def init_client(self, setup: Setup, info: Tree) -> Tree:
        start = Tree(personal=setup.pick("shared"), alpha=setup.zeros() + self.alpha)
        return super().init_client(setup, info) | start

    def model(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        received = super().model(common, own, client, ctx)
        return received | self.personal_model(client.alpha, client.personal, ctx.pick(received, "shared"))

    def personal_model(self, alpha: Tensor, v: Tree, w: Tree) -> Tree:
        """The client's model, at which its gradient is taken."""
        return mixture(alpha, v, w)

    def begin(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        received = Tree(params=ctx.pick(common.params, "shared"))
        return super().begin(common, own, client, ctx) | received | client.only(["personal", "alpha"])

    def step(self, local: Tree, batch: Tree, ctx: Context) -> Tree:
        w, v, alpha = local.params, local.personal, local.alpha
        shared, local = self.gradient(w, local, batch, ctx)
        stepped = ctx.descend(local, self.correct(shared, local, ctx))
        at = self.personal_model(alpha, v, ctx.pick(w, "shared"))
        personal, local = self.gradient(w | at, local, batch, ctx, role="personal")
        personal = personal.only(v)
        after = local | stepped | ctx.descend(local, self.gradient_by_v(alpha, personal), "personal")
        if not self.adaptive:
            return after
        slope = self.slope_by_alpha(local, after, shared.only(personal), personal)
        return after | Tree(alpha=(alpha - self.alpha_rate * ctx.scalars.rate * slope).clamp(0, 1))

    def gradient_by_v(self, alpha: Tensor, gradient: Tree) -> Tree:
        """The gradient of the client's loss by v, from the one by its model."""
        return alpha * gradient

    def slope_by_alpha(self, before: Tree, after: Tree, shared: Tree, personal: Tree) -> Tensor:
        """The slope of the client's loss by alpha, from the states around the batch and the gradients of w and of its model."""
        return (before.personal.only(personal) - before.params.only(personal)).dot(personal)

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        kept, upload = super().finish(local, client, ctx)
        return kept | local.only(["personal", "alpha"]), upload

    def trained(self, local: Tree, ctx: Context) -> Tree:
        return super().trained(local, ctx) | mixture(local.alpha, local.personal, local.params)

    def notes(self, local: Tree, client: Tree, ctx: Context) -> Tree:
        """`alpha`, the share of the personal model."""
        return super().notes(local, client, ctx) | local.only(["alpha"])


def mixture(alpha: Tensor, personal: Tree, shared: Tree) -> Tree:
    """alpha v + (1 - alpha) w for the groups of v; exactly v at 1 and w at 0."""
    return shared.only(personal).lerp(personal, alpha)
