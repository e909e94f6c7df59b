"""GRP-FED (Chou et al., 2021): a fair global model, and personal extractors held near its features by a discriminator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pflrepro.algorithms.adaptive_power import AdaptivePower
from pflrepro.algorithms.contract import mean
from pflrepro.algorithms.phases import Part
from pflrepro.algorithms.task import Context, Setup
from pflrepro.errors import UserError, check_range, check_words
from pflrepro.models.layers import perceptron
from pflrepro.trees import Tree, select


@dataclass(frozen=True)
class GRPFED(AdaptivePower):
    """GRP-FED: adaptive aggregation of F^g and C, beside it a personal extractor F_m^l and a discriminator D_m.

    Every batch: (1) F^g and C take a step on L^g = J(C(F^g(x)), y) (Eq. 1); (2) F_m^l takes a step on
    beta J(C(F_m^l(x)), y) + (1 - beta) L_R, C and D_m fixed (Eqs. 4, 5); (3) D_m, the probability that a feature is the global
    extractor's, takes a step on L_D with both extractors fixed. Momentum is the run's, kept apart for each of the three.
    Server, sigma the standard deviation of the cohort's losses L_m (Eqs. 2, 3; `AdaptivePower` has the other readings):
        q <- max(0, q + q_step (sigma - sigma_old) / ((sigma + sigma_old) / 2)), unchanged in the first round [inferred];
        lambda_m = L_m^q / sum_j L_j^q, over the cohort [inferred]; theta <- sum_m lambda_m theta_m.
    A client without a batch reports the loss 0. Tested: C(F_m^l(x)), C as received; the global model is what the server holds.

    Attributes:
        beta: weight of the local loss; 0.5 [GRP 4.3]. 1: no regulariser.
        discriminator_loss: `bce`, -log D(f^g) - log(1 - D(f^l)), the default since the printed one, `paper`,
            log(1 - D(f^g)) + log D(f^l), has no lower bound; both pull the same way.
        regulariser: `paper`, log(1 - D(f^l)) (Eq. 5), or `non-saturating`, -log D(f^l).
        classifier: C of step (2): `trained`, the client's current one (section 3.3, recommended), or `received` (Alg. 1, line 28).
        reference: f^g of step (3): of the `received` extractor (line 34 has no client index; the steadier choice) or the `trained` one.
        reported: L_m: `last-epoch`, mean over the batches of the last local epoch, before their steps (recommended: one batch is
            noise, and Eq. 1 is a mean over the client); `received`, the received model's before training; `last-batch` (line 39).
        tested_classifier: `received`, the latest C, or `own`, the C_m that the client last trained (both [?]).
        extractor_start: F_m^l: `copy` of the common initial extractor, or `own`, a draw for every client ("initialise" [?]).
        discriminator_start: D_m: `common`, one draw for all clients, or `own`, one for each [?].
        discriminator_width: hidden width of D_m: K -> width -> 1 with ReLU; 0: K ("two-layer" [GRP 4.1], width not given [?]).
        classifier_width: hidden width of C: K -> width -> classes; 0: the network's own head, whose width is K in the paper's
            networks here [?]. Others need a head of two layers (`ecg-resnet`, `resnet30`).
        personal_momentum: of F_m^l and D_m: `fresh` every round, as F^g's (recommended [?]), or `kept` by the client.
    """

    trees: ClassVar[tuple[str, ...]] = ("params", "personal")
    roles: ClassVar[tuple[str, ...]] = ("shared", "personal")
    recorded: ClassVar[str] = "shared"  # L^g, the loss that its server and its Figure 3 go by
    revision: ClassVar[int] = 2

    beta: float = 0.5
    discriminator_loss: str = "bce"
    regulariser: str = "paper"
    classifier: str = "trained"
    reference: str = "received"
    reported: str = "last-epoch"
    tested_classifier: str = "received"
    extractor_start: str = "copy"
    discriminator_start: str = "common"
    discriminator_width: int = 0
    classifier_width: int = 0
    personal_momentum: str = "fresh"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("GRP-FED's beta", self.beta, 0, 1)
        for option in ("discriminator_width", "classifier_width"):
            check_range(f"GRP-FED's {option}", getattr(self, option), 0, integer=True)
        check_words(self, "GRP-FED", _WORDS)

    # ---- state ---------------------------------------------------------------------------------------------------------------
    def layout(self, setup: Setup) -> dict[str, Part]:
        parts = super().layout(setup)
        if self.classifier_width:
            parts["head"] = replace(parts["head"], params=self.wide_classifier(parts["head"].params, setup))
        return parts | {"discriminator": Part("personal", self.discriminator(setup))}

    def discriminator(self, setup: Setup, client: str = "") -> Tree:
        """Initial weights of D: K -> width -> 1."""
        k = setup.features
        width = self.discriminator_width or k
        build = {"first": lambda: nn.Linear(k, width), "second": lambda: nn.Linear(width, 1)}
        layers = {name: setup.module(f"grpfed/{name}{client}", make) for name, make in build.items()}
        return Tree({f"{name}.{leaf}": value for name, tree in layers.items() for leaf, value in tree.items()})

    def wide_classifier(self, head: Tree, setup: Setup) -> Tree:
        """Initial weights of a head of two linear layers with another hidden width."""
        sizes = [tuple(leaf.shape) for leaf in head.leaves()]
        hidden, k, classes, width = sizes[0][0], setup.features, setup.classes, self.classifier_width
        if sizes != [(hidden,), (hidden, k), (classes,), (classes, hidden)]:
            raise UserError(
                "GRP-FED's classifier_width needs a network whose head has two linear layers, as ecg-resnet and resnet30"
            )
        layers = setup.module("grpfed/head", lambda: nn.ModuleList([nn.Linear(k, width), nn.Linear(width, classes)]))
        return head.refill(layers.leaves())

    def init_client(self, setup: Setup, info: Tree) -> Tree:
        client = super().init_client(setup, info)
        one, base, discriminator = int(info.id), setup.parts["base"].params, client.params.discriminator
        if self.extractor_start == "own":
            base = setup.network(f"grpfed/{one}").base
        if self.discriminator_start == "own":
            discriminator = self.discriminator(setup, f"/{one}")
        personal = Tree(base=base, discriminator=discriminator)
        client = client.without(["params"]) | Tree(personal=personal, params=client.params.without(["discriminator"]))
        if self.personal_momentum == "kept" and setup.momentum:
            client = client | Tree(velocity=personal.map(torch.zeros_like))
        return client | Tree(head=setup.parts["head"].params) if self.tested_classifier == "own" else client

    def model(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        return super().model(common, own, client, ctx) | client.personal.only(["base"]) | client.only(["head"])

    def begin(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        received, zero = ctx.pick(common.params, "shared"), torch.zeros_like(ctx.scalars.rate)
        local = super().begin(common, own, client, ctx)
        local = local | Tree(params=local.params | received, personal=client.personal)
        kept = client.only(["velocity"])
        return local | Tree(report=Tree(loss=zero, of=zero, step=zero)) | (kept and kept | Tree(taken=zero))

    # ---- one client ----------------------------------------------------------------------------------------------------------
    def step(self, local: Tree, batch: Tree, ctx: Context) -> Tree:
        if "velocity" in local:
            local = local | Tree(optimiser=Tree(personal=_velocity(local)), taken=torch.ones_like(local.taken))
        grads, local = self.gradient(local.params, local, batch, ctx)
        local = local | ctx.descend(local, self.correct(grads, local, ctx))
        classifier = (local if self.classifier == "trained" else ctx.common).params.head
        params = local.params | Tree(base=local.personal.base, head=classifier)
        grads, local = self.gradient(params, local, batch, ctx, role="personal")
        local = local | ctx.descend(local, grads.only(["base"]), "personal")
        return local | ctx.descend(local, self.discriminate(local, batch, ctx), "personal")

    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        value, out = super().loss(params, local, batch, ctx)
        if ctx.role == "personal":
            s = self.logit(local.personal.discriminator, out.z)
            regulariser = -F.softplus(s) if self.regulariser == "paper" else F.softplus(-s)  # log(1 - D) or -log D
            return self.beta * value + (1 - self.beta) * mean(regulariser, batch), out
        if self.scans:
            return value, out
        return value, out | Tree(keep=Tree(report=self.record(value.detach(), local.report, ctx)))

    def logit(self, discriminator: Tree, z: Tensor) -> Tensor:
        """The logit of D(z), the probability that z [B, K] is of the global extractor: [B]."""
        return perceptron(discriminator, z).squeeze(-1)

    def discriminate(self, local: Tree, batch: Tree, ctx: Context) -> Tree:
        """The gradient of L_D by D_m. Norm layers use the batch, as in training, and keep nothing of these passes."""

        def features(params: Tree, role: str) -> Tensor:
            statistics = local.get("buffers", Tree()).get(role, Tree())
            return self.forward(params, batch.x, ctx.at(role=role, buffers=statistics, training=True)).z.detach()

        of_global = features((local if self.reference == "trained" else ctx.common).params, "shared")
        of_local = features(local.params | local.personal.only(["base"]), "personal")

        def objective(trained: Tree) -> tuple[Tensor, Tree]:
            g, s = (self.logit(trained.discriminator, z) for z in (of_global, of_local))
            if self.discriminator_loss == "bce":
                return mean(F.softplus(-g) + F.softplus(s), batch), Tree()
            return -mean(F.softplus(g) + F.softplus(-s), batch), Tree()

        return ctx.differentiate(objective, local.personal.only(["discriminator"]))[0]

    def leave(self, local: Tree, sums: Tree, ctx: Context) -> Tree:
        changed = super().leave(local, sums, ctx)
        return changed if ctx.phase.scan or "velocity" not in local else changed | Tree(velocity=_velocity(local))

    # ---- the reported loss ---------------------------------------------------------------------------------------------------
    @property
    def scans(self) -> bool:
        return self.reported == "received"

    def record(self, value: Tensor, report: Tree, ctx: Context) -> Tree:
        """The report (a sum of losses, of how many, batches so far) with one more batch."""
        step, one = report.step + 1, torch.ones_like(report.of)
        if self.reported == "last-batch":
            return Tree(loss=value, of=one, step=step)
        steps = ctx.steps.train
        taken = torch.where(step > steps - steps // max(1, ctx.task.local_epochs), one, 0.0)
        return Tree(loss=report.loss + taken * value, of=report.of + taken, step=step)

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        kept, upload = super().finish(local, client, ctx)
        kept = kept | local.only(["personal", "velocity"]) | local.params.only(client.only(["head"]))
        return kept, upload if self.scans else upload | Tree(F=local.report.loss / local.report.of.clamp(min=1))

    def trained(self, local: Tree, ctx: Context) -> Tree:
        return super().trained(local, ctx) | local.personal.only(["base"])


def _velocity(local: Tree) -> Tree:
    """The momentum of F_m^l and D_m: what the client kept before the round's first step, the optimiser's from then on."""
    return select(local.taken > 0, local.optimiser.personal, local.velocity)


_WORDS = {
    "discriminator_loss": ("bce", "paper"),
    "regulariser": ("paper", "non-saturating"),
    "classifier": ("trained", "received"),
    "reference": ("received", "trained"),
    "reported": ("last-epoch", "received", "last-batch"),
    "tested_classifier": ("received", "own"),
    "extractor_start": ("copy", "own"),
    "discriminator_start": ("common", "own"),
    "personal_momentum": ("fresh", "kept"),
}
