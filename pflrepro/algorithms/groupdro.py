"""GroupDRO (Sagawa et al., ICLR 2020) with clients as groups, as FedBR compares with."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from pflrepro.algorithms.received_loss import ReceivedLoss
from pflrepro.algorithms.task import Context, Setup
from pflrepro.errors import check_range
from pflrepro.trees import Tree


@dataclass(frozen=True)
class GroupDRO(ReceivedLoss):
    """GroupDRO: omega_i <- omega_i exp(step * F_i) for the cohort, w^{t+1} = w^t + sum_i omega_i (w_i - w^t).

    F_i is the client's loss in round t [BR]. omega starts at 1 and lasts; it is kept as log omega without normalisation, one a
    client, and normalised over the cohort only where models are averaged. In the released code omega belongs to a slot, whose
    client is drawn anew every round; a client's own omega is the method as described. That code also mixes all batches (plug-in
    Mixup) and keeps its momentum over rounds, which is the run's business.

    Attributes:
        loss_of: `first`, the loss of the round's first step [BR-code]; the paper says only "the loss".
        weight_step: 0.01 [BR].
    """

    loss_of: str = field(default="first", kw_only=True)
    weight_step: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("GroupDRO's weight_step", self.weight_step, 0)

    def init_server(self, setup: Setup) -> Tree:
        return super().init_server(setup) | Tree(log_weights=setup.zeros(setup.clients))

    def aggregate(self, server: Tree, uploads: Tree, cohort: Tree, ctx: Context) -> Tree:
        mine = server.log_weights[cohort.id] + self.weight_step * uploads.F
        weights = torch.softmax(mine, 0)
        return Tree(params=uploads.params.mix(weights), log_weights=server.log_weights.index_copy(0, cohort.id, mine))
