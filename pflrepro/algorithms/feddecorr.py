"""FedDecorr (Shi et al., ICLR 2023): the features of a batch are kept from correlating."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pflrepro.algorithms.contract import Method, mean
from pflrepro.algorithms.task import Context
from pflrepro.checked import NonNegative
from pflrepro.trees import Tree


@dataclass(frozen=True)
class FedDecorr(Method):
    """FedDecorr: a penalty on the correlations of a batch's features keeps them from collapsing onto a few dimensions.

        CE + beta l_D, l_D = (1/K^2) ||M||_F^2 [recalled; BR-code]
        M = Z^^T Z^ / B, Z^ = (z - mean(z)) / (s + 1e-4)

    z [B, K] is standardised with the batch's mean and its unbiased standard deviation s, and gradients flow through both; M [K, K] has
    its diagonal. The gradient by z grows with 1 / s: a feature that hardly varies magnifies the rounding of z, so that runs which
    differ by rounding part within rounds (numbers in docs/papers/baselines.md). A batch of one row has l_D = 0. ||M||_F is taken from
    Z^ Z^^T, which has the same norm and is B x B. Averaged with p_i. Tested: the global model.

    Attributes:
        decorrelation: beta; 0.1 [BR, off]. 0 is FedAvg.
    """

    decorrelation: NonNegative = 0.1

    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        value, out = super().loss(params, local, batch, ctx)
        return value + self.decorrelation * correlation(out.z, batch), out


def correlation(z: Tensor, batch: Tree) -> Tensor:
    """l_D of the true rows of z [B, K]."""
    rows, features = batch.mask.sum().clamp(min=1), z.shape[1]
    centred = (z - mean(z, batch)) * batch.mask[:, None]
    variance = (centred**2).sum(0) / (rows - 1).clamp(min=1)
    spread = torch.where(variance > 0, variance, 1.0).sqrt()  # a constant column: 0 / 1, and a finite gradient
    standard = centred / (spread + 1e-4)
    return ((standard @ standard.T) ** 2).sum() / (rows * features) ** 2
