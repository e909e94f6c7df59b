"""FedNTD (Lee et al., NeurIPS 2022): what the global model says about the classes that are not the true one is kept."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pflrepro.algorithms.contract import Method, by_label, mean, one_hot
from pflrepro.algorithms.task import Context
from pflrepro.checked import NonNegative, Positive
from pflrepro.trees import Tree

_LEFT_OUT = -1e9  # the logit of the true class: its probability is exactly 0, and everything stays finite


@dataclass(frozen=True)
class FedNTD(Method):
    """FedNTD: what the received model says of the classes that are not true is distilled, so that local training does not forget it.

        CE + beta tau^2 mean_b(KL(q_g || q)), q = softmax_{c != y}(f_c(x) / tau)

    q: over the C - 1 classes other than y, of the model being trained; q_g: of the received model, frozen, in evaluation mode, with
    the running statistics that the client has at that step. With two classes the term is 0. Averaged with p_i (LIB: uniformly). Of a
    mixed batch the term is share NTD(y) + (1 - share) NTD(partner), as cross-entropy is (recommended; no source). Tested: the global
    model.

    Attributes:
        ntd_beta: beta; 1 [off, BR-code]; FedBR tunes in 1, 0.1 [BR]; LIB's 0 is FedAvg.
        ntd_tau: tau; 1 [BR, off, LIB].
    """

    ntd_beta: NonNegative = 1.0
    ntd_tau: Positive = 1.0

    def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[Tensor, Tree]:
        value, out = super().loss(params, local, batch, ctx)
        received = local.params | ctx.pick(ctx.common.params, "shared")
        teacher = self.forward(received, batch.x, ctx.at(training=False)).logits
        term = by_label(lambda labels: mean(self.divergence(teacher, out.logits, labels), batch), batch)
        return value + self.ntd_beta * self.ntd_tau**2 * term, out

    def divergence(self, teacher: Tensor, student: Tensor, labels: Tensor) -> Tensor:
        """KL(q_g || q) [B] of logits [B, C], without the classes `labels` [B]."""
        true = one_hot(labels, student.shape[1], torch.bool)
        of_teacher, of_student = (
            torch.where(true, _LEFT_OUT, logits / self.ntd_tau).log_softmax(1) for logits in (teacher, student)
        )
        return (of_teacher.exp() * (of_teacher - of_student)).sum(1)
