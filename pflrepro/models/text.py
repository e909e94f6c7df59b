"""fastText for AG News."""

from __future__ import annotations

from torch import Tensor, nn

from pflrepro.models.layers import LOGITS, Plan

VOCABULARY = 98_635  # [GPFL-code, DBE-code]


class MeanEmbedding(nn.Module):
    """Token ids [B, L] -> the mean of their embeddings [B, D].

    The ids arrive in the run's number type (float32 holds them exactly up to 16,777,216). Row 0, the padding's, is zero and gets no
    gradient. The table is a plain embedding, for bags of embeddings have no rule for stacked weights.
    """

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, width, padding_idx=0)

    def forward(self, x: Tensor) -> Tensor:
        return self.table(x.long()).mean(1)


def fasttext(shape: tuple[int, ...], classes: int) -> Plan:
    """fastText [DBE, GPFL, LIB]: 3,157,508 parameters for a vocabulary of 98,635 and 4 classes, K = 32.

    Embedding of 32 (N(0, 1), id 0 is padding), its mean over all 200 positions, padding included [LIB], a linear layer to 32
    without non-linearity, the head.
    """
    return {
        "embedding": [MeanEmbedding(VOCABULARY, 32)],
        "fc1": [nn.Linear(32, 32)],
        LOGITS: [nn.Linear(32, classes)],
    }
