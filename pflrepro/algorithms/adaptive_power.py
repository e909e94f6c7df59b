"""The server of GRP-FED (Chou et al., 2021): weights are powers of the clients' losses, and the power follows their spread."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pflrepro.algorithms.received_loss import ReportedLoss
from pflrepro.algorithms.task import Context, Setup
from pflrepro.errors import check_range, check_words
from pflrepro.trees import Tree

_WORDS = {
    "first_q": ("kept", "moved"),
    "negative_q": ("cut", "allowed"),
    "spread_of": ("cohort", "all"),
    "summed_over": ("cohort", "all"),
    "statistics_weights": ("sizes", "losses"),
}


@dataclass(frozen=True)
class AdaptivePower(ReportedLoss):
    """theta <- sum_m lambda_m theta_m, lambda_m = L_m^q / sum_j L_j^q (Eq. 3), without sizes; before that (Eq. 2)

        q <- q + q_step (sigma - sigma_old) / ((sigma + sigma_old) / 2),   sigma the standard deviation of the losses L_m.

    "All clients" of the text has two readings, for of an absent one nothing new is known: those of the cohort, or all that have
    ever reported, each with its last loss; in the sum an absent client then stands for the model that the server holds,
    theta <- sum over the cohort of lambda_m theta_m + (the others' lambda) theta [inferred]. With everybody present they agree.

    Attributes:
        q0, q_step: start of q and eta_q; 10, 0.5 [GRP 4.1].
        first_q: q in the first round, where there is no sigma_old: `kept` (recommended [inferred]), or `moved` with sigma_old = 0,
            that is by 2 q_step.
        negative_q: `cut`, q <- max(0, q), or `allowed` [?]; cut, as a small loss is to have no weight.
        spread_of: the clients of sigma: `cohort` (recommended [inferred]: only it reports) or `all` ("in all clients").
        summed_over: the clients of Eq. 3's sum: `cohort` (recommended [inferred]: only it has new values) or `all` (as printed).
        statistics_weights: averaged running statistics of norm layers: `sizes`, p_m, the rule of all methods here, or `losses`,
            lambda_m normalised over the cohort, as the weights beside them [inferred].
    """

    q0: float = 10.0
    q_step: float = 0.5
    first_q: str = "kept"
    negative_q: str = "cut"
    spread_of: str = "cohort"
    summed_over: str = "cohort"
    statistics_weights: str = "sizes"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("GRP-FED's q0", self.q0, 0)
        check_range("GRP-FED's q_step", self.q_step, 0)
        check_words(self, "GRP-FED", _WORDS)

    def init_server(self, setup: Setup) -> Tree:
        zero = setup.zeros()
        server = super().init_server(setup) | Tree(q=zero + self.q0, spread=zero, started=zero)
        if "all" not in (self.spread_of, self.summed_over):
            return server
        return server | Tree(reports=Tree(loss=setup.zeros(setup.clients), known=setup.zeros(setup.clients)))

    def aggregate(self, server: Tree, uploads: Tree, cohort: Tree, ctx: Context) -> Tree:
        changed, losses = Tree(), uploads.F
        if "reports" in server:
            newest = Tree(loss=uploads.F, known=torch.ones_like(uploads.F))
            changed = Tree(reports=server.reports.put(cohort.id, newest))
            known = changed.reports.known > 0
            losses = changed.reports.loss[known] if self.spread_of == "all" else uploads.F
        spread = losses.std(correction=0)
        q = self.power(server, spread)
        if self.summed_over == "cohort":
            params = uploads.params.mix(powers(q, uploads.F))
        else:
            weights = powers(q, changed.reports.loss, known)[cohort.id]
            absent = 1 - weights.sum()
            params = uploads.params.mix(weights) + absent * server.params.only(uploads.params)
        return changed | Tree(params=params, q=q, spread=spread, started=torch.ones_like(q))

    def power(self, server: Tree, spread: Tensor) -> Tensor:
        """The new q."""
        middle = ((spread + server.spread) / 2).clamp(min=torch.finfo(spread.dtype).tiny)
        moved = server.q + self.q_step * (spread - server.spread) / middle
        if self.negative_q == "cut":
            moved = moved.clamp(min=0)
        return moved if self.first_q == "moved" else torch.where(server.started > 0, moved, server.q)

    def averaging(self, server: Tree, uploads: Tree, cohort: Tree, ctx: Context) -> Tensor:
        if self.statistics_weights == "sizes":
            return super().averaging(server, uploads, cohort, ctx)
        return powers(server.q, uploads.F)


def powers(q: Tensor, losses: Tensor, known: Tensor | None = None) -> Tensor:
    """lambda_m = L_m^q / sum_j L_j^q, over the `known` ones, through logarithms; a loss of 0 counts as 1e-12."""
    logits = q * (losses + 1e-12).log()
    return (logits if known is None else logits.masked_fill(~known, -torch.inf)).softmax(0)
