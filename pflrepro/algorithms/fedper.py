"""FedPer (Arivazhagan et al., arXiv 1912.00818, 2019)."""

from __future__ import annotations

from dataclasses import dataclass

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.phases import Part, as_kind
from pflrepro.algorithms.task import Setup


@dataclass(frozen=True)
class FedPer(Method):
    """FedPer: the head stays at home; base and head train together.

        min_{phi, psi_1..psi_N} sum_i p_i l_i(phi, psi_i)
        phi^{t+1} = sum_i p_i phi_i

    All heads start equal. Tested: the received base with the own head, before local training [LIB].
    """

    def layout(self, setup: Setup) -> dict[str, Part]:
        return as_kind(super().layout(setup), "personal", "head")
