"""APFL (Deng, Kamani and Mahdavi, arXiv 2003.13461, 2020): a personal model mixed with the global one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.phases import Clock, Draw, Part, Phase
from pflrepro.algorithms.task import Context, Setup
from pflrepro.errors import check_range, check_word
from pflrepro.trees import Tree

FORMS = ("paper", "platform", "platform-2023", "outputs")


@dataclass(frozen=True)
class APFL(Method):
    """APFL: beside FedAvg's w, every client keeps v_i and a share alpha_i; its model is vbar = alpha v + (1 - alpha) w.

    Each batch, all from the values before it where nothing else is said:
    `paper`: w <- w - eta grad l(w), v <- v - eta alpha grad l(vbar), and if adaptive
    alpha <- clip(alpha - eta_alpha <v - w, grad l(vbar)>, 0, 1). Tested: vbar with the received w; after training with the own.
    `platform` [LIB]: w and v each take plain steps on their own loss, and if adaptive
    alpha <- clip(alpha - eta_alpha (<v - w, alpha grad l(v) + (1 - alpha) grad l(w)> + 0.02 alpha), 0, 1) with the gradients
    of this batch and the models after their steps; at the end of the round v <- alpha v + (1 - alpha) w for good, which is what
    is tested. `platform-2023`: without grad l(w), whose gradient had been zeroed until April 2023.
    `outputs` (the authors' code, FedTorch): what is mixed are the scores, s = alpha f(v) + (1 - alpha) f(w). w takes its own step
    first; then v one on CE(s, y) with that w; if adaptive, alpha moves as on the platform, but at the round's first step only and
    with both gradients those of CE(s, y) (one more pass). Tested: s. There and in v's step the norm layers of w use v's running
    statistics [inferred].

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

    def layout(self, setup: Setup) -> dict[str, Part]:
        parts = super().layout(setup)
        if self.form != "outputs":
            return parts
        shared = Tree({name: part.params for name, part in parts.items() if part.kind == "shared"})
        return parts | {"mixed": Part("received", Tree(w=shared, alpha=setup.zeros()))}

    def init_client(self, setup: Setup, info: Tree) -> Tree:
        start = Tree(personal=setup.pick("shared"), alpha=setup.zeros() + self.alpha)
        return super().init_client(setup, info) | start

    def model(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        received = super().model(common, own, client, ctx)
        return received | self.personal_model(client.alpha, client.personal, ctx.pick(received, "shared"))

    def personal_model(self, alpha: Tensor, v: Tree, w: Tree) -> Tree:
        """The groups that make up a client's model."""
        if self.form == "outputs":
            return v | Tree(mixed=Tree(w=w, alpha=alpha))
        return mixture(alpha, v, w) if self.form == "paper" else v

    def forward(self, params: Tree, x: Tensor, ctx: Context) -> Tree:
        out = super().forward(params, x, ctx)
        if "mixed" not in params:
            return out
        held = params.mixed.map(torch.detach)
        other = super().forward(params | held.w, x, ctx.at(training=False)).logits
        return out | Tree(logits=torch.lerp(other, out.logits, held.alpha))

    def phases(self, clock: Clock) -> list[Phase]:
        phases = super().phases(clock)
        if not (self.form == "outputs" and self.adaptive):
            return phases
        return [phase.drawing(number=Draw("step")) if phase.local else phase for phase in phases]

    def begin(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        local = super().begin(common, own, client, ctx)
        params = local.params.without(["mixed"]) | ctx.pick(common.params, "shared")
        return local.without(["params"]) | client.only(["personal", "alpha"]) | Tree(params=params)

    def step(self, local: Tree, batch: Tree, ctx: Context) -> Tree:
        w, v, alpha = local.params, local.personal, local.alpha
        shared, local = self.gradient(w, local, batch, ctx)
        stepped = ctx.descend(local, self.correct(shared, local, ctx))
        beside = w | stepped.params if self.form == "outputs" else w
        at = self.personal_model(alpha, v, ctx.pick(beside, "shared"))
        personal, local = self.gradient(w | at, local, batch, ctx, role="personal")
        personal = personal.only(v)
        after = local | stepped
        after = after | ctx.descend(local, alpha * personal if self.form == "paper" else personal, "personal")
        if not self.adaptive:
            return after
        if self.form == "outputs":  # of the mixed scores by w: the same scores with v and w in each other's place
            mirrored = beside | Tree(mixed=Tree(w=v, alpha=1 - alpha))
            shared, _ = self.gradient(mirrored, local, batch, ctx, role="personal")
        slope = self.slope(alpha, shared.only(personal), personal, after if self.form != "paper" else local)
        moved = (alpha - self.alpha_rate * ctx.scalars.rate * slope).clamp(0, 1)
        return after | Tree(alpha=torch.where(batch.number > 0, alpha, moved) if "number" in batch else moved)

    def slope(self, alpha: Tensor, shared: Tree, personal: Tree, local: Tree) -> Tensor:
        """What alpha descends along, from the two gradients and the models in `local`."""
        away = local.personal.only(personal) - local.params.only(personal)
        if self.form == "paper":
            return away.dot(personal)
        direction = alpha * personal
        if self.form in ("platform", "outputs"):
            direction = direction + (1 - alpha) * shared
        return away.dot(direction) + 0.02 * alpha

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        kept, upload = super().finish(local, client, ctx)
        mixes = self.form.startswith("platform")
        personal = mixture(local.alpha, local.personal, local.params) if mixes else local.personal
        return kept | Tree(personal=personal, alpha=local.alpha), upload

    def trained(self, local: Tree, ctx: Context) -> Tree:
        after = super().trained(local, ctx)
        if self.form == "outputs":
            return after | self.personal_model(local.alpha, local.personal, ctx.pick(local.params, "shared"))
        return after | mixture(local.alpha, local.personal, local.params)

    def notes(self, local: Tree, client: Tree, ctx: Context) -> Tree:
        """`alpha`, the share of the personal model."""
        return super().notes(local, client, ctx) | local.only(["alpha"])


def mixture(alpha: Tensor, personal: Tree, shared: Tree) -> Tree:
    """alpha v + (1 - alpha) w for the groups of v; exactly v at 1 and w at 0."""
    return shared.only(personal).lerp(personal, alpha)
