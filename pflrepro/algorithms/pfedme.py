"""pFedMe (Dinh et al., NeurIPS 2020): personal models by Moreau envelopes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.phases import Clock, Phase
from pflrepro.algorithms.task import Context, Setup
from pflrepro.checked import AtLeastOne, NonNegative
from pflrepro.trees import Tree

DECAY = 1e-3  # of theta: built into the reference's optimiser [off, LIB], not in the paper's formula


@dataclass(frozen=True)
class PFedMe(Method):
    """pFedMe: every client has a personal model near its copy of the global one, and the copy follows the personal model.

        min_w sum_i p_i min_{theta_i}(l_i(theta_i) + (lambda/2) |theta_i - w|^2)
        K times a batch: theta <- theta - eta_p (grad l(theta) + lambda (theta - w_i) + 0.001 theta)
        after a batch: w_i <- w_i - eta lambda (w_i - theta)
        server: w^{t+1} = (1 - beta) w^t + beta sum_i p_i w_i

    Each round begins with w_i = theta_i = w^t; theta goes on from the batch before. The run's momentum and weight decay touch neither
    update; lambda eta < 1 is advised. The decay 0.001 is built into the reference's optimiser [off, LIB], not in the paper's formula.
    Where lam, personal_rate or beta is 0, the server's model never moves (with lam = 0 the personal ones still learn in each round).
    Tested: theta_i of the last local training.

    Attributes:
        lam: lambda; 15 [off; author]; pFedFDA tuned it in {1, 5, 10, 15} [FDA].
        inner_steps: K; 5 [off, LIB]; DBE's time per round agrees with it [inferred].
        personal_rate: eta_p; 0.1 for MNIST-type CNNs, 0.01 for CIFAR and AG News [author]; 0.09 to 0.1 [off].
        beta: 1 [off; author]; the platform's default 0 freezes the server.
    """

    trees: ClassVar[tuple[str, ...]] = ()

    lam: NonNegative = 15.0
    inner_steps: AtLeastOne = 5
    personal_rate: NonNegative = 0.1
    beta: NonNegative = 1.0

    def init_client(self, setup: Setup, info: Tree) -> Tree:
        return super().init_client(setup, info) | Tree(personal=setup.pick("shared", "personal"))

    def phases(self, clock: Clock) -> list[Phase]:
        return [Phase(optimiser="plain")]

    def model(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        return super().model(common, own, client, ctx) | client.personal

    def begin(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        received = super().model(common, own, client, ctx)
        return Tree(params=received, theta=received)

    def step(self, local: Tree, batch: Tree, ctx: Context) -> Tree:
        w = ctx.trainable(local.params)
        for _ in range(self.inner_steps):
            grads, local = self.gradient(local.theta, local, batch, ctx)
            theta = local.theta.only(grads).map(self._descended, w, grads)
            local = local | Tree(theta=theta)
        return local | Tree(params=w.lerp(theta, self.lam * ctx.scalars.rate))

    def _descended(self, theta: Tensor, w: Tensor, grad: Tensor) -> Tensor:
        """theta after one step, in three passes over memory: a network of large layers spends half its time on them."""
        rate = self.personal_rate
        return theta.lerp(w, rate * self.lam).add_(theta, alpha=-rate * DECAY).add_(grad, alpha=-rate)

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        kept, upload = super().finish(local, client, ctx)
        return kept | Tree(personal=self.trained(local, ctx).only(client.personal)), upload

    def trained(self, local: Tree, ctx: Context) -> Tree:
        return local.theta

    def aggregate(self, server: Tree, uploads: Tree, cohort: Tree, ctx: Context) -> Tree:
        new = super().aggregate(server, uploads, cohort, ctx).params
        return Tree(params=(1 - self.beta) * server.params.only(new) + self.beta * new)
