"""FedPHP (Li et al., ECML-PKDD 2021): each client's history of its own models teaches the model it receives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from pflrepro.algorithms.contract import Method, mean
from pflrepro.algorithms.task import Context, Setup
from pflrepro.checked import Share
from pflrepro.trees import Tree

TEMPERATURE = 4.0  # of the teacher [off]


@dataclass(frozen=True)
class FedPHP(Method):
    """FedPHP: a client's historical model, a running mixture of what it trained, teaches its new local model.

        (1 - lambda) CE(f(x; w_i), y) + lambda Reg(w_i, h_i)
        Reg(w_i, h_i) = -mean_b(softmax(f(x; h_i) / 4) * log softmax(f(x; w_i))) [off]
        after training: h_i <- mu h_i + (1 - mu) w_i, mu = inheritance min(1, c_i / (s T))

    w_i starts at w^t and is averaged with p_i; h_i is the common initial model before the first round. Reg is the distillation of the
    first of the released scripts, without temperature on the student's side; h_i carries no gradient and reads the running statistics
    of norm layers as the student has them. In a client's first round lambda is 0: an untrained model has nothing to teach. Gradients
    are scaled down to norm 100 [off]. c_i: the client's earlier rounds, s the share of participants, T the rounds of the run, so that
    h_i = w_i after the first. Tested: h_i.

    Attributes:
        weight: lambda; 0.05 [off, beside 0.1].
        inheritance: the largest mu; 0.9 [off].
    """

    gathers: ClassVar[dict[str, str]] = {"clients/count": "the rounds taken part in"}
    clip: ClassVar[float] = 100.0  # the largest norm of a gradient [off]
    teacher_trains: ClassVar[bool] = False  # whether the teacher's layers are in training mode: batch norm by the batch

    weight: Share = 0.05
    inheritance: Share = 0.9

    @property
    def knows_rounds(self) -> bool:
        return self.inheritance > 0 or super().knows_rounds

    def init_client(self, setup: Setup, info: Tree) -> Tree:
        return super().init_client(setup, info) | Tree(history=setup.pick("shared"), count=setup.zeros())

    def model(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        return super().model(common, own, client, ctx) | client.history

    def begin(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        return super().begin(common, own, client, ctx) | Tree(params=ctx.pick(common.params, "shared"))

    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        value, out = super().loss(params, local, batch, ctx)
        taught = self.forward(local.params | self.teacher(ctx), batch.x, ctx.at(training=self.teacher_trains))
        weight = self.lesson(torch.full_like(value, self.weight), ctx)
        return (1 - weight) * value + weight * self.regulariser(out, taught, batch), out

    def teacher(self, ctx: Context) -> Tree:
        """The groups that teach."""
        return ctx.client.history

    def lesson(self, weight: Tensor, ctx: Context) -> Tensor:
        """lambda, in the client's first round 0."""
        return torch.where(ctx.client.count > 0, weight, 0.0)

    def regulariser(self, out: Tree, taught: Tree, batch: Tree) -> Tensor:
        """Reg, from what the student's and the teacher's `forward` gave."""
        target = (taught.logits / TEMPERATURE).softmax(1)
        return mean(-(target * out.logits.log_softmax(1)).sum(1), batch)

    def correct(self, grads: Tree, local: Tree, ctx: Context) -> Tree:
        grads = super().correct(grads, local, ctx)
        return grads * (self.clip / (grads.squared_norm().sqrt() + 1e-6)).clamp(max=1)

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        kept, upload = super().finish(local, client, ctx)
        return kept | Tree(history=self.trained(local, ctx).only(client.history), count=client.count + 1), upload

    def trained(self, local: Tree, ctx: Context) -> Tree:
        params, old = super().trained(local, ctx), ctx.client.history
        return params | params.only(old).lerp(old, self.inherited(ctx.client, ctx))

    def inherited(self, client: Tree, ctx: Context) -> Tensor:
        """mu, by the client's count of rounds."""
        expected = max(1, int(ctx.task.participation * ctx.task.rounds + 1e-9))  # rounds that a client takes part in
        return self.inheritance * (client.count / expected).clamp(0, 1)
