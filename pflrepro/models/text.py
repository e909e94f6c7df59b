"""fastText for AG News."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pflrepro.models.layers import LOGITS, Plan

VOCABULARY = 98_635  # [GPFL-code, DBE-code]


class MeanEmbedding(nn.Module):
    """Token ids [B, L] -> the mean of their embeddings [B, D].

    The ids arrive in the run's number type (float32 holds them exactly up to 16,777,216). Row `padding` is zero and gets no
    gradient. With `valid_only` the mean is over the tokens that are not padding, else over all positions. The table is a plain
    embedding, for bags of embeddings have no rule for stacked weights.
    """

    def __init__(self, vocabulary: int, width: int, padding: int = 0, valid_only: bool = False) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, width, padding_idx=padding)
        self.padding, self.valid_only = padding, valid_only

    def forward(self, x: Tensor) -> Tensor:
        ids = x.long()
        vectors = self.table(ids)
        if not self.valid_only:
            return vectors.mean(1)
        valid = (ids != self.padding).unsqueeze(-1).to(vectors.dtype)
        return (vectors * valid).sum(1) / torch.clamp(valid.sum(1), min=1)


def fasttext(shape: tuple[int, ...], classes: int, valid_only: bool = False) -> Plan:
    """fastText [DBE, GPFL, LIB]: 3,157,508 parameters for a vocabulary of 98,635 and 4 classes, K = 32.

    Embedding of 32 (N(0, 1), id 0 is padding), its mean over all 200 positions, padding included [LIB], a linear layer to 32
    without non-linearity, the head. `valid_only` leaves padding out of the mean (a reading, not the papers').
    """
    return {
        "embedding": [MeanEmbedding(VOCABULARY, 32, valid_only=valid_only)],
        "fc1": [nn.Linear(32, 32)],
        LOGITS: [nn.Linear(32, classes)],
    }
