"""What a hook of a method of one's own may not return is named, with what it may."""

from __future__ import annotations

import pytest
import torch

from pflrepro.algorithms.contract import Context
from pflrepro.algorithms.fedavg import FedAvg
from pflrepro.algorithms.phases import Clock, Part, Phase
from pflrepro.algorithms.task import Setup
from pflrepro.errors import UserError
from pflrepro.trees import Tree


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (Tree(mean=torch.ones(1)), r"aggregate returned mean; the server's state has: params/base/"),
        (Tree(params=Tree(bias=torch.ones(1))), r"aggregate returned params/bias; the server's state has: "),
        (
            Tree(params=Tree(base=Tree({"1.weight": torch.ones(2)}))),
            r"aggregate returned params/base/1.weight of shape \[2\], not \[",
        ),
        (None, r"aggregate must return a Tree, not None"),
        (Tree(params=Tree(base=0)), r"aggregate returned params/base = 0, a int and no tensor"),
    ],
)
def test_an_aggregate_changes_what_the_server_has(returned: Tree | None, message: str, start) -> None:
    class Wrong(FedAvg):
        def aggregate(self, server: Tree, uploads: Tree, cohort: Tree, ctx: Context) -> Tree:
            return returned

    with pytest.raises(UserError, match=rf"Wrong\.{message}"):
        start(Wrong(), rounds=1).step()


HOOKS = {
    "init_server": (lambda given: given | Tree(count=0), r"init_server returned count = 0, a int and no tensor"),
    "init_client": (lambda given: [given], r"init_client must return a Tree, not \["),
    "send": (lambda given: given[0], r"send must return two Trees, not one Tree"),
    "finish": (
        lambda given: (given[0] | Tree(count=torch.ones(1)), given[1]),
        r"finish returned count; the client's state \(init_client\) has: \(nothing\)",
    ),
    "predict": (lambda given: given.argmax(-1), r"predict must return scores \[\d+, 6\], not \[\d+\] of torch.int64"),
    "phases": (lambda given: given[0], r"phases must return a list of one Phase or more, not Phase\("),
}


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("backend", ["loop", "batched"])
def test_what_a_hook_returns_is_what_the_contract_says(hook: str, backend: str, start) -> None:
    wrongly, message = HOOKS[hook]
    plain = getattr(FedAvg, hook)
    wrong = type("Wrong", (FedAvg,), {hook: lambda self, *given: wrongly(plain(self, *given))})
    with pytest.raises(UserError, match=rf"Wrong\.{message}"):
        start(wrong(), rounds=1, backend=backend, workers=1).step()


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        ({"where": "client"}, "unknown where of the phase 'train' 'client'; valid: clients, "),
        ({"data": "trian"}, "unknown data of the phase 'train' 'trian'; valid: train, "),
        ({"optimiser": "adam"}, "unknown optimiser of the phase 'train' 'adam'; valid: sgd, plain"),
        ({"passes": -1}, "passes of the phase 'train' must be a whole number >= 0, not -1"),
        ({"steps": "2"}, "steps of the phase 'train' must be a whole number >= 0, not '2'"),
        ({"train": "head"}, r"train of the phase 'train' must be names of groups, \('head',\), not 'head'"),
        ({"train": ("haed",)}, "unknown group in the phase 'train' of Wrong 'haed'; valid: head, base"),
        ({"rate": {"haed": 1.0}}, "unknown group in the phase 'train' of Wrong 'haed'; valid: head, base"),
        ({"data": "test"}, "the phase 'train' of Wrong reads the test data, which no method may"),
    ],
)
def test_a_phase_has_words_and_groups_that_there_are(phase: dict, message: str, start) -> None:
    class Wrong(FedAvg):
        def phases(self, clock: Clock) -> list[Phase]:
            return [Phase(**phase)]

    with pytest.raises(UserError, match=message):
        start(Wrong(), rounds=1).step()


@pytest.mark.parametrize(
    ("part", "message"),
    [(("private", Tree()), "unknown kind of group 'private'"), (("shared", {}), "params of a group must be a Tree")],
)
def test_a_group_has_a_holder_that_there_is(part: tuple, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Part(*part)


def test_a_method_keeps_nothing(start) -> None:
    """It would be one value for all seeds, and no checkpoint would have it."""

    class Keeps(FedAvg):
        def aggregate(self, server: Tree, uploads: Tree, cohort: Tree, ctx: Context) -> Tree:
            self.last = uploads
            return super().aggregate(server, uploads, cohort, ctx)

    with pytest.raises(UserError, match=r"Keeps\.last cannot be set: .* is an entry of init_server or init_client"):
        start(Keeps(), rounds=1).step()


def test_an_unknown_kind_of_group_is_refused(start) -> None:
    class Wrong(FedAvg):
        def finish(self, local: Tree, client: Tree, ctx: Context) -> tuple[Tree, Tree]:
            return Tree(), Tree(params=ctx.pick(local.params, "shared", "frosen"))

    class Early(FedAvg):
        def init_client(self, setup: Setup, info: Tree) -> Tree:
            return Tree(params=setup.pick("shered"))

    with pytest.raises(UserError, match="unknown kind of group 'frosen'; valid: frozen, "):
        start(Wrong(), rounds=1).step()
    with pytest.raises(UserError, match="unknown kind of group 'shered'; valid: shared, "):
        start(Early())


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        (lambda value, out: value, r"a tensor \[\]"),
        (lambda value, out: (value.expand(3), out), r"a tensor \[3\], Tree"),
        (lambda value, out: (value, out.z), r"a tensor \[\], a tensor \[\d+, 32\]"),
        (lambda value, out: (0.5, out), "float, Tree"),
        (lambda value, out: None, "NoneType"),
    ],
)
@pytest.mark.parametrize("backend", ["loop", "batched"])
def test_a_loss_is_one_number_and_what_it_was_made_from(returned, told: str, backend: str, start) -> None:
    class Wrong(FedAvg):
        def loss(self, params: Tree, local: Tree, batch: Tree, ctx: Context) -> tuple[torch.Tensor, Tree]:
            return returned(*super().loss(params, local, batch, ctx))

    with pytest.raises(
        UserError, match=rf"Wrong\.loss must return \(one number, a Tree with the logits\): .*; not {told}"
    ):
        start(Wrong(), rounds=1, backend=backend, workers=1).step()
