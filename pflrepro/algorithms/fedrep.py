"""FedRep (Collins et al., ICML 2021)."""

from __future__ import annotations

from dataclasses import dataclass

from pflrepro.algorithms.fedper import FedPer
from pflrepro.algorithms.phases import Clock, Phase
from pflrepro.checked import Count


@dataclass(frozen=True)
class FedRep(FedPer):
    """FedRep: first the head with the base frozen, then the base with the head frozen.

    psi_i <- SGD on l_i(phi^t, .), then phi_i <- SGD on l_i(., psi_i), phi^{t+1} = sum_i p_i phi_i (the paper averages uniformly;
    weights p_i [PFL]). A frozen base also keeps its running statistics. Tested: as FedPer, the received base with the own head.

    Attributes:
        head_epochs: 1 [PFL]; DBE's and GPFL's value is not printed, DBE's times suggest about 5 [inferred]; 5 [FDA]. The base
            trains for the run's local epochs.
    """

    head_epochs: Count = 1

    def phases(self, clock: Clock) -> list[Phase]:
        head = Phase("head", passes=self.head_epochs, train=("head",), stream="clients/head")
        return [head, Phase("base", train=("base",))]
