"""FedPHP (Li et al., ECML-PKDD 2021): each client's history of its own models teaches the model it receives."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pflrepro.algorithms.contract import Method, mean
from pflrepro.algorithms.task import Context, Setup
from pflrepro.errors import check_range, check_word
from pflrepro.trees import Tree

_TEMPERATURE = 4.0  # of the teacher [off]
_FIXED = (10.0, 15.0, 20.0, 50.0)  # bandwidths [LIB]
_ADAPTIVE = (0.25, 0.5, 1.0, 2.0, 4.0)  # multiples of the mean squared distance [off]


@dataclass(frozen=True)
class FedPHP(Method):
    """FedPHP: (1 - lambda) CE(f(x; w_i), y) + lambda Reg(w_i, teacher), w_i uploaded and averaged with p_i.

    `official` [off]: w_i starts at w^t, the teacher is the historical model h_i (the common initial model before the first round).
    After training h_i <- mu h_i + (1 - mu) w_i, mu = inheritance * min(1, c_i / (share of participants * rounds)) with c_i the
    client's earlier rounds, so h_i = w_i after the first. Tested: h_i.
    Reg `kd`: -mean_b softmax(f(x; h_i) / 4) . log softmax f(x; w_i), without temperature on the student's side. `mmd`: between the
    features of both, with the five kernels exp(-d^2 / (s a)), s the mean squared distance of the batch's 2B features.
    `legacy` [LIB until November 2024], for GPFL's table: w_i starts at (1 - mu_t) w^t + mu_t w_i of its last training, with
    mu_t = inheritance * t / rounds, which is also what is tested; the teacher is w^t; Reg is the MMD with exp(-d^2 / (2 a)),
    a in {10, 15, 20, 50}. There an absent client's model is mixed in every round too, here only when it is used.
    GPFL's numbers: form=legacy, weight=0.01, inheritance=0.9 (a later remark of the author).

    MMD = mean over all pairs of k(x, x') + k(y, y') - 2 k(x, y). Teachers carry no gradient and read the running statistics of
    norm layers as the student has them.

    Attributes:
        form: `official` (recommended: the published method) or `legacy`.
        regulariser: of the official form, `kd` (the first of the released scripts) or `mmd` [off].
        weight: lambda; 0.05 [off, beside 0.1].
        inheritance: the largest mu; 0.9 [off].
        clip: of the official form: gradients are scaled down to this norm; 100 [off]. 0: never.
        teach_first: of the official form: whether Reg acts in a client's first round. False: an untrained model has nothing to
            teach; the released code lets it.
    """

    form: str = "official"
    regulariser: str = "kd"
    weight: float = 0.05
    inheritance: float = 0.9
    clip: float = 100.0
    teach_first: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_word("form of FedPHP", self.form, ("official", "legacy"))
        check_word("regulariser of FedPHP", self.regulariser, ("kd", "mmd"))
        check_range("FedPHP's weight", self.weight, 0, 1)
        check_range("FedPHP's inheritance", self.inheritance, 0, 1)
        check_range("FedPHP's clip", self.clip, 0)

    @property
    def knows_rounds(self) -> bool:
        return self.inheritance > 0 or super().knows_rounds

    # ---- state ---------------------------------------------------------------------------------------------------------------
    def init_client(self, setup: Setup, info: Tree) -> Tree:
        return super().init_client(setup, info) | Tree(history=setup.pick("shared"), count=setup.zeros())

    def inherited(self, client: Tree, ctx: Context) -> Tensor:
        """mu, by the client's count of rounds, or in the legacy form by the run's."""
        if self.form == "legacy":
            return self.inheritance * (ctx.scalars.t / ctx.task.rounds).clamp(0, 1)
        expected = max(1, int(ctx.task.participation * ctx.task.rounds + 1e-9))  # rounds that a client takes part in
        return self.inheritance * (client.count / expected).clamp(0, 1)

    def model(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        received = super().model(common, own, client, ctx)
        if self.form == "official":
            return received | client.history
        mu = self.inherited(client, ctx)
        return received | received.only(client.history).lerp(client.history, mu)

    def begin(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        local = super().begin(common, own, client, ctx)
        return local if self.form == "legacy" else local | Tree(params=ctx.pick(common.params, "shared"))

    # ---- one client ----------------------------------------------------------------------------------------------------------
    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        value, out = super().loss(params, local, batch, ctx)
        official = self.form == "official"
        teacher = ctx.client.history if official else ctx.pick(ctx.common.params, "shared")
        taught = self.forward(local.params | teacher, batch.x, ctx.at(training=False))
        if official and self.regulariser == "kd":
            target = (taught.logits / _TEMPERATURE).softmax(1)
            regulariser = mean(-(target * out.logits.log_softmax(1)).sum(1), batch)
        else:
            regulariser = mmd(out.z, taught.z, batch.mask, adaptive=official)
        weight = torch.full_like(value, self.weight)
        if official and not self.teach_first:
            weight = torch.where(ctx.client.count > 0, weight, 0.0)
        return (1 - weight) * value + weight * regulariser, out

    def correct(self, grads: Tree, local: Tree, ctx: Context) -> Tree:
        grads = super().correct(grads, local, ctx)
        if self.form == "legacy" or not self.clip:
            return grads
        return grads * (self.clip / (grads.squared_norm().sqrt() + 1e-6)).clamp(max=1)

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        kept, upload = super().finish(local, client, ctx)
        return kept | Tree(history=self.trained(local, ctx).only(client.history), count=client.count + 1), upload

    def trained(self, local: Tree, ctx: Context) -> Tree:
        params = super().trained(local, ctx)
        if self.form == "legacy":
            return params
        mu, old = self.inherited(ctx.client, ctx), ctx.client.history
        return params | params.only(old).lerp(old, mu)


def mmd(x: Tensor, y: Tensor, mask: Tensor, adaptive: bool) -> Tensor:
    """The squared maximum mean discrepancy of the true rows of x and y [B, K], over all pairs.

    Kernels sum_a exp(-d^2 / (s a)) with s the mean of d^2 over pairs of different rows of both (no gradient through it), or
    sum_a exp(-d^2 / (2 a)).
    """
    rows, weights = torch.cat([x, y]), torch.cat([mask, mask])
    squares = ((rows[:, None] - rows) ** 2).sum(2)
    pairs = weights[:, None] * weights
    if adaptive:
        count = weights.sum()
        scale = (squares * pairs).sum().detach() / (count**2 - count).clamp(min=1) + 1e-8
        kernel = sum(torch.exp(-squares / (scale * a)) for a in _ADAPTIVE)
    else:
        kernel = sum(torch.exp(-squares / (2 * a)) for a in _FIXED)
    signs = torch.cat([mask, -mask])
    return (signs[:, None] * signs * kernel).sum() / mask.sum().clamp(min=1) ** 2
