"""What a hook of a method of one's own may not return is named, with what it may."""

from __future__ import annotations

import pytest
import torch

from pflrepro.algorithms.contract import Context
from pflrepro.algorithms.fedavg import FedAvg
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
        (None, r"aggregate must return a Tree of what changed in the server's state, not None"),
    ],
)
def test_an_aggregate_changes_what_the_server_has(returned: Tree | None, message: str, start) -> None:
    class Wrong(FedAvg):
        def aggregate(self, server: Tree, uploads: Tree, cohort: Tree, ctx: Context) -> Tree:
            return returned

    with pytest.raises(UserError, match=rf"Wrong\.{message}"):
        start(Wrong(), rounds=1).step()


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
