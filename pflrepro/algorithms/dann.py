"""DANN (Ganin et al., JMLR 2016) with clients as domains, as FedBR compares with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pflrepro.algorithms.contract import Method, mean
from pflrepro.algorithms.phases import Clock, Part, Phase
from pflrepro.algorithms.places import OWNERS
from pflrepro.algorithms.task import Context, Setup
from pflrepro.errors import check_range, check_word
from pflrepro.models.layers import perceptron
from pflrepro.trees import Tree, select

_ALONE = ("discriminator",)
_TURNED = "discriminator first"  # the name of a phase whose pairs of steps begin with the discriminator's


@dataclass(frozen=True)
class DANN(Method):
    """DANN: a discriminator D guesses the client from the features, and the features learn to hide it.

    Steps alternate on batches of B: a model step on CE(f(x), y) - weight * CE(D(z), i) with D fixed, then a discriminator step on
    CE(D(sg z), i), i the client's label. D is averaged with the model. So the model learns from every second batch only.
    Every pass over the data begins anew [inferred], and an odd batch at the end is a step of the kind that the pass began with; with
    drop_last only pairs of full batches count. D is three linear layers with ReLU, N outputs [BR]. A base with norm layers keeps its
    running statistics in discriminator steps. Tested: the global model.

    Attributes:
        weight: lambda; 0.01 [BR-code], tuned in {0.01, 0.1, 1} [BR].
        hidden: width of D; 256 [BR].
        discriminator_rate: D's rate as a multiple of the run's; 1 [BR-code].
        later_rounds: begin with a `model` step, as the first, or with a `discriminator` step [BR-code: the alternation runs on over
            the rounds, of which the first has one step and every other one 50].
        labels: `client` (recommended), or `slot` [BR-code], the client's place in the cohort, dealt out anew every round, from which
            D can learn nothing that lasts.
    """

    revision: ClassVar[int] = 2  # 2: slots are places in the cohort

    weight: float = 0.01
    hidden: int = 256
    discriminator_rate: float = 1.0
    later_rounds: str = "model"
    labels: str = "client"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("DANN's weight", self.weight, 0)
        check_range("DANN's hidden", self.hidden, 1, integer=True)
        check_range("DANN's discriminator_rate", self.discriminator_rate, 0)
        check_word("later_rounds of DANN", self.later_rounds, ("model", "discriminator"))
        check_word("labels of DANN", self.labels, OWNERS)

    def layout(self, setup: Setup) -> dict[str, Part]:
        def build() -> nn.Module:
            pairs = pairwise((setup.features, self.hidden, self.hidden, setup.clients))
            layers = zip(("first", "second", "third"), pairs, strict=True)
            return nn.ModuleDict({name: nn.Linear(*pair) for name, pair in layers})

        return super().layout(setup) | {"discriminator": Part("shared", setup.module("dann/discriminator", build))}

    def phases(self, clock: Clock) -> list[Phase]:
        turned = self.later_rounds == "discriminator" and clock.t > 0
        name = _TURNED if turned else "train"
        if clock.local_steps == 1:
            return [Phase(name, batch=clock.batch_size)]
        return [Phase(name, batch=2 * clock.batch_size, steps=-(-clock.local_steps // 2))]

    # ---- one client ----------------------------------------------------------------------------------------------------------
    def step(self, local: Tree, batch: Tree, ctx: Context) -> Tree:
        size = ctx.task.batch_size
        samples = batch.only(("x", "y", "mask", "partner"))
        model = tuple(group for group in ctx.trainable(local.params) if group not in _ALONE)
        kinds = (_ALONE, model) if ctx.phase.name == _TURNED else (model, _ALONE)
        first, second = (ctx.at(phase=replace(ctx.phase, train=kind)) for kind in kinds)
        after = super().step(local, batch | samples[:size], first)
        if len(batch.y) <= size:  # nothing of the second batch, in any row of the launch
            return after
        others, local = batch | samples[size:], local | after
        return select(others.mask.sum() > 0, local | super().step(local, others, second), local)

    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        if ctx.phase is not None and ctx.phase.train == _ALONE:
            out = self.forward(params, batch.x, ctx)
            return self.domain_loss(params, out.z, batch, ctx), out
        value, out = super().loss(params, local, batch, ctx)
        return value - self.weight * self.domain_loss(params, out.z, batch, ctx), out

    def domain_loss(self, params: Tree, z: Tensor, batch: Tree, ctx: Context) -> Tensor:
        """CE(D(z), i), mean over the true rows."""
        logits = perceptron(params.discriminator, z)
        label = ctx.info.id if self.labels == "client" else ctx.info.slot
        return mean(F.cross_entropy(logits, torch.zeros_like(batch.y) + label, reduction="none"), batch)

    def correct(self, grads: Tree, local: Tree, ctx: Context) -> Tree:
        grads = super().correct(grads, local, ctx)
        return grads | self.discriminator_rate * grads.only(_ALONE)
