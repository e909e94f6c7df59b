"""Per-FedAvg (Fallah, Mokhtari and Ozdaglar, NeurIPS 2020)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.phases import Clock, Phase
from pflrepro.algorithms.task import Context
from pflrepro.checked import NonNegative, Positive
from pflrepro.trees import Tree


@dataclass(frozen=True)
class PerFedAvg(Method):
    """Per-FedAvg: the server's model is the best start for one step of gradient descent at every client.

        min_w (1/N) sum_i l_i(w - alpha grad l_i(w))
        theta = w - alpha grad l(w; B_1), v = grad l(theta; B_2), w <- w - eta d
        fo: d = v
        hf: d = v - alpha (grad l(w + delta v; B_1) - grad l(w - delta v; B_1)) / (2 delta)
        exact: d = v - alpha H(w; B_1) v

    B_1, B_2 are the halves of a batch of 2B, H the Hessian of l; `exact` is the gradient of l(theta(w); B_2). Local epochs are
    doubled, so that there are as many updates as in FedAvg [LIB]. An incomplete batch of 2B is dropped, so a client needs 2B samples;
    where batches fit small clients (`fit_batch`), n // 2 of a client's n samples are B_1 [inferred].
    Norm layers keep the statistics of the step at theta only. Averaged with p_i.
    Tested: a copy of the received model after one step of rate alpha on one training batch of size B [LIB], in training mode.

    Attributes:
        variant: `fo`, `hf` or `exact`; `fo` [DBE and GPFL by LIB: author].
        inner_rate: alpha as a multiple of the run's learning rate eta; 1, since PFLlib uses one rate for both [LIB, inferred].
        delta: of `hf`; 0.001 [FLB].
    """

    variant: Literal["fo", "hf", "exact"] = "fo"
    inner_rate: NonNegative = 1.0
    delta: Positive = 1e-3

    def phases(self, clock: Clock) -> list[Phase]:
        passes = None if clock.local_steps else 2 * clock.local_epochs
        pairs = Phase(batch=2 * clock.batch_size, passes=passes, drop_last=True)
        return [pairs, Phase("adapt", where="adapt", passes=1, steps=1)]

    def step(self, local: Tree, batch: Tree, ctx: Context) -> Tree:
        if ctx.phase.where == "adapt":
            theta, after = self.inner_step(local, batch, ctx)
            return after | Tree(params=theta)
        first, second = halves(batch)
        theta, _ = self.inner_step(local, first, ctx)
        v, after = self.gradient(theta, local, second, ctx)
        if self.variant != "fo":
            v = v - self.inner_rate * ctx.scalars.rate * self.curvature(v, local, first, ctx)
        return after | ctx.descend(after, self.correct(v, after, ctx))

    def inner_step(self, local: Tree, batch: Tree, ctx: Context) -> tuple[Tree, Tree]:
        """(w - alpha grad l(w; batch), `local` with what the loss keeps)."""
        grads, after = self.gradient(local.params, local, batch, ctx)
        return local.params | (local.params.only(grads) - self.inner_rate * ctx.scalars.rate * grads), after

    def curvature(self, v: Tree, local: Tree, batch: Tree, ctx: Context) -> Tree:
        """H(w; batch) v: by central differences (`hf`), or by differentiating the gradient."""
        trained = local.params.only(v)

        def gradient(w: Tree, ctx: Context) -> Tree:
            return self.gradient(local.params | w, local, batch, ctx)[0]

        if self.variant == "hf":
            step = self.delta * v
            return (gradient(trained + step, ctx) - gradient(trained - step, ctx)) / (2 * self.delta)
        nested = replace(ctx, differentiate=lambda function, at: torch.func.grad(function, has_aux=True)(at))
        _, pull_back = torch.func.vjp(lambda w: gradient(w, nested), trained)
        return pull_back(v)[0]  # v^T H, and H is symmetric


def halves(batch: Tree) -> tuple[Tree, Tree]:
    """The first n // 2 of a batch's n samples, and the others; of what is padded nothing."""
    samples, width = batch.only(("x", "y", "mask")), len(batch.y)
    n, here = batch.mask.sum().long(), torch.arange((width + 1) // 2, device=batch.y.device)
    there = n // 2 + here
    one, other = samples[: len(here)], samples[there.clamp(max=width - 1)]
    return batch | one | Tree(mask=one.mask * (here < n // 2)), batch | other | Tree(mask=other.mask * (there < n))
