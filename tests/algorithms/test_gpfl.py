"""GPFL: its conditions, guidance and ablations; the whole is compared with a literal transcription in test_literal."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from pflrepro.algorithms import build_method
from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.gpfl import GPFL
from pflrepro.algorithms.task import Context
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.models import build_model
from pflrepro.trees import Tree


def test_the_conditions_by_hand() -> None:
    """C = [[1, 2], [3, 6], [5, -2]], 1, 3 and 0 samples of the classes: g = (3, 2), p = (1 * C_0 + 3 * C_1) / 4 = (2.5, 5)."""
    embeddings = torch.tensor([[1.0, 2], [3, 6], [5, -2]])
    info = Tree(n=torch.tensor(4), counts=torch.tensor([1, 3, 0]))
    condition = build_method("gpfl").condition(embeddings, info)
    assert condition.g.tolist() == [3, 2] and condition.p.tolist() == [2.5, 5]


def test_conditions_pass_the_valve_together_as_they_do_alone(simulate) -> None:
    """CoV(f, c) written out, for the two conditions that share the layers' passes."""
    simulation = simulate("gpfl")
    w = simulation.replicas[0].server.params.valve
    z, conditions = torch.rand(3, 32).double(), torch.rand(2, 32).double()
    gates = simulation.method.gates(Tree(valve=w), *conditions)
    for c, gate in zip(conditions, gates, strict=True):
        gamma, beta = (
            F.layer_norm(F.relu(w[f"{name}.weight"] @ c + w[f"{name}.bias"]), (32,)) * w[f"{name}_norm.weight"]
            + w[f"{name}_norm.bias"]
            for name in ("scale", "shift")
        )
        expected = F.relu((gamma + 1) * z + beta)
        torch.testing.assert_close(simulation.method.valve(z, gate), expected, rtol=0, atol=1e-12)


class WholeLayers(GPFL):
    """GPFL whose clients train the valve's layers A themselves."""

    begin = Method.begin

    def _whole(self, local: Tree, ctx: Context) -> Tree:
        return local


@pytest.mark.parametrize(
    "settings", [{}, {"momentum": 0.9, "weight_decay": 0.01}, {"participation": 0.6, "first_weights": "slots"}]
)
def test_few_numbers_train_the_layers_of_the_valve(simulate, settings: dict) -> None:
    """A = s A_0 + D^T c is what SGD makes of A itself, round by round, for everybody's state and every score."""
    ours, theirs = simulate("gpfl", rounds=3, **settings), simulate(WholeLayers(), rounds=3, **settings)
    for mine, whole in zip(ours.replicas[0].server.leaves(), theirs.replicas[0].server.leaves(), strict=True):
        torch.testing.assert_close(mine, whole, rtol=0, atol=1e-12)
    for mine, whole in zip(ours.replicas[0].clients.leaves(), theirs.replicas[0].clients.leaves(), strict=True):
        torch.testing.assert_close(mine, whole, rtol=0, atol=1e-12)
    assert ours.history(0)["correct_after"].tolist() == theirs.history(0)["correct_after"].tolist()


def test_the_sizes_of_the_additions(simulate) -> None:
    """CoV has 2 (K^2 + 3 K) parameters, the embeddings U K; both are sent, with the base, and the head is not."""
    ours = simulate("gpfl", rounds=1)
    params = ours.replicas[0].server.params
    assert params.valve.size() == 2 * (32**2 + 3 * 32)
    assert params.embeddings.size() == 6 * 32
    assert sorted(params) == ["base", "embeddings", "valve"]
    assert ours.traffic["numbers_up"] == params.size()


def test_conditions_are_zero_until_the_first_aggregation_in_the_released_code(simulate) -> None:
    own = simulate("gpfl", rounds=0).replicas[0]
    assert not own.clients.condition.g.any() and not own.clients.condition.p.any()
    assert not own.server.previous.any()


def test_own_conditions_differ_between_clients_and_absent_ones_use_the_last_embeddings(federation, simulate) -> None:
    """After round 0: g_i = mean of C_i for participants; an absent client has that of the initial C."""
    start = simulate("gpfl", rounds=0).replicas[0].server.params.embeddings.weight
    ours = simulate("gpfl", rounds=1, participation=0.6)
    replica = ours.replicas[0]
    took_part = ours.history(0)["participated"][-1]
    common, row = Tree(replica.server), replica.clients
    torch.testing.assert_close(replica.server.previous, start, rtol=0, atol=0)
    info = federation.info()

    class Moment:
        def __init__(self, i: int) -> None:
            self.info = info[i]

        def pick(self, params: Tree, *kinds: str) -> Tree:
            return params

    method = ours.method
    tested = [method.model(common, Tree(), row[i], Moment(i)).condition.g for i in range(federation.clients)]
    for i, here in enumerate(took_part):
        assert torch.equal(tested[i], start.mean(0)) != here
    present = [tested[i] for i, here in enumerate(took_part) if here]
    assert not torch.equal(present[0], present[1])


def test_decay_shrinks_valve_and_embeddings_alone(simulate) -> None:
    """One step: of two decays, valve and embeddings differ by eta (mu - mu') w, base and head not at all."""
    settings = {"rounds": 1, "batch_size": 100}
    start = simulate("gpfl", rounds=0).replicas[0].server.params
    none, some = (simulate("gpfl", options={"decay": decay}, **settings).replicas[0] for decay in (0.0, 0.4))
    for name in ("valve", "embeddings"):
        for a, b, w in zip(
            none.server.params[name].leaves(), some.server.params[name].leaves(), start[name].leaves(), strict=True
        ):
            torch.testing.assert_close(a - b, 0.05 * 0.4 * w, rtol=0, atol=1e-12)
    for a, b in zip(none.server.params.base.leaves(), some.server.params.base.leaves(), strict=True):
        assert torch.equal(a, b)
    for a, b in zip(none.clients.params.leaves(), some.clients.params.leaves(), strict=True):
        assert torch.equal(a, b)


# ---- Table 6 -------------------------------------------------------------------------------------------------------------------
def test_without_magnitude_guidance_it_is_that_of_weight_zero(simulate) -> None:
    ours = simulate("gpfl/without-mlg").replicas[0].server
    zero = simulate("gpfl", options={"guidance": 0.0}).replicas[0].server
    for mine, theirs in zip(ours.leaves(), zero.leaves(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-14)


def test_without_magnitude_guidance_its_weight_cannot_be_set() -> None:
    with pytest.raises(UserError, match=r"guidance of gpfl/without-mlg must be left at 0\.01, not 0\.0:"):
        build_method("gpfl/without-mlg", {"guidance": 0})
    assert build_method("gpfl/without-mlg", {"guidance": 0.01, "decay": 0.0}).decay == 0


@pytest.mark.parametrize("without", ["pci", "cov", "gce"])
def test_the_loss_that_is_left(federation, simulate, without: str) -> None:
    """One full-batch step of one client, written out: the parts that are left, with constants where the paper puts them."""
    rows = federation.rows["train"][0]
    alone = Federation(federation.x, federation.y, [rows], [rows[:3]], classes=federation.classes)
    options = {"decay": 0.0} | ({} if without == "gce" else {"guidance": 0.3})
    settings = {"federation": alone, "batch_size": 100, "options": options}
    start, after = (simulate(f"gpfl/without-{without}", rounds=rounds, **settings).replicas[0] for rounds in (0, 1))
    w = {**start.server.params, "head": start.clients.params.head[0]}
    w = Tree({group: Tree({n: v.clone().requires_grad_() for n, v in tree.items()}) for group, tree in w.items()})
    base = build_model("mlp", alone.shape, alone.classes, 0).base.double()
    z, y = torch.func.functional_call(base, dict(w.base), (alone.x[rows].double(),)), alone.y[rows]

    def valve(c: torch.Tensor) -> torch.Tensor:
        gamma, beta = (
            F.layer_norm(
                F.relu(F.linear(c, w.valve[f"{name}.weight"], w.valve[f"{name}.bias"])),
                (32,),
                w.valve[f"{name}_norm.weight"],
                w.valve[f"{name}_norm.bias"],
            )
            for name in ("scale", "shift")
        )
        return F.relu((gamma + 1) * z + beta)

    personal, guided = (z, z) if without == "cov" else (valve(torch.ones(32).double()), valve(torch.zeros(32).double()))
    value = F.cross_entropy(F.linear(personal, w.head.weight, w.head.bias), y)
    if without != "gce":
        table = w.embeddings.weight
        value = value + F.cross_entropy(F.normalize(guided) @ F.normalize(table).T, y)
        value = value + 0.3 * (guided - table.detach()[y]).norm()
    value.backward()
    expected = {"cov": ["base", "embeddings"], "gce": ["base", "valve"], "pci": ["base", "embeddings", "valve"]}
    assert sorted(after.server.params) == expected[without]
    for group, tree in {**after.server.params, "head": after.clients.params.head[0]}.items():
        for name, moved in tree.items():
            step = torch.zeros_like(moved) if w[group][name].grad is None else w[group][name].grad
            torch.testing.assert_close(moved, w[group][name].detach() - 0.05 * step, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "option", "of"),
    [("gpfl", "guidance", "CategoryEmbeddings"), ("gpfl/without-gce", "decay", "ConditionalValve")],
)
def test_negative_weights_are_refused(name: str, option: str, of: str) -> None:
    with pytest.raises(UserError, match=f"option {option} of {name} must be a number >= 0, not -1"):
        build_method(name, {option: -1.0})
    with pytest.raises(UserError, match=f"{option} of {of} must be a number >= 0, not -1"):
        type(build_method(name))(**{option: -1.0})
