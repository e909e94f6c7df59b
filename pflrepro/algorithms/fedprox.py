"""FedProx (Li et al., MLSys 2020)."""

from __future__ import annotations

from dataclasses import dataclass

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.task import Context
from pflrepro.checked import NonNegative
from pflrepro.trees import Tree


@dataclass(frozen=True)
class FedProx(Method):
    """FedProx: a proximal term pulls local training towards the model that was received.

        min_w l_i(w) + (mu/2) ||w - w^t||^2
        w <- w - eta (g + mu (w - w^t))

    The term enters momentum as a part of the loss would. It covers the shared groups; what a plug-in keeps at home (the bias of DBE)
    has no received counterpart. Averaged with p_i. Tested: the global model.

    Attributes:
        mu: 0.001, the example commands of PFLlib [author]; the values of DBE and GPFL are not printed [?]. 0 is FedAvg.
    """

    mu: NonNegative = 0.001

    def correct(self, grads: Tree, local: Tree, ctx: Context) -> Tree:
        grads = super().correct(grads, local, ctx)
        shared = ctx.pick(grads, "shared")
        drift = local.params.only(shared) - ctx.common.params.only(shared)
        return grads | (shared + self.mu * drift)
