"""APFL (Deng, Kamani and Mahdavi, arXiv 2003.13461, 2020): a personal model mixed with the global one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.task import Context, Setup
from pflrepro.errors import check_range, check_word
from pflrepro.trees import Tree

FORMS = ("paper", "platform", "platform-2023")


@dataclass(frozen=True)
class APFL(Method):
    """APFL: beside FedAvg's w, every client keeps v_i and a share alpha_i; its model is vbar = alpha v + (1 - alpha) w.

    Each batch, all from the values before it:
    `paper`: w <- w - eta grad l(w), v <- v - eta alpha grad l(vbar), and if adaptive
    alpha <- clip(alpha - eta_alpha <v - w, grad l(vbar)>, 0, 1). Tested: vbar with the received w; after training with the own.
    `platform` [LIB]: w and v each take plain steps on their own loss, and if adaptive
    alpha <- clip(alpha - eta_alpha (<v - w, alpha grad l(v) + (1 - alpha) grad l(w)> + 0.02 alpha), 0, 1) with the gradients
    of this batch and the models after their steps; at the end of the round v <- alpha v + (1 - alpha) w for good, which is what
    is tested. `platform-2023`: without grad l(w), whose gradient had been zeroed until April 2023.

    w is FedAvg's in all forms; mean regularisation acts on w alone [inferred] unless mr_models=both. DBE's numbers: from the platform,
    form=platform, alpha=1, adaptive=true. v_i and w keep running statistics of their own.

    Attributes:
        form: `paper` (recommended), since the name alone should run the published algorithm, and pFedFDA's text describes it.
        alpha: its start, or its value for good; 0.5 (the authors' code); {0.25, 0.5, 0.75, 1} tuned, the choice not printed [FDA];
            1 on the platform, where v starts as local training.
        adaptive: False [inferred for FDA, as it tunes alpha over a grid]; True on the platform.
        alpha_rate: eta_alpha as a multiple of the run's rate; 1 [LIB].
    """

    trees: ClassVar[tuple[str, ...]] = ("params", "personal")
    roles: ClassVar[tuple[str, ...]] = ("shared", "personal")

    form: str = "paper"
    alpha: float = 0.5
    adaptive: bool = False
    alpha_rate: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_word("form of APFL", self.form, FORMS)
        check_range("APFL's alpha", self.alpha, 0, 1)
        check_range("APFL's alpha_rate", self.alpha_rate, 0)

    def init_client(self, setup: Setup, info: Tree) -> Tree:
        start = Tree(personal=setup.pick("shared"), alpha=setup.zeros() + self.alpha)
        return super().init_client(setup, info) | start

    def model(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        received = super().model(common, own, client, ctx)
        return received | (
            mixture(client.alpha, client.personal, received) if self.form == "paper" else client.personal
        )

    def begin(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        local = super().begin(common, own, client, ctx)
        return local | client.only(["personal", "alpha"]) | Tree(params=ctx.pick(common.params, "shared"))

    def step(self, local: Tree, batch: Tree, ctx: Context) -> Tree:
        w, v, alpha = local.params, local.personal, local.alpha
        at = mixture(alpha, v, w) if self.form == "paper" else v
        shared, local = self.gradient(w, local, batch, ctx)
        personal, local = self.gradient(w | at, local, batch, ctx, role="personal")
        personal = personal.only(v)
        after = local | ctx.descend(local, self.correct(shared, local, ctx))
        after = after | ctx.descend(local, alpha * personal if self.form == "paper" else personal, "personal")
        if not self.adaptive:
            return after
        slope = self.slope(alpha, shared.only(personal), personal, after if self.form != "paper" else local)
        return after | Tree(alpha=(alpha - self.alpha_rate * ctx.scalars.rate * slope).clamp(0, 1))

    def slope(self, alpha: Tensor, shared: Tree, personal: Tree, local: Tree) -> Tensor:
        """What alpha descends along, from the two gradients and the models in `local`."""
        away = local.personal.only(personal) - local.params.only(personal)
        if self.form == "paper":
            return away.dot(personal)
        direction = alpha * personal
        if self.form == "platform":
            direction = direction + (1 - alpha) * shared
        return away.dot(direction) + 0.02 * alpha

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        kept, upload = super().finish(local, client, ctx)
        personal = local.personal if self.form == "paper" else mixture(local.alpha, local.personal, local.params)
        return kept | Tree(personal=personal, alpha=local.alpha), upload

    def trained(self, local: Tree, ctx: Context) -> Tree:
        return super().trained(local, ctx) | mixture(local.alpha, local.personal, local.params)


def mixture(alpha: Tensor, personal: Tree, shared: Tree) -> Tree:
    """alpha v + (1 - alpha) w for the groups of v; exactly v at 1 and w at 0."""
    return shared.only(personal).lerp(personal, alpha)
