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
