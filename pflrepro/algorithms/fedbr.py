"""FedBR (Guo, Tang and Lin, ICML 2023): pseudo-data that all clients share, against the biases of local training; a plug-in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pflrepro.algorithms.contract import mean
from pflrepro.algorithms.phases import Clock, Part, Phase
from pflrepro.algorithms.pseudodata import PseudoData, trains
from pflrepro.algorithms.task import Context, Setup
from pflrepro.checked import NonNegative
from pflrepro.errors import UserError
from pflrepro.models.layers import perceptron
from pflrepro.trees import Tree


@dataclass(frozen=True)
class FedBR(PseudoData):
    """FedBR: pseudo-data x_p that all clients share, with soft labels y_p, against the biases of local training.

        L + lambda CE(psi(phi(x_p)), y_p) + mu L_con
        L_con = -log(f_1 / (f_1 + f_2)) (Eqs. 5 to 7)
        f_1 = exp(tau_1 cos(P phi(x_p), P phi_g(x_p))), f_2 = exp(tau_2 cos(P phi(x_p), P phi(x))) [BR-code]
        max: theta <- theta + eta grad_theta L_con (Eq. 2)
        min: (phi, psi) <- (phi, psi) - eta grad_{phi, psi}(L + lambda CE + mu L_con) (Eq. 3)

    L is the host's loss. Equations 5 to 7 divide by the temperatures; the published numbers come from code that multiplies [BR-code].
    phi_g: the received base, constant; the projection P_theta, K -> 256 -> 256 -> 128 [BR], is averaged like the model. The k-th
    sample of the batch is paired with pseudo-sample k (modulo their number), mean over the batch's true rows. Each step takes both
    lines, the max step with the features detached, by the host's own rule (`correct`, momentum, decay), the min step with the new
    theta, which it leaves alone. Both steps share one forward pass. Of the two, running statistics are those of the real batch; phi_g
    reads the client's current ones. It acts where an uploaded base is trained. Tested: the host's model; P is no part of it.
    `PseudoData` says how x_p is made: by default means of ten samples of one random client each, y_p uniform.

    Table 4: component 1: contrast_weight=0; + min step: max_step=False; component 2: pseudo_weight=0; without max step: and
    max_step=False (theta stays as it started [inferred]).

    Attributes:
        pseudo_weight: lambda; 1.0 on RotatedMNIST and CIFAR100, 0.1 on CIFAR10 and PACS [BR]; 1.0 everywhere [BR-code].
        contrast_weight: mu; 0.5 [BR, BR-code].
        tau_1, tau_2: 2.0 [BR, BR-code].
        max_step: False leaves out the max step.
    """

    mixes_samples: ClassVar[bool] = True

    pseudo_weight: NonNegative = 1.0
    contrast_weight: NonNegative = 0.5
    tau_1: NonNegative = 2.0
    tau_2: NonNegative = 2.0
    max_step: bool = True

    @property
    def learns(self) -> bool:
        """Whether theta takes max steps."""
        return self.max_step and self.contrast_weight > 0

    def acts(self, ctx: Context) -> bool:
        """Whether the phase trains an uploaded base."""
        phase, weights = ctx.phase, (self.pseudo_weight, self.contrast_weight)
        return any(weights) and phase is not None and trains(phase) and ctx.role == "shared" and ctx.trains("base")

    # ---- on the host -------------------------------------------------------------------------------------------------------
    def layout(self, setup: Setup) -> dict[str, Part]:
        parts = super().layout(setup)
        if parts["base"].kind != "shared":
            raise UserError("FedBR needs a host whose base is shared and trained, as FedAvg's")
        if self.contrast_weight == 0:
            return parts
        pairs = list(pairwise((setup.features, 256, 256, 128)))
        theta = setup.module("fedbr/projection", lambda: nn.ModuleList(nn.Linear(a, b) for a, b in pairs))
        return parts | {"projection": Part("shared" if self.max_step else "frozen", theta)}

    def phases(self, clock: Clock) -> list[Phase]:
        phases = super().phases(clock)
        return [phase.joined("projection", "base") for phase in phases] if self.learns else phases

    # ---- one client --------------------------------------------------------------------------------------------------------
    def begin(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        local = super().begin(common, own, client, ctx)
        if self.contrast_weight == 0 or self.mixes or ctx.task.base.has_buffers:
            return local
        return local | Tree(teacher=self.received_features(common.supplied.pseudo, ctx))  # the same at every step

    def step(self, local: Tree, batch: Tree, ctx: Context) -> Tree:
        if not (self.learns and self.acts(ctx)):
            return super().step(local, batch, ctx)
        others = tuple(group for group in ctx.kinds if group != "projection" and ctx.trains(group))
        return super().step(local, batch, ctx.at(phase=replace(ctx.phase, train=others)))

    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        value, out = super().loss(params, local, batch, ctx)
        if not self.acts(ctx):
            return value, out
        x, labels = self.pseudo_batch(batch, ctx)
        student = self.forward(params, x, ctx)
        value = value + self.pseudo_weight * F.cross_entropy(student.logits, labels)
        if self.contrast_weight == 0:
            return value, out
        z_global = local.teacher if "teacher" in local else self.received_features(x, ctx)
        pair = torch.arange(len(batch.y), device=x.device) % len(x)
        features = (student.z[pair], z_global[pair], out.z)
        theta, keep = params.projection, out.get("keep", Tree())
        if self.learns:
            moved = self.ascend(theta, [z.detach() for z in features], local, batch, ctx)
            theta, keep = moved.params.projection, keep | moved
        value = value + self.contrast_weight * self.contrast(theta, *features, batch)
        return value, out | Tree(keep=keep)

    def received_features(self, x: Tensor, ctx: Context) -> Tensor:
        """phi_g(x) [P, K]."""
        return ctx.task.base(ctx.common.params.base, ctx.buffers.get("base", Tree()), x, False)[0]

    def ascend(self, theta: Tree, features: list[Tensor], local: Tree, batch: Tree, ctx: Context) -> Tree:
        """What changed in `local` by one step up L_con (Eq. 2)."""

        def opposite(trained: Tree) -> tuple[Tensor, Tree]:
            return -self.contrast(trained.projection, *features, batch), Tree()

        grads, _ = ctx.differentiate(opposite, Tree(projection=theta))
        return ctx.descend(local, self.correct(grads, local, ctx))

    def contrast(self, theta: Tree, z_pseudo: Tensor, z_global: Tensor, z_real: Tensor, batch: Tree) -> Tensor:
        """L_con of pairs [B, K] (Eqs. 5 to 7), mean over the batch's true rows."""
        anchor, same, other = (perceptron(theta, z) for z in (z_pseudo, z_global, z_real))
        f1 = self.tau_1 * F.cosine_similarity(anchor, same)
        f2 = self.tau_2 * F.cosine_similarity(anchor, other)
        return mean(-F.logsigmoid(f1 - f2), batch)
