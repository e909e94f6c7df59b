"""DANN as FedBR's code runs it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from pflrepro.algorithms.dann import DANN, Groups
from pflrepro.algorithms.phases import Clock, Phase
from pflrepro.algorithms.task import Context, Setup
from pflrepro.errors import UserError
from pflrepro.trees import Tree

_TURNED = "discriminator first"  # the name of a phase whose pairs of steps begin with the discriminator's


@dataclass(frozen=True)
class FedBRDANN(DANN):
    """DANN whose labels are the clients' places in the cohort, and whose later rounds begin with a discriminator step [BR-code].

    Places are assigned anew every round, so that D can learn nothing that lasts. The alternation runs on over the rounds, of which the
    first has one step there and every other one 50. A later round of one step would be D's alone, and the model would never train
    again: `local_steps=1` is refused. In passes over the data D alone trains on clients of at most one batch, behind the first round.
    """

    def init_server(self, setup: Setup) -> Tree:
        if setup.local_steps == 1 and setup.rounds > 1:
            raise UserError(
                "local_steps of dann/fedbr must be 0 (passes) or at least 2, not 1: every round behind the first begins with a step of "
                "the discriminator, and no other step would follow"
            )
        return super().init_server(setup)

    def phases(self, clock: Clock) -> list[Phase]:
        phases = super().phases(clock)
        return [replace(phase, name=_TURNED) for phase in phases] if clock.t > 0 else phases

    def turns(self, params: Tree, ctx: Context) -> tuple[Groups, Groups]:
        model, alone = super().turns(params, ctx)
        return (alone, model) if ctx.phase.name == _TURNED else (model, alone)

    def domain(self, ctx: Context) -> Tensor:
        return ctx.info.slot
