"""FedRep (Collins et al., ICML 2021)."""

from __future__ import annotations

from dataclasses import dataclass

from pflrepro.algorithms.fedper import FedPer
from pflrepro.algorithms.phases import Clock, Phase
from pflrepro.checked import Count


@dataclass(frozen=True)
class FedRep(FedPer):
    """FedRep: first the head with the base frozen, then the base with the head frozen; the head stays at home.

        psi_i <- SGD_psi l_i(phi^t, psi), phi_i <- SGD_phi l_i(phi, psi_i)
        phi^{t+1} = sum_i p_i phi_i

    The paper averages uniformly; weights p_i [LIB]. A frozen base also keeps its running statistics. Tested: as FedPer, the received
    base with the own head.

    Attributes:
        head_epochs: 1 [LIB]; DBE's and GPFL's value is not printed, DBE's times suggest about 5 [inferred]; 5 [FDA]. The base
            trains for the run's local epochs.
    """

    head_epochs: Count = 1

    def phases(self, clock: Clock) -> list[Phase]:
        head = Phase("head", passes=self.head_epochs, train=("head",), stream="clients/head")
        return [head, Phase("base", train=("base",))]
