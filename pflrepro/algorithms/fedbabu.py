"""FedBABU (Oh et al., ICLR 2022): the head is never trained; a copy is fine-tuned before it is tested."""

from __future__ import annotations

from dataclasses import dataclass

from pflrepro.algorithms.finetuning import FineTuning
from pflrepro.algorithms.phases import Part, as_kind
from pflrepro.algorithms.task import Setup
from pflrepro.checked import Count


@dataclass(frozen=True)
class FedBABU(FineTuning):
    """FedBABU: only the base is trained and averaged, under a common random head that nobody ever trains.

        phi_i <- SGD_phi l_i(phi, psi^0), phi^{t+1} = sum_i p_i phi_i

    Tested: a copy of the model received, fine-tuned on the client's training data by the run's optimiser; nothing of it is kept. After
    local training the model is tested as it stands, with psi^0.

    Attributes:
        tune_parts: `all` [LIB, DBE], `head` [FDA] or `base`.
        tune_epochs: 10 (recommended) [LIB; DBE's new clients], 1 [LIB-era], 5 [FDA]; 0: the global model is tested.
        tune_when: before every test, `always`, which makes a test `tune_epochs` times as long as a round of training, or only
            at the `end` of the run [LIB]; the tests before are then those of the global model. `end` needs receivers=all
            and patience=0.
    """

    tune_epochs: Count = 10

    def layout(self, setup: Setup) -> dict[str, Part]:
        return as_kind(super().layout(setup), "frozen", "head")
