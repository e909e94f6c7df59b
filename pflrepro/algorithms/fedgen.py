"""FedGen (Zhu et al., ICML 2021): a generator of features, trained on the server against the clients' heads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pflrepro.algorithms.contract import Method, mean, one_hot
from pflrepro.algorithms.phases import Clock, Draw, Part, Phase
from pflrepro.algorithms.task import Context, Setup
from pflrepro.checked import AtLeastOne, Between, Count, NonNegative
from pflrepro.errors import UserError
from pflrepro.products import linear
from pflrepro.trees import Tree


@dataclass(frozen=True)
class FedGen(Method):
    """FedGen, simplified [LIB], most likely what DBE ran [inferred]: the heads also learn from features G(y', e) of a generator.

        client: CE(f(x), y) + weight CE(psi(G(y', e)), y')
        server, by Adam: CE(sum_i p_i psi_i(G(y', e)), y')
        G(y', e) = Linear(ReLU(BatchNorm(Linear([e, y']))))

    y' are labels as frequent as in all training data, one-hot where G reads them; e uniform noise in [0, 1); psi_i the uploaded heads.
    G always has batch statistics; the bias before the batch norm is left out: its true gradient is 0, and Adam would blow up the
    rounding. With a personal bias (PRBM, DBE) G imitates z, and heads read G as it is; no code of the combination is released
    [inferred]. w is averaged with p_i. Tested: w.

    Attributes:
        weight: of the generated term; 1 [LIB, off].
        server_steps: Adam steps a round; 1000 [LIB].
        generator_rate: learning rate of Adam; 0.005 [LIB].
        noise: length of e; 512 [LIB].
        hidden: width of G; 512 [LIB].
        rows: generated features a step; 10, the batch size of DBE's protocol [LIB: the batch size].
    """

    gathers: ClassVar[dict[str, str]] = {"server/adam": "moments of gradients"}

    weight: NonNegative = 1.0
    server_steps: Count = 1000
    generator_rate: NonNegative = 0.005
    noise: AtLeastOne = 512
    hidden: AtLeastOne = 512
    rows: Annotated[int, Between(2)] = 10  # of one alone batch statistics are 0

    def layout(self, setup: Setup) -> dict[str, Part]:
        if setup.parts["head"].buffers.has_leaves():
            raise UserError(
                "FedGen's server asks the clients' heads, and has no running statistics for a batch norm in them"
            )
        generator = Tree(
            first=setup.module("fedgen/first", lambda: nn.Linear(self.noise + setup.classes, self.hidden, bias=False)),
            norm=setup.module("fedgen/norm", lambda: nn.BatchNorm1d(self.hidden)),
            second=setup.module("fedgen/second", lambda: nn.Linear(self.hidden, setup.features)),
        )
        return super().layout(setup) | {"generator": Part("server", generator)}

    def init_server(self, setup: Setup) -> Tree:
        server = super().init_server(setup)
        zeros = server.params.generator.map(torch.zeros_like)
        return server | Tree(adam=Tree(m=zeros, v=zeros, k=setup.zeros()))

    def phases(self, clock: Clock) -> list[Phase]:
        draws = {"u": Draw("uniform", (self.rows,)), "noise": Draw("uniform", (self.rows, self.noise))}
        rate = {"generator": self.generator_rate}
        server = Phase("generator", "server", "none", steps=self.server_steps, train=("generator",), rate=rate)
        return [Phase().drawing(**draws), server.drawing(**draws)]

    # ---- generated features --------------------------------------------------------------------------------------------------
    def labels(self, u: Tensor, ctx: Context) -> Tensor:
        """Labels from uniform numbers u in [0, 1): y' = the first class whose cumulative share of all training data exceeds u."""
        counts = ctx.task.info.counts.sum(0)
        cumulative = counts.cumsum(0).to(u.dtype) / counts.sum()
        below_one = u.clamp(max=1 - torch.finfo(u.dtype).eps)  # a float64 draw may round up to 1
        return (below_one[:, None] >= cumulative).sum(1)

    def generate(self, generator: Tree, noise: Tensor, labels: Tensor, ctx: Context) -> Tensor:
        """G(labels, noise) [rows, K]."""
        hot = one_hot(labels, ctx.task.classes, noise.dtype)
        h = linear(torch.cat([noise, hot], 1), generator.first.weight)
        all_rows = Tree(mask=torch.ones_like(noise[:, 0]))
        centred = h - mean(h, all_rows)
        scale = (mean(centred**2, all_rows) + 1e-5).rsqrt()
        h = generator.norm.weight * centred * scale + generator.norm.bias
        return linear(F.relu(h), generator.second.weight, generator.second.bias)

    def classify(self, head: Tree, z: Tensor, ctx: Context) -> Tensor:
        """psi(z) [rows, C]: past what plug-ins put between base and head."""
        return ctx.task.head(head, ctx.buffers.get("head", Tree()), z, False)[0]

    # ---- client --------------------------------------------------------------------------------------------------------------
    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        value, out = super().loss(params, local, batch, ctx)
        labels = self.labels(batch.u, ctx)
        features = self.generate(ctx.common.params.generator, batch.noise, labels, ctx)
        return value + self.weight * F.cross_entropy(self.classify(params.head, features, ctx), labels), out

    # ---- server --------------------------------------------------------------------------------------------------------------
    def serve(self, server: Tree, uploads: Tree, batch: Tree, cohort: Tree, ctx: Context) -> Tree:
        labels = self.labels(batch.u, ctx)

        def objective(trained: Tree) -> tuple[Tensor, Tree]:
            features = self.generate(trained.generator, batch.noise, labels, ctx)
            logits = ctx.each(partial(self.classify, ctx=ctx), uploads.params.head, features)  # [m, rows, C]
            return F.cross_entropy(torch.tensordot(cohort.p, logits, 1), labels), Tree()

        grads, _ = ctx.differentiate(objective, server.params.only(["generator"]))
        return self.adam(server, grads.generator, ctx)

    def adam(self, server: Tree, grads: Tree, ctx: Context) -> Tree:
        """One step of Adam on the generator (betas 0.9 and 0.999, epsilon 1e-8).

        m <- 0.9 m + 0.1 g, v <- 0.999 v + 0.001 g^2, w <- w - rate m / (1 - 0.9^k) / (sqrt(v / (1 - 0.999^k)) + 1e-8),
        in few passes over memory: a round takes a thousand of these steps.
        """
        w, k = server.params.generator, server.adam.k + 1
        rate, spread = ctx.rate("generator") / (1 - 0.9**k), (1 - 0.999**k).sqrt()
        m = server.adam.m.lerp(grads, 0.1)
        v = server.adam.v.map(lambda v, g: (0.999 * v).addcmul_(g, g, value=0.001), grads)
        moved = w.map(lambda w, m, v: torch.addcdiv(w, m * -rate, v.sqrt().div_(spread).add_(1e-8)), m, v)
        return Tree(params=Tree(generator=moved), adam=Tree(m=m, v=v, k=k))
