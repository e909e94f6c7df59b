"""What methods say about a round as data: who holds a group, which phases train, what is drawn."""

from __future__ import annotations

import pytest
import torch

from pflrepro.algorithms import Draw, Part, Phase, Setup
from pflrepro.algorithms.phases import as_kind
from pflrepro.errors import UserError
from pflrepro.trees import Tree


def parts() -> dict[str, Part]:
    buffers = Tree(mean=torch.zeros(2))
    return {
        "base": Part("shared", Tree(w=torch.ones(2)), buffers),
        "head": Part("shared", Tree(w=torch.zeros(1))),
        "bias": Part("personal", Tree(b=torch.ones(3))),
    }


def test_groups_change_hands_and_nothing_else() -> None:
    before = parts()
    after = as_kind(before, "personal", "head")
    assert {name: part.kind for name, part in after.items()} == {
        "base": "shared",
        "head": "personal",
        "bias": "personal",
    }
    assert list(after) == list(before) and after["base"] is before["base"]
    assert after["head"].params is before["head"].params and before["head"].kind == "shared"
    everything = as_kind(before, "frozen")
    assert {part.kind for part in everything.values()} == {"frozen"}
    assert everything["base"].buffers is before["base"].buffers
    with pytest.raises(UserError, match="unknown group 'classifier'; valid: base, bias, head"):
        as_kind(before, "personal", "classifier")
    with pytest.raises(UserError, match="unknown kind of group 'private'; valid: "):
        as_kind(before, "private", "head")


def test_initial_parameters_are_picked_by_who_holds_them() -> None:
    setup = Setup(clients=1, classes=2, features=1, info=Tree(), base=None, head=None, largest=1, parts=parts())
    assert list(setup.pick("shared")) == ["base", "head"]
    assert setup.pick("shared").base is setup.parts["base"].params
    assert list(setup.pick("personal", "frozen")) == ["bias"] and not setup.pick("server")


@pytest.mark.parametrize(
    ("phase", "local"),
    [
        (Phase(), True),
        (Phase(data="valid"), True),
        (Phase(scan=True), False),
        (Phase(where="adapt"), False),
        (Phase(where="server"), False),
    ],
)
def test_local_training_is_what_clients_do_for_the_round(phase: Phase, local: bool) -> None:
    assert phase.local is local


def test_a_phase_draws_what_it_drew_and_more() -> None:
    first, second = Draw("uniform", (3,)), Draw("normal")
    phase = Phase("own", passes=2, draws={"u": first})
    assert phase.drawing(v=second) == Phase("own", passes=2, draws={"u": first, "v": second})
    assert phase.draws == {"u": first}
