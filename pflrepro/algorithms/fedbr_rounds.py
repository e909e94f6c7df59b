"""How FedBR's rounds start where the released code departs from the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.phases import Clock, Phase
from pflrepro.algorithms.pseudodata import trains
from pflrepro.algorithms.task import Context, Setup
from pflrepro.errors import UserError, check_words
from pflrepro.trees import Tree, select

_CHOICES = {"first_round": ("full", "one-step"), "first_weights": ("common", "slots")}


@dataclass(frozen=True)
class Rounds(Method):
    """The host's rounds, the first one as the paper or as the released code has it, there for all its methods.

    With `slots` a client trains in round 0 from initial weights of its own, v_i, and hands in w^0 + (w_i - v_i), so that the server
    takes the mean of the updates: w^1 = w^0 + sum_i p_i (w_i - v_i). FedBR's phi_g is then the base of v_i; what a host compares
    with (FedNTD's teacher) stays w^0. A client that first comes later starts from what it receives.

    Attributes:
        first_round: `full` [BR], or `one-step`: every client takes one step in round 0 [BR-code].
        first_weights: `common` [BR], or `slots`: a draw for every client of round 0, and another one for the server [BR-code].
    """

    first_round: str = "full"
    first_weights: str = "common"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_words(self, "FedBR", _CHOICES)

    # ---- the first round ---------------------------------------------------------------------------------------------------
    def phases(self, clock: Clock) -> list[Phase]:
        phases = super().phases(clock)
        if self.first_round == "full" or clock.t != 0:
            return phases
        return [replace(phase, steps=1) if trains(phase) else phase for phase in phases]

    def init_client(self, setup: Setup, info: Tree) -> Tree:
        client = super().init_client(setup, info)
        if self.first_weights == "common":
            return client
        start = setup.pick("shared").only(("base", "head"))
        drawn = setup.network(f"fedbr/slot{int(info.id)}").only(start)
        if [leaf.shape for leaf in drawn.leaves()] != [leaf.shape for leaf in start.leaves()]:
            raise UserError("first_weights=slots of FedBR needs a host that leaves the network's head as it is")
        return client | Tree(first=drawn | self.further(setup, int(info.id)))

    def further(self, setup: Setup, slot: int) -> Tree:
        """Initial weights of a slot for shared groups beside base and head."""
        return Tree()

    def origin(self, common: Tree, client: Tree, ctx: Context) -> Tree:
        """The shared and frozen parameters that a client's round starts from: w^t, in round 0 with `slots` v_i."""
        if "first" not in client:
            return common.params
        return common.params | select(ctx.scalars.t > 0, common.params.only(client.first), client.first)

    def begin(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        local = super().begin(common, own, client, ctx)
        if "first" not in client:
            return local
        return local | Tree(params=self.origin(common, client, ctx).only(client.first))

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        kept, upload = super().finish(local, client, ctx)
        if "first" not in client:
            return kept, upload
        if "params" not in upload:
            raise UserError("first_weights=slots of FedBR needs a host whose clients hand in their models")
        start = self.origin(ctx.common, client, ctx).only(client.first)
        moved = upload.params.only(start) + (ctx.common.params.only(start) - start)
        return kept, upload | Tree(params=moved)
