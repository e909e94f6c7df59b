"""AFL (Mohri, Sivek and Suresh, ICML 2019): the worst mixture of the clients decides the weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pflrepro.algorithms.received_loss import ReceivedLoss
from pflrepro.algorithms.simplex import project
from pflrepro.algorithms.task import Context, Setup
from pflrepro.errors import check_range, check_word
from pflrepro.trees import Tree


@dataclass(frozen=True)
class AFL(ReceivedLoss):
    """AFL: min_w max_lambda sum_k lambda_k l_k(w) over the simplex of the N clients.

    A round: F_k, the loss of the received w^t; local training; w^{t+1} = sum_k lambda_k w_k; then
    lambda <- the Euclidean projection of lambda + gamma F onto the simplex. The paper takes one gradient a client and iteration;
    with local epochs and averaged models this is the reading that fits GRP-FED's protocol [inferred].
    Of a cohort S: the weights are lambda_k / sum_S lambda_j (equal where that sum is 0), and the projection keeps sum_S lambda_j,
    so that absent clients keep their lambda_k and equal losses change nothing [inferred].
    The guarantee is for the average of the iterates, (1/T) sum_t w^t. Norm layers' statistics are averaged as everywhere.

    `start=sizes, step_decay=0.9, floor=0.001` are the choices of FedTorch's code.

    Attributes:
        weight_step: gamma; 0.1 [off: the q-FFL authors' AFL]; GRP-FED's is not printed [?].
        step_decay: gamma is multiplied by it every round; 1 [off].
        start: lambda starts at 1/N, `uniform` [off], or n_k/n, `sizes`.
        floor: lambda_k below are raised to it and all scaled back to the sum 1; 0 [off].
        tested: the `last` w^t (recommended), or the `average` of w^1..w^t (w^0 before), which is sent along to be tested; after
            local training it is the trained model in both.
    """

    weight_step: float = 0.1
    step_decay: float = 1.0
    start: str = "uniform"
    floor: float = 0.0
    tested: str = "last"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("AFL's weight_step", self.weight_step, 0)
        check_range("AFL's step_decay", self.step_decay, 0, 1)
        check_range("AFL's floor", self.floor, 0, 1)
        check_word("start of AFL", self.start, ("uniform", "sizes"))
        check_word("tested of AFL", self.tested, ("last", "average"))

    def init_server(self, setup: Setup) -> Tree:
        server = super().init_server(setup)
        sizes = setup.info.n.to(setup.dtype) if self.start == "sizes" else setup.zeros(setup.clients) + 1
        server = server | Tree(weights=sizes / sizes.sum())
        return server | Tree(average=server.params) if self.tested == "average" else server

    def send(self, server: Tree, cohort: Tree) -> tuple[Tree, Tree]:
        common, own = super().send(server, cohort)
        return common | server.only(["average"]), own

    def model(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        return super().model(common, own, client, ctx) | common.get("average", Tree())

    def begin(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        return super().begin(common, own, client, ctx) | Tree(params=ctx.pick(common.params, "shared"))

    def aggregate(self, server: Tree, uploads: Tree, cohort: Tree, ctx: Context) -> Tree:
        mass = server.weights[cohort.id]
        params = uploads.params.mix(shares(mass))
        gamma = self.weight_step * self.step_decay**ctx.clock.t
        moved = project((mass + gamma * uploads.F).double().cpu().numpy(), float(mass.sum()))
        weights = server.weights.index_copy(0, cohort.id, torch.as_tensor(moved).to(mass))
        weights = weights.clamp(min=self.floor)
        new = Tree(params=params, weights=weights / weights.sum())
        if self.tested == "average":
            old = server.average
            new["average"] = old | old.only(params).lerp(params, 1 / (ctx.clock.t + 1))
        return new


def shares(mass: Tensor) -> Tensor:
    """`mass` [m] as shares of its sum; equal shares where there is none."""
    total = mass.sum()
    tiny = torch.finfo(mass.dtype).tiny
    return torch.where(total > 0, mass / total.clamp(min=tiny), torch.full_like(mass, 1 / len(mass)))
