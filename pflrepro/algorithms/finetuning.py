"""Fine-tuning: a copy of the model is trained at each client before it is tested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.phases import Clock, Phase
from pflrepro.checked import Count

_PARTS = {"all": ("base", "head"), "head": ("head",), "base": ("base",)}


@dataclass(frozen=True)
class FineTuning(Method):
    """Trained as FedAvg; tested after fine-tuning.

    Tested: a copy of the model received, trained on the client's training data by the run's optimiser with fresh momentum; nothing of
    it is kept. After local training the model is tested as it stands, without fine-tuning.

    Attributes:
        tune_parts: `all` layers, only the `head` or only the `base`, in training or not.
        tune_epochs: 5 [FDA]; 0: the model is tested as it was received.
        tune_when: before every test, `always`, which makes a test `tune_epochs` times as long as a round of training, or only
            at the `end` of the run; the tests before are then those of the global model. The last test is the same. `end` needs
            receivers=all and patience=0.
    """

    tune_parts: Literal["all", "head", "base"] = "all"
    tune_epochs: Count = 5
    tune_when: Literal["always", "end"] = "always"

    @property
    def knows_rounds(self) -> bool:
        return (self.tune_epochs > 0 and self.tune_when == "end") or super().knows_rounds

    def phases(self, clock: Clock) -> list[Phase]:
        training = super().phases(clock)
        if self.tune_epochs == 0 or (self.tune_when == "end" and clock.t < clock.rounds):
            return training
        return [*training, Phase("tune", where="adapt", train=_PARTS[self.tune_parts], passes=self.tune_epochs)]
