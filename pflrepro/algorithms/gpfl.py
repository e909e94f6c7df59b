"""GPFL (ICCV 2023): global guidance by category embeddings, a personalised route by a conditional valve."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pflrepro.algorithms.contract import Method, cross_entropy
from pflrepro.algorithms.phases import Clock, Part, Phase, as_kind
from pflrepro.algorithms.task import Context, Setup
from pflrepro.checked import NonNegative
from pflrepro.products import linear
from pflrepro.trees import Tree, select

BRANCHES = ("scale", "shift")  # of the valve: gamma and beta


@dataclass(frozen=True)
class CategoryEmbeddings(Method):
    """GPFL's global category embeddings (GCE): a shared table C [U, K] that guides the features f^G [B, K] of every class.

    Adds to the loss mean_b [-log softmax_u cos(f^G_b, C[u]) at y_b] (Eq. 8) + guidance * ||f^G - C^[y]||_F (Eq. 9), C^ the embeddings
    as received, constant. Without a valve f^G are the features themselves. The head stays at home.

    Attributes:
        guidance: lambda; 0.01 for the papers' CNN and MLP, 0.0001 ResNet-18 and fastText, 0.01 HAR-CNN [GPFL-code run script].
        decay: mu, weight decay of the embeddings (adds mu w to the gradient); 0.1, 0, 1.0 likewise.
    """

    guidance: NonNegative = 0.01
    decay: NonNegative = 0.1

    def layout(self, setup: Setup) -> dict[str, Part]:
        parts = as_kind(super().layout(setup), "personal", "head")
        table = setup.normal("gpfl/embeddings", setup.classes, setup.features)  # N(0, 1), as nn.Embedding
        return parts | {"embeddings": Part("shared", Tree(weight=table))}

    def phases(self, clock: Clock) -> list[Phase]:
        return _decaying(super().phases(clock), embeddings=self.decay)

    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        value, out = super().loss(params, local, batch, ctx)
        guided = self.guided_route(params, out.z)
        received = ctx.common.params.embeddings.weight
        return value + self.guide(guided, params.embeddings.weight, received, batch), out

    def guided_route(self, params: Tree, z: Tensor) -> Tensor:
        """f^G [B, K] of the features z."""
        return z

    def guide(self, guided: Tensor, embeddings: Tensor, received: Tensor, batch: Tree) -> Tensor:
        """L_alg + lambda L_mlg of f^G [B, K] under C and C^ [U, K]."""
        return self.angle(guided, embeddings, batch) + self.guidance * self.magnitude(guided, received, batch)

    def angle(self, guided: Tensor, embeddings: Tensor, batch: Tree) -> Tensor:
        """L_alg (Eq. 8), at temperature 1."""
        cosines = F.normalize(guided, dim=1, eps=1e-12) @ F.normalize(embeddings, dim=1, eps=1e-12).T
        return cross_entropy(cosines, batch)

    def magnitude(self, guided: Tensor, received: Tensor, batch: Tree) -> Tensor:
        """L_mlg (Eq. 9), the Frobenius norm of the batch's B x K difference [GPFL-code]."""
        squares = ((guided - received[batch.y]) ** 2).sum(1)
        return ((squares * batch.mask).sum() + 1e-24).sqrt()


@dataclass(frozen=True)
class ConditionalValve(Method):
    """GPFL's conditional valve (CoV) between base and head: the head reads f^P = CoV(f, p), the guidance f^G = CoV(f, g).

    CoV(f, c) = ReLU((gamma(c) + 1) f + beta(c)), with gamma(c) = LayerNorm(ReLU(A_1 c + a_1)) and
    beta(c) = LayerNorm(ReLU(A_2 c + a_2)); eps of the layer norms 1e-5. The valve is shared, the head stays at home.
    Here the conditions are constants, p = (1..1) and g = (0..0); GPFL makes them of the category embeddings.

    A client trains the layers A [K, K] in a form of 2 K numbers: the conditions c = (g, p) [2, K] stay for the whole round, so every
    gradient is d^T c, with d [2, K] that of the outputs A c^T, and A = s A_0 + D^T c with A_0 as received. SGD with any rate, decay
    and momentum takes s from 1 and D from 0 to what it would make of A: d is the gradient of D, that of s is 0.

    Attributes:
        decay: mu, weight decay of the valve, and of GPFL's embeddings (adds mu w to the gradient); 0.1 for the papers' CNN and MLP,
            0 ResNet-18 and fastText, 1.0 HAR-CNN [GPFL-code run script].
    """

    decay: NonNegative = 0.1

    def layout(self, setup: Setup) -> dict[str, Part]:
        parts, k = as_kind(super().layout(setup), "personal", "head"), setup.features
        layers = {"scale": nn.Linear, "scale_norm": nn.LayerNorm, "shift": nn.Linear, "shift_norm": nn.LayerNorm}
        sizes = {nn.Linear: (k, k), nn.LayerNorm: (k,)}
        drawn = {name: setup.module(f"gpfl/{name}", partial(layer, *sizes[layer])) for name, layer in layers.items()}
        valve = Tree({f"{name}.{leaf}": value for name, layer in drawn.items() for leaf, value in layer.items()})
        condition = Tree(g=setup.zeros(k), p=setup.zeros(k))
        return parts | {"valve": Part("shared", valve), "condition": Part("received", condition)}

    def phases(self, clock: Clock) -> list[Phase]:
        return _decaying(super().phases(clock), valve=self.decay)

    def model(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        ones = torch.ones_like(common.params.valve["scale.bias"])
        return super().model(common, own, client, ctx) | Tree(condition=Tree(g=torch.zeros_like(ones), p=ones))

    def begin(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        local = super().begin(common, own, client, ctx)
        valve, c = Tree(local.params.valve), _rows(local.params.condition)
        constants = Tree(products=c @ c.T)  # [2, 2]
        for name in BRANCHES:
            weight = valve.pop(f"{name}.weight")
            valve[f"{name}.kept"], valve[f"{name}.moved"] = torch.ones_like(weight[0, 0]), torch.zeros_like(c)
            constants[name] = linear(c, weight)
        return _replaced(local, Tree(valve=valve, condition=local.params.condition | constants))

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        return super().finish(self._whole(local, ctx), client, ctx)

    def _whole(self, local: Tree, ctx: Context) -> Tree:
        """`local` with the valve's layers themselves, A = s A_0 + D^T c."""
        params = local.params
        valve, c = Tree(params.valve), _rows(params.condition)
        for name in BRANCHES:
            kept, moved = valve.pop(f"{name}.kept"), valve.pop(f"{name}.moved")
            valve[f"{name}.weight"] = kept * ctx.common.params.valve[f"{name}.weight"] + moved.T @ c
        return _replaced(local, Tree(valve=valve, condition=params.condition.only(("g", "p"))))

    def gates(self, params: Tree, *conditions: Tensor) -> list[Tree]:
        """For each condition c [K] its `scale`, gamma(c) + 1, and `shift`, beta(c)."""
        c = torch.stack(conditions)
        return self._gates(params.valve, {name: linear(c, params.valve[f"{name}.weight"]) for name in BRANCHES})

    def _gates(self, w: Tree, products: Mapping[str, Tensor]) -> list[Tree]:
        """The gates of the layers' products A c^T [2, K]."""

        def branch(name: str) -> Tensor:
            raw = F.relu(products[name] + w[f"{name}.bias"])
            return F.layer_norm(raw, raw.shape[1:], w[f"{name}_norm.weight"], w[f"{name}_norm.bias"])

        rows = zip((branch("scale") + 1).unbind(), branch("shift").unbind(), strict=True)
        return [Tree(scale=scale, shift=shift) for scale, shift in rows]

    def _both(self, params: Tree) -> Tree:
        """The gates of both conditions, of parameters in training or whole."""
        w, condition = params.valve, params.condition

        def product(name: str) -> Tensor:
            """A c^T = s A_0 c^T + (c c^T) D, with d itself as the gradient of D."""
            moved = w[f"{name}.moved"]
            value = w[f"{name}.kept"] * condition[name] + condition.products @ moved
            return value.detach() + (moved - moved.detach())

        if f"{BRANCHES[0]}.moved" in w:
            guided, personal = self._gates(w, {name: product(name) for name in BRANCHES})
        else:
            guided, personal = self.gates(params, condition.g, condition.p)
        return Tree(guided=guided, personal=personal)

    def valve(self, z: Tensor, gate: Tree) -> Tensor:
        """CoV(f, c) of f = z [B, K] and the gate of c."""
        return F.relu(torch.addcmul(gate.shift, gate.scale, z))

    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        return super().loss(params | Tree(gate=self._both(params)), local, batch, ctx)

    def embed(self, params: Tree, z: Tensor, ctx: Context) -> Tensor:
        gate = params.gate if "gate" in params else self._both(params)
        return self.valve(super().embed(params, z, ctx), gate.personal)

    def guided_route(self, params: Tree, z: Tensor) -> Tensor:
        return self.valve(z, params.gate.guided)


@dataclass(frozen=True)
class GPFL(ConditionalValve, CategoryEmbeddings):
    """GPFL: category embeddings C guide one route of the features, a personal head reads another; a conditional valve makes both.

        CoV(f, c) = ReLU((gamma(c) + 1) f + beta(c))
        gamma(c) = LayerNorm(ReLU(A_1 c + a_1)), beta(c) = LayerNorm(ReLU(A_2 c + a_2))
        f^P = CoV(f, p_i), p_i = sum_u alpha_i^u C[u] (Eq. 7)
        f^G = CoV(f, g), g = (1/U) sum_u C[u] (Eq. 5)
        CE(psi(f^P), y) + L_alg + guidance L_mlg
        L_alg = mean_b(-log softmax_u(cos(f^G_b, C[u]))[y_b]) (Eq. 8)
        L_mlg = ||f^G - C^[y]||_F (Eq. 9)

    C^ are the embeddings as received; Eq. 7 is taken without its 1/U [GPFL-code]; alpha_i^u are the shares of the classes in the
    client's training samples. Base, valve and embeddings are averaged with p_i of the run; the head stays at home. The conditions are
    constant through a round, and their C is the client's own after its local training [GPFL-code]; in round 0 both conditions are
    zeros, and a client that was absent in the last round takes those of the embeddings that the server had before it.
    Tested: psi(CoV(phi(x), p_i)) with what was received and the own head and p_i.
    """

    gathers: ClassVar[dict[str, str]] = {
        "server/t": "the number of rounds",
        "server/previous": "the embeddings of the round before",
        "clients/seen": "the round of the last training",
        "clients/condition": "computed from the embeddings and the class shares",
    }

    def init_server(self, setup: Setup) -> Tree:
        server = super().init_server(setup)
        return server | Tree(previous=torch.zeros_like(server.params.embeddings.weight), t=setup.zeros())

    def init_client(self, setup: Setup, info: Tree) -> Tree:
        nothing = setup.parts["condition"].params
        return super().init_client(setup, info) | Tree(condition=nothing, seen=setup.zeros() - 1)

    def send(self, server: Tree, cohort: Tree) -> tuple[Tree, Tree]:
        common, own = super().send(server, cohort)
        return common | server.only(["previous", "t"]), own

    def received(self, common: Tree, own: Tree) -> Tree:
        known = ["previous", "t"]  # from the round before, and by counting
        return super().received(common.without(known), own)

    def condition(self, embeddings: Tensor, info: Tree) -> Tree:
        """g = (1/U) sum_u C[u] (Eq. 5) and p_i = sum_u alpha_i^u C[u] (Eq. 7)."""
        shares = info.counts.to(embeddings.dtype) / info.n.clamp(min=1)
        return Tree(g=embeddings.mean(0), p=shares @ embeddings)

    def model(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        received = super().model(common, own, client, ctx)
        # `seen` counts the rounds finished when this client last trained: equal to the server's count, it took part last round
        took_part = client.seen == common.t
        absent = self.condition(common.previous, ctx.info)
        return received | Tree(condition=select(took_part, client.condition, absent))

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        kept, upload = super().finish(local, client, ctx)
        own = self.condition(local.params.embeddings.weight, ctx.info)
        return kept | Tree(condition=own, seen=ctx.common.t + 1), upload

    def aggregate(self, server: Tree, uploads: Tree, cohort: Tree, ctx: Context) -> Tree:
        new = super().aggregate(server, uploads, cohort, ctx)
        return new | Tree(previous=server.params.embeddings.weight, t=server.t + 1)


def _rows(condition: Tree) -> Tensor:
    """The two conditions as rows, g above p."""
    return torch.stack((condition.g, condition.p))


def _replaced(local: Tree, groups: Tree) -> Tree:
    """`local` with these groups of its parameters in place of its own, which have other entries."""
    return local.without(["params"]) | Tree(params=local.params.without(groups) | groups)


def _decaying(phases: list[Phase], **decay: float) -> list[Phase]:
    """The phases with these weight decays of groups."""
    return [replace(phase, decay={**phase.decay, **decay}) for phase in phases]
