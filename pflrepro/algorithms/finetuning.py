"""Fine-tuning: a copy of the model is trained at each client before it is tested."""

from __future__ import annotations

from dataclasses import dataclass

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.phases import Clock, Phase
from pflrepro.algorithms.task import Context, Setup
from pflrepro.errors import check_range, check_word
from pflrepro.trees import Tree

_PARTS = {"all": ("base", "head"), "head": ("head",), "base": ("base",)}


@dataclass(frozen=True)
class FineTuning(Method):
    """Trained as FedAvg; tested after fine-tuning.

    Tested: a copy of the model, trained on the client's training data by the run's optimiser with fresh momentum; nothing of it
    is kept. After local training the model is tested as it stands, without fine-tuning.

    Attributes:
        tune_parts: `all` layers, only the `head` or only the `base`, in training or not.
        tune_epochs: 5 [FDA]; 0: the model is tested as it was received.
        tune_from: `aggregate`, the model received (recommended), or `local`, the client's model after its last local training
            (usually another number, and a better one).
        tune_when: before every test, `always`, which makes a test `tune_epochs` times as long as a round of training, or only
            at the `end` of the run; the tests before are then those of the global model. The last test is the same. `end` needs
            receivers=all.
    """

    tune_parts: str = "all"
    tune_epochs: int = 5
    tune_from: str = "aggregate"
    tune_when: str = "always"

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self).__name__
        check_range(f"{name}'s tune_epochs", self.tune_epochs, 0, integer=True)
        check_word(f"tune_parts of {name}", self.tune_parts, _PARTS)
        check_word(f"tune_from of {name}", self.tune_from, ("aggregate", "local"))
        check_word(f"tune_when of {name}", self.tune_when, ("always", "end"))

    @property
    def knows_rounds(self) -> bool:
        return (self.tune_epochs > 0 and self.tune_when == "end") or super().knows_rounds

    def init_client(self, setup: Setup, info: Tree) -> Tree:
        client = super().init_client(setup, info)
        if self.tune_from == "aggregate":
            return client
        return client | setup.pick("shared")

    def phases(self, clock: Clock) -> list[Phase]:
        training = super().phases(clock)
        if self.tune_epochs == 0 or (self.tune_when == "end" and clock.t < clock.rounds):
            return training
        return [*training, Phase("tune", where="adapt", train=_PARTS[self.tune_parts], passes=self.tune_epochs)]

    def model(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        return super().model(common, own, client, ctx) | self.last(client, ctx)

    def last(self, client: Tree, ctx: Context) -> Tree:
        """The shared groups as the client's last local training left them, where it keeps them."""
        return ctx.pick(client.only(ctx.kinds), "shared") if self.tune_from == "local" else Tree()

    def begin(self, common: Tree, own: Tree, client: Tree, ctx: Context) -> Tree:
        return Tree(params=super().model(common, own, client, ctx))

    def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
        kept, upload = super().finish(local, client, ctx)
        return kept | local.params.only(self.last(client, ctx)), upload
