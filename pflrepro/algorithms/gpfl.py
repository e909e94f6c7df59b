"""GPFL (ICCV 2023): global guidance by category embeddings, a personalised route by a conditional valve."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pflrepro.algorithms.contract import Method, cross_entropy
from pflrepro.algorithms.phases import Clock, Part, Phase
from pflrepro.algorithms.task import Context, Setup
from pflrepro.errors import check_word
from pflrepro.trees import Tree


@dataclass(frozen=True)
class GPFL(Method):
    """GPFL: f^P = CoV(f, p_i) feeds the personal head, f^G = CoV(f, g) is guided by the category embeddings C.

    gamma(c) = LayerNorm(ReLU(A_1 c + a_1)), beta(c) = LayerNorm(ReLU(A_2 c + a_2)), CoV(f, c) = ReLU((gamma(c) + 1) f + beta(c)).
    Loss (batch of B): CE(psi(f^P), y) + mean_b [-log softmax_u cos(f^G_b, C[u]) at y_b] (Eq. 8)
    + guidance * ||f^G - C^[y]|| (Eq. 9), C^ the embeddings as received. Base, valve and embeddings are averaged with p_i; the head
    stays at home. Conditions: g = (1/U) sum_u C[u] (Eq. 5), p_i = sum_u alpha_i^u C[u] (Eq. 7), alpha_i^u the class shares.
    Tested: psi(CoV(phi(x), p_i)) with what was received and the own head and p_i.

    Attributes:
        guidance: lambda; 0.01 for the papers' CNN and MLP, 0.0001 ResNet-18 and fastText, 0.01 HAR-CNN [GPFL-code run script].
        decay: mu, weight decay of valve and embeddings (adds mu w to the gradient); 0.1, 0, 1.0 likewise [GPFL-code run script].
            The paper writes mu ||V||_2 + mu ||C||_2.
        conditions: where g and p_i come from. `own` [GPFL-code]: from the client's embeddings after its local training (zeros
            before its first round; a client that was absent uses the server's previous ones). `received` [GPFL Alg. 1]: from C^.
        average_condition: True divides p_i by U as Eq. 7 prints; False [GPFL-code].
        magnitude: `batch` [GPFL-code]: the Frobenius norm of the B x K difference; `sample` [GPFL Eq. 9]: mean of row norms.
    """

    guidance: float = 0.01
    decay: float = 0.1
    conditions: str = "own"
    average_condition: bool = False
    magnitude: str = "batch"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_word("source of GPFL's conditions", self.conditions, ("own", "received"))
        check_word("form of GPFL's magnitude guidance", self.magnitude, ("batch", "sample"))

    # ---- state -------------------------------------------------------------------------------------------------------------
    def layout(self, setup: Setup) -> dict[str, Part]:
        parts, k = super().layout(setup), setup.features
        layers = ("scale", "scale_norm", "shift", "shift_norm")
        valve = {
            name: setup.module(
                f"gpfl/{name}", lambda name=name: nn.LayerNorm(k) if name.endswith("norm") else nn.Linear(k, k)
            )
            for name in layers
        }
        flat = {f"{name}.{leaf}": value for name, tree in valve.items() for leaf, value in tree.items()}
        embeddings = setup.normal("gpfl/embeddings", setup.classes, k)  # N(0, 1), as nn.Embedding
        return parts | {
            "head": replace(parts["head"], kind="personal"),
            "valve": Part("shared", Tree(flat)),
            "embeddings": Part("shared", Tree(weight=embeddings)),
            "condition": Part("received", Tree(g=setup.zeros(k), p=setup.zeros(k))),
        }

    def init_server(self, setup: Setup) -> Tree:
        server = super().init_server(setup)
        if self.conditions == "received":
            return server
        return server | Tree(previous=torch.zeros_like(server.params.embeddings.weight), t=setup.zeros())

    def init_client(self, setup: Setup, info: Tree) -> Tree:
        client = super().init_client(setup, info)
        if self.conditions == "received":
            return client
        return client | Tree(condition=setup.parts["condition"].params, seen=setup.zeros() - 1)

    def phases(self, clock: Clock) -> list[Phase]:
        return [Phase(decay={"valve": self.decay, "embeddings": self.decay})]

    def send(self, server: Tree, cohort: Tree) -> tuple[Tree, Tree]:
        return server, Tree()

    # ---- conditions --------------------------------------------------------------------------------------------------------
    def condition(self, embeddings: Tensor, info: Tree) -> Tree:
        """g = (1/U) sum_u C[u] and p_i = sum_u alpha_i^u C[u] (with 1/U if `average_condition`)."""
        shares = info.counts.to(embeddings.dtype) / info.n.clamp(min=1)
        p = shares @ embeddings
        return Tree(g=embeddings.mean(0), p=p / len(embeddings) if self.average_condition else p)

    def model(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        received = super().model(common, own, client, ctx)
        if self.conditions == "received":
            return received | Tree(condition=self.condition(common.params.embeddings.weight, ctx.info))
        # `seen` counts the rounds finished when this client last trained: equal to the server's count, it took part last round
        took_part = client.seen == common.t
        absent = self.condition(common.previous, ctx.info)
        return received | Tree(condition=client.condition.map(lambda a, b: torch.where(took_part, a, b), absent))

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        kept, upload = super().finish(local, client, ctx)
        if self.conditions == "received":
            return kept, upload
        own = self.condition(local.params.embeddings.weight, ctx.info)
        return kept | Tree(condition=own, seen=ctx.common.t + 1), upload

    def aggregate(self, server: Tree, uploads: Tree, cohort: Tree, ctx: Context) -> Tree:
        new = super().aggregate(server, uploads, cohort, ctx)
        if self.conditions == "received":
            return new
        return new | Tree(previous=server.params.embeddings.weight, t=server.t + 1)

    # ---- the two routes ----------------------------------------------------------------------------------------------------
    def gates(self, params: Tree, *conditions: Tensor) -> list[Tree]:
        """For each condition c [K] its `scale`, gamma(c) + 1, and `shift`, beta(c); eps of the layer norm 1e-5."""
        w, c = params.valve, torch.stack(conditions)

        def branch(name: str) -> Tensor:
            raw = F.relu(F.linear(c, w[f"{name}.weight"], w[f"{name}.bias"]))
            return F.layer_norm(raw, raw.shape[1:], w[f"{name}_norm.weight"], w[f"{name}_norm.bias"])

        rows = zip((branch("scale") + 1).unbind(), branch("shift").unbind(), strict=True)
        return [Tree(scale=scale, shift=shift) for scale, shift in rows]

    def valve(self, z: Tensor, gate: Tree) -> Tensor:
        """CoV(f, c) = ReLU((gamma(c) + 1) f + beta(c)), f [B, K]."""
        return F.relu(torch.addcmul(gate.shift, gate.scale, z))

    def embed(self, params: Tree, z: Tensor, ctx: Context) -> Tensor:
        gate = params.gate if "gate" in params else self.gates(params, params.condition.p)[0]
        return self.valve(super().embed(params, z, ctx), gate)

    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        # both conditions pass the valve's layers together: these cost more than what they gate
        personal, guiding = self.gates(params, params.condition.p, params.condition.g)
        value, out = super().loss(params | Tree(gate=personal), local, batch, ctx)
        guided = self.valve(out.z, guiding)
        embeddings, received = params.embeddings.weight, ctx.common.params.embeddings.weight
        cosines = F.normalize(guided, dim=1, eps=1e-12) @ F.normalize(embeddings, dim=1, eps=1e-12).T
        squares = ((guided - received[batch.y]) ** 2).sum(1)
        if self.magnitude == "batch":
            magnitude = ((squares * batch.mask).sum() + 1e-24).sqrt()
        else:
            magnitude = ((squares + 1e-24).sqrt() * batch.mask).sum() / batch.mask.sum().clamp(min=1)
        return value + cross_entropy(cosines, batch) + self.guidance * magnitude, out
