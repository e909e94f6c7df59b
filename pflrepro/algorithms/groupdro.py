"""GroupDRO (Sagawa et al., ICLR 2020) with clients as groups, as FedBR compares with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from pflrepro.algorithms.received_loss import FirstLoss
from pflrepro.algorithms.task import Context, Setup
from pflrepro.checked import NonNegative
from pflrepro.trees import Tree


@dataclass(frozen=True)
class GroupDRO(FirstLoss):
    """GroupDRO: every client has a weight that grows with its loss, and the server averages with these weights.

        omega_i <- omega_i exp(weight_step F_i), i in S_t
        w^{t+1} = w^t + sum_{i in S_t} omega_i (w_i - w^t)

    F_i is the client's loss in round t [BR], here that of the round's first step [BR-code]. omega starts at 1 and lasts; it is kept as
    log omega without normalisation, one a client, and normalised over the cohort only where models are averaged.
    Tested: the global model.

    Attributes:
        weight_step: 0.01 [BR].
    """

    gathers: ClassVar[dict[str, str]] = {"server/log_weights": "the weights of the clients"}

    weight_step: NonNegative = 0.01

    def init_server(self, setup: Setup) -> Tree:
        return super().init_server(setup) | Tree(log_weights=setup.zeros(setup.clients))

    def aggregate(self, server: Tree, uploads: Tree, cohort: Tree, ctx: Context) -> Tree:
        groups = self.groups(cohort)
        raised = server.log_weights[groups] + self.weight_step * uploads.F
        params = uploads.params.mix(torch.softmax(raised, 0))
        return Tree(params=params, log_weights=server.log_weights.index_copy(0, groups, raised))

    def groups(self, cohort: Tree) -> Tensor:
        """Whose omega each client of the cohort raises [m]: its own."""
        return cohort.id
