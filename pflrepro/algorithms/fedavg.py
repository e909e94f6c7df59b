"""FedAvg (McMahan et al., AISTATS 2017)."""

from __future__ import annotations

from dataclasses import dataclass

from pflrepro.algorithms.contract import Method


@dataclass(frozen=True)
class FedAvg(Method):
    """FedAvg: every client trains the model it received; the server averages.

        w^{t+1} = sum_{i in S_t} p_i w_i, p_i = n_i / sum_{j in S_t} n_j

    Tested: the one global model, before local training.
    """
