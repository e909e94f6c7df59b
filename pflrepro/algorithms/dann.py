"""DANN (Ganin et al., JMLR 2016) with clients as domains, as FedBR compares with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pflrepro.algorithms.contract import Method, cross_entropy, mean
from pflrepro.algorithms.phases import Clock, Part, Phase
from pflrepro.algorithms.task import Context, Setup
from pflrepro.checked import AtLeastOne, NonNegative
from pflrepro.models.layers import perceptron
from pflrepro.trees import Tree, select

_ALONE = ("discriminator",)
Groups = tuple[str, ...]


@dataclass(frozen=True)
class DANN(Method):
    """DANN: a discriminator D guesses the client from the features, and the features learn to hide it.

        model step: CE(f(x), y) - weight CE(D(z), i)
        discriminator step: CE(D(sg(z)), i)

    i is the client's label. Steps alternate on batches of B, D fixed in the first kind, the model in the second; D is averaged with
    the model. So the model learns from every second batch only. Every pass over the data begins anew with a model step [inferred], and
    an odd batch at the end is one too; with drop_last only pairs of full batches count, and an odd number of local steps (above one) is
    rounded up to pairs. D is three linear layers with ReLU, N outputs
    [BR]. A base with norm layers keeps its running statistics in discriminator steps. Tested: the global model.

    Attributes:
        weight: lambda; 0.01 [BR-code], tuned in {0.01, 0.1, 1} [BR].
        hidden: width of D; 256 [BR].
    """

    revision: ClassVar[int] = 3  # 2: labels by place in the cohort, which `dann/fedbr` has; 3: `train_loss` without D's

    weight: NonNegative = 0.01
    hidden: AtLeastOne = 256

    def layout(self, setup: Setup) -> dict[str, Part]:
        def build() -> nn.Module:
            pairs = pairwise((setup.features, self.hidden, self.hidden, setup.clients))
            layers = zip(("first", "second", "third"), pairs, strict=True)
            return nn.ModuleDict({name: nn.Linear(*pair) for name, pair in layers})

        return super().layout(setup) | {"discriminator": Part("shared", setup.module("dann/discriminator", build))}

    def phases(self, clock: Clock) -> list[Phase]:
        if clock.local_steps == 1:
            return [Phase(batch=clock.batch_size)]
        return [Phase(batch=2 * clock.batch_size, steps=-(-clock.local_steps // 2))]

    # ---- one client ----------------------------------------------------------------------------------------------------------
    def step(self, local: Tree, batch: Tree, ctx: Context) -> Tree:
        """One step on each half of a pair of batches."""
        size = ctx.task.batch_size
        samples = batch.only(("x", "y", "mask", "partner"))
        first, second = (ctx.at(phase=replace(ctx.phase, train=groups)) for groups in self.turns(local.params, ctx))
        after = super().step(local, batch | samples[:size], first)
        if len(batch.y) <= size:  # nothing of the second batch, in any row of the launch
            return after
        others, local = batch | samples[size:], local | after
        return select(others.mask.sum() > 0, local | super().step(local, others, second), local)

    def turns(self, params: Tree, ctx: Context) -> tuple[Groups, Groups]:
        """The groups that train on the first batch of a pair, and those that train on the second."""
        return tuple(group for group in ctx.trainable(params) if group not in _ALONE), _ALONE

    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        if ctx.phase is not None and ctx.phase.train == _ALONE:
            out = self.forward(params, batch.x, ctx)
            fit = Tree(fit=cross_entropy(out.logits, batch))  # what is recorded, as of the other steps
            return self.domain_loss(params, out.z, batch, ctx), out | fit
        value, out = super().loss(params, local, batch, ctx)
        return value - self.weight * self.domain_loss(params, out.z, batch, ctx), out

    def domain_loss(self, params: Tree, z: Tensor, batch: Tree, ctx: Context) -> Tensor:
        """CE(D(z), i), mean over the true rows."""
        labels = torch.zeros_like(batch.y) + self.domain(ctx)
        return mean(F.cross_entropy(perceptron(params.discriminator, z), labels, reduction="none"), batch)

    def domain(self, ctx: Context) -> Tensor:
        """i, the client's label."""
        return ctx.info.id
