"""q-FFL (Li et al., ICLR 2020): clients with a high loss weigh more."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pflrepro.algorithms.received_loss import ReportedLoss
from pflrepro.algorithms.task import Context
from pflrepro.checked import NonNegative
from pflrepro.trees import Tree

_SMALLEST = 1e-10  # added to every loss [off]


@dataclass(frozen=True)
class QFFL(ReportedLoss):
    """q-FFL by q-FedAvg: clients with a high loss weigh more in the average, the more so the larger q.

        min_w sum_k (p_k / (q + 1)) F_k(w)^{q+1}
        d_k = L (w^t - w_k), D_k = F_k^q d_k, h_k = q F_k^{q-1} |d_k|^2 + L F_k^q
        w^{t+1} = w^t - sum_k D_k / sum_k h_k

    F_k is the loss of the received w^t, w_k the model after local training, L = 1 / eta; q = 0 is FedAvg's objective with equal client
    weights. Computed from F_k / max_j F_j, since F^10 runs over and under; the result is the same. Sums are over the cohort and
    without p_k: the reference draws clients with probabilities n_k / n instead [off], here the run draws them uniformly. With client
    momentum L = 1 / eta is only nominal. Tested: the global model.

    Attributes:
        q: 10, the constant that GRP-FED's adaptive exponent starts from, "the same as q-FFL" [GRP, its reading inferred].
    """

    q: NonNegative = 10.0

    def aggregate(self, server: Tree, uploads: Tree, cohort: Tree, ctx: Context) -> Tree:
        largest = (uploads.F + _SMALLEST).max()
        f = (uploads.F + _SMALLEST) / largest
        powers = f**self.q
        received = server.params.only(uploads.params)
        moves = uploads.params.map(lambda new, old: old - new, received)  # d_k / L
        lengths = sum(leaf.reshape(len(leaf), -1).square().sum(1) for leaf in moves.leaves())
        # numerator and denominator divided by L, and by the q-th power of the largest loss
        rate = ctx.scalars.rate
        inverse = torch.where(rate > 0, 1 / torch.where(rate > 0, rate, 1.0), 0.0)
        h = self.q * f ** (self.q - 1) * inverse * lengths / largest + powers
        return Tree(params=received - moves.mix(powers) / h.sum())
