"""FedAvg with local fine-tuning (folklore; the name is pFedFDA's)."""

from __future__ import annotations

from dataclasses import dataclass

from pflrepro.algorithms.finetuning import FineTuning


@dataclass(frozen=True)
class FedAvgFT(FineTuning):
    """FedAvgFT: FedAvg, tested after local fine-tuning.

        w^{t+1} = sum_i p_i w_i

    Tested: w after 5 epochs of SGD on all layers [FDA-code], from the aggregate of the last round. The paper tests once, after the
    last round: that is the last point of the curve, and all that `tune_when=end` pays for. DBE's new clients tune for 10 epochs [DBE].
    """
