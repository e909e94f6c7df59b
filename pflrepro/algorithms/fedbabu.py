"""FedBABU (Oh et al., ICLR 2022): the head is never trained; a copy is fine-tuned before it is tested."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.phases import Clock, Part, Phase
from pflrepro.algorithms.task import Context, Setup
from pflrepro.errors import check_range, unknown
from pflrepro.trees import Tree

_PARTS = {"all": ("base", "head"), "head": ("head",), "base": ("base",)}


@dataclass(frozen=True)
class FedBABU(Method):
    """FedBABU: phi^{t+1} = sum_i p_i phi_i, trained under the common random head psi^0, which nobody ever trains.

    Tested: a copy of the model, fine-tuned on the client's training data by the run's optimiser; nothing of it is kept.
    After local training the model is tested as it stands, with psi^0.

    Attributes:
        tune_parts: `all` [LIB, DBE], `head` [FDA] or `base`.
        tune_epochs: 10 (recommended) [LIB today; DBE's new clients], 1 [LIB 2023], 5 [FDA]; 0: the global model is tested.
        tune_from: `aggregate`, the model received (recommended), or `local`, phi_i of the client's last local training [LIB,
            whose run ends without a last broadcast].
        tune_when: before every test, `always`, which makes a test `tune_epochs` times as long as a round of training, or only
            at the `end` of the run [LIB]; the tests before are then those of the global model. `end` needs receivers=all.
    """

    tune_parts: str = "all"
    tune_epochs: int = 10
    tune_from: str = "aggregate"
    tune_when: str = "always"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("FedBABU's tune_epochs", self.tune_epochs, 0, integer=True)
        for option, valid in (
            ("tune_parts", tuple(_PARTS)),
            ("tune_from", ("aggregate", "local")),
            ("tune_when", ("always", "end")),
        ):
            if getattr(self, option) not in valid:
                raise unknown(f"{option} of FedBABU", getattr(self, option), valid)

    def layout(self, setup: Setup) -> dict[str, Part]:
        parts = super().layout(setup)
        return parts | {"head": replace(parts["head"], kind="frozen")}

    def init_client(self, setup: Setup, info: Tree) -> Tree:
        client = super().init_client(setup, info)
        return client | Tree(base=setup.parts["base"].params) if self.tune_from == "local" else client

    def phases(self, clock: Clock) -> list[Phase]:
        if self.tune_epochs == 0 or (self.tune_when == "end" and clock.t < clock.rounds):
            return [Phase()]
        return [Phase(), Phase("tune", where="adapt", train=_PARTS[self.tune_parts], passes=self.tune_epochs)]

    def model(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        return super().model(common, own, client, ctx) | client.only(["base"])

    def begin(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        return Tree(params=super().model(common, own, client, ctx))

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        kept, upload = super().finish(local, client, ctx)
        return kept | local.params.only(client.only(["base"])), upload
