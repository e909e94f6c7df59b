"""pFedFDA (McLaughlin and Su, NeurIPS 2024): a shared base under generative classifiers, fitted to every client's features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from pflrepro.algorithms import box, gaussian
from pflrepro.algorithms.contract import Method, one_hot
from pflrepro.algorithms.phases import Clock, Draw, Part, Phase
from pflrepro.algorithms.task import Context, Setup, Task
from pflrepro.checked import Between
from pflrepro.trees import Tree

TEST_ROWS = 3  # in a test, classes with fewer rows take mu_g [FDA-code]


@dataclass(frozen=True)
class PFedFDA(Method):
    """pFedFDA: the head is never trained; it is the Bayes classifier of Gaussian features with the client's class priors.

        z | y = c ~ N(mu_c, Sigma), h_i(mu, Sigma, pi_i)
        mu~_i = beta_i mu^_i + (1 - beta_i) mu_g, Sigma~_i = beta_i Sigma^_i + (1 - beta_i) Sigma_g [Alg. 1, lines 10, 11]
        beta_i = argmin_{beta in [0, 1]} CE_k(h_i(mu~_i, Sigma~_i, pi_i)) (Eq. 9)
        server: theta = sum_i p_i theta_i, mu_g = sum_i p_i mu~_i, Sigma_g = sum_i p_i Sigma~_i [FDA-code]

    The base is trained under h_i(mu_g, Sigma_g, pi_i), every batch's features and labels stored (Alg. 1, line 7); of them are the
    local estimates mu^_i, Sigma^_i (line 8; Eqs. 6 to 8). CE_k is the k-fold cross-entropy of the interpolated classifier (line 9);
    beta_i is 0 for a client without a class of k rows [FDA-code]. Start: mu_g uniform in [0, 1) [FDA-code], Sigma_g = I.
    Tested: the received base; the client passes once over its training part in evaluation mode (without the incomplete batch where the
    run drops it [FDA-code]), solves beta_i and interpolates anew. After local training: the trained base with h_i(mu~_i, Sigma~_i,
    pi_i). Every search is one for the minimum over [0, 1], as the paper's L-BFGS-B, and starts at 0.5 [FDA-code]; `beta` in the
    client's state is that of its last local training, (for means, for covariance). A client that never trained is tested in the same
    way: the paper's new clients.

    Attributes:
        coefficients: `single` beta (recommended by the paper; Table 5's SB), `separate` ones for means and covariance (MB), or
            `none`: beta = 1, local statistics only (NB).
        folds: k; 2 [FDA-code; lost in the paper].
    """

    gathers: ClassVar[dict[str, str]] = {
        "server/mu": "means of features",
        "server/sigma": "covariance of features",
        "clients/beta": "the last interpolation",
    }

    coefficients: Literal["single", "separate", "none"] = "single"
    folds: Annotated[int, Between(2)] = 2

    # ---- the server's state, and the classifier made of it -------------------------------------------------------------------
    def layout(self, setup: Setup) -> dict[str, Part]:
        linear = Tree(weight=setup.zeros(setup.classes, setup.features), bias=setup.zeros(setup.classes))
        return super().layout(setup) | {"head": Part("received", linear)}

    def init_server(self, setup: Setup) -> Tree:
        mu = torch.special.ndtr(
            setup.normal("pfedfda/means", setup.classes, setup.features)
        )  # its own quantile: uniform
        sigma = torch.diag(setup.zeros(setup.features) + 1)
        return super().init_server(setup) | Tree(mu=mu, sigma=sigma)

    def init_client(self, setup: Setup, info: Tree) -> Tree:
        return super().init_client(setup, info) | Tree(beta=setup.zeros(2) + 0.5)

    def send(self, server: Tree, cohort: Tree) -> tuple[Tree, Tree]:
        return server, Tree()

    def model(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        return super().model(common, own, client, ctx) | Tree(head=self.head(common, ctx))

    def head(self, stats: Tree, ctx: Context) -> Tree:
        """h_i, the linear layer of `stats` and the client's priors, in the run's number type."""
        return gaussian.head(stats, gaussian.log_priors(ctx.info.counts)).to(ctx.scalars.rate.dtype)

    def forward(self, params: Tree, x: Tensor, ctx: Context) -> Tree:
        read, training = ctx.buffers.get("base", Tree()), ctx.training and ctx.trains("base")
        z, after = ctx.task.base(params.base, read, x, training, ctx.key)
        logits = F.linear(self.embed(params, z, ctx), params.head.weight, params.head.bias)
        return Tree(z=z, logits=logits, buffers=Tree(base=after) if after else Tree())

    # ---- one client: features are stored (line 7), by training or by the pass before a test -----------------------------------
    def phases(self, clock: Clock) -> list[Phase]:
        key = {"key": Draw("uniform", (clock.batch_size,))}
        return [Phase(draws=key), Phase("personalise", where="adapt", passes=1, train=(), draws=key)]

    def begin(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        return super().begin(common, own, client, ctx) | Tree(store=self.store(ctx))

    def store(self, ctx: Context) -> Tree:
        """Room for the features of a round, the same for all clients: a slot of B rows a batch; `step` batches are in use."""
        task, of = ctx.task, ctx.scalars.rate
        pass_rows = self.rows_of_a_pass(task)  # enough for the pass before a test
        rows = max(pass_rows, pass_rows * task.local_epochs, task.local_steps * task.batch_size)
        integers = {"dtype": torch.int64, "device": of.device}
        return Tree(
            z=of.new_zeros(rows, task.features),
            key=of.new_zeros(rows),
            mask=of.new_zeros(rows),
            y=torch.zeros(rows, **integers),
            step=torch.zeros((), **integers),
        )

    def rows_of_a_pass(self, task: Task) -> int:
        """The largest client's samples, rounded up to whole batches."""
        return -(-task.largest // task.batch_size) * task.batch_size

    def remember(self, store: Tree, z: Tensor, batch: Tree, ctx: Context) -> Tree:
        """The store with one more batch."""
        rows = store.step * ctx.task.batch_size + torch.arange(len(batch.y), device=z.device)
        new = Tree(z=z, key=batch.key[: len(batch.y)], mask=batch.mask, y=batch.y)

        def write(old: Tensor, values: Tensor) -> Tensor:
            index = rows.view(-1, *[1] * (values.ndim - 1)).expand(values.shape)
            return old.scatter(0, index, values.detach().to(old.dtype))

        return store.only(new).map(write, new) | Tree(step=store.step + 1)

    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        value, out = super().loss(params, local, batch, ctx)
        store = self.remember(local.store, self.embed(params, out.z, ctx), batch, ctx)
        return value, out | Tree(keep=Tree(store=store))

    def step(self, local: Tree, batch: Tree, ctx: Context) -> Tree:
        if ctx.phase.name == "train":
            return super().step(local, batch, ctx)
        ctx = ctx.at(buffers=local.get("buffers", Tree()).get("shared", Tree()), training=False)
        z = self.embed(local.params, self.forward(local.params, batch.x, ctx).z, ctx)
        return Tree(store=self.remember(local.store, z, batch, ctx))

    # ---- one client: its statistics (lines 8 to 11) ---------------------------------------------------------------------------
    def leave(self, local: Tree, sums: Tree, ctx: Context) -> Tree:
        left = super().leave(local, sums, ctx)
        if ctx.phase.name == "train":
            return left | self.personalise(local.store, ctx) | Tree(store=self.store(ctx))
        rows = local.store.without(["step"])[: self.rows_of_a_pass(ctx.task)]
        stats = self.personalise(rows, ctx, TEST_ROWS)
        return left | stats.only(["beta"]) | Tree(params=Tree(head=self.head(stats, ctx)))

    def personalise(self, rows: Tree, ctx: Context, least: int = 1) -> Tree:
        """`beta` [2], `mu` [C, D] and `sigma` [D, D] from stored rows and what was received."""
        received = ctx.common.only(["mu", "sigma"]).to(torch.float64)
        local = self.estimate(rows, received, ctx, least)
        beta = self.interpolation(rows, received, ctx)
        mixed = gaussian.interpolate(beta, local, received)
        return (mixed | Tree(beta=beta.expand(2))).to(ctx.scalars.rate.dtype)

    def estimate(self, rows: Tree, received: Tree, ctx: Context, least: int) -> Tree:
        """mu^_i and Sigma^_i (line 8; Eqs. 6 to 8); classes with fewer than `least` rows take mu_g."""
        members = one_hot(rows.y, ctx.task.classes, torch.float64) * rows.mask.double()[:, None]
        return gaussian.estimate(rows.z.double(), members, received, least)

    def interpolation(self, rows: Tree, received: Tree, ctx: Context) -> Tensor:
        """beta_i [1], or [2] for means and covariance (line 9; Eq. 9)."""
        ones = received.mu.new_ones(2 if self.coefficients == "separate" else 1)
        if self.coefficients == "none":
            return ones
        z, members = gaussian.split(rows.z, rows.y, rows.mask, rows.key, ctx.task.classes, self.folds)
        objective = gaussian.validation(z, members, gaussian.log_priors(ctx.info.counts), received)
        return torch.where(members.sum() > 0, box.minimise(objective, 0.5 * ones, settled=ctx.settled), 0.0)

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        kept, upload = super().finish(local, client, ctx)
        return kept | local.only(["beta"]), upload | local.only(["mu", "sigma"])

    def trained(self, local: Tree, ctx: Context) -> Tree:
        return super().trained(local, ctx) | Tree(head=self.head(local, ctx))

    def notes(self, local: Tree, client: Tree, ctx: Context) -> Tree:
        """`beta` [2] of the test, for means and for covariance."""
        return super().notes(local, client, ctx) | local.only(["beta"])

    # ---- the server ------------------------------------------------------------------------------------------------------------
    def aggregate(self, server: Tree, uploads: Tree, cohort: Tree, ctx: Context) -> Tree:
        return uploads.mix(cohort.p)
