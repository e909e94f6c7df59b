"""APFL as DBE's tables print it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from pflrepro.algorithms.apfl import APFL, mixture
from pflrepro.algorithms.task import Context
from pflrepro.checked import Share
from pflrepro.trees import Tree


@dataclass(frozen=True)
class PlatformAPFL(APFL):
    """APFL of the papers' platform [LIB], which DBE's numbers come from [inferred: same authors].

        w <- w - eta grad l(w), v <- v - eta grad l(v)
        if adaptive: alpha <- clip(alpha - eta_alpha (<v - w, alpha grad l(v) + (1 - alpha) grad l(w)> + 0.02 alpha), 0, 1)
        end of the round: v <- alpha v + (1 - alpha) w

    w and v each take plain steps on their own loss; alpha with the gradients of this batch and the models after their steps. The
    mixture at the end is for good, and is what is tested.

    Attributes:
        alpha: 1 [LIB]: v starts as local training.
        adaptive: True [LIB].
    """

    alpha: Share = 1.0
    adaptive: bool = True

    def personal_model(self, alpha: Tensor, v: Tree, w: Tree) -> Tree:
        return v

    def gradient_by_v(self, alpha: Tensor, gradient: Tree) -> Tree:
        return gradient

    def slope_by_alpha(self, before: Tree, after: Tree, shared: Tree, personal: Tree) -> Tensor:
        away = after.personal.only(personal) - after.params.only(personal)
        direction = before.alpha * personal + (1 - before.alpha) * shared
        return away.dot(direction) + 0.02 * before.alpha

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        kept, upload = super().finish(local, client, ctx)
        return kept | Tree(personal=mixture(local.alpha, local.personal, local.params)), upload
