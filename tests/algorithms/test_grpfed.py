"""GRP-FED: adaptive aggregation by hand, the three steps of a batch against plain autograd, what is reported and tested."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pflrepro import conformance
from pflrepro.algorithms import build_method
from pflrepro.algorithms.fedavg import FedAvg
from pflrepro.algorithms.grpfed import GRPFED
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.models import build_model
from pflrepro.trees import Tree

NAME = "pflrepro.algorithms.grpfed:GRPFED"


def assert_close(a: Tree, b: Tree, tolerance: float = 1e-12) -> None:
    for mine, theirs in zip(a.leaves(), b.leaves(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=tolerance)


class Spy(GRPFED):
    """Keeps what was uploaded."""

    seen: list[Tree] = []  # noqa: RUF012

    def aggregate(self, server, uploads, cohort, ctx):
        self.seen.append(uploads)
        return super().aggregate(server, uploads, cohort, ctx)


@pytest.fixture
def reports(simulate):
    """`reports(how, ...)`: the losses L_m that were uploaded in the last round."""

    def run(how: str, **settings: Any) -> torch.Tensor:
        Spy.seen = []
        simulate(Spy(reported=how), **settings)
        return Spy.seen[-1].F

    return run


# ---- the server ------------------------------------------------------------------------------------------------------------
def close_round(method: GRPFED, losses: list[float], q: float, spread: float, started: float = 1.0) -> Tree:
    state = Tree(q=torch.tensor(q), spread=torch.tensor(spread), started=torch.tensor(started)).to(torch.float64)
    models = Tree(w=torch.eye(len(losses), dtype=torch.float64))  # the mixture shows its weights
    uploads = Tree(params=models, F=torch.tensor(losses, dtype=torch.float64))
    return method.aggregate(state, uploads, Tree(), None)


def test_q_follows_the_spread_of_the_losses() -> None:
    """Losses 1 and 3: sigma = 1. From 0.5: 10 + 0.5 * 0.5 / 0.75; from 3: 10 + 0.5 * (-2) / 2; from 1: no change."""
    for old, expected in ((0.5, 10 + 1 / 3), (3.0, 9.5), (1.0, 10.0)):
        after = close_round(GRPFED(), [1.0, 3.0], 10.0, old)
        assert float(after.q) == pytest.approx(expected, abs=1e-12) and float(after.spread) == 1.0
    assert float(close_round(GRPFED(), [1.0, 3.0], 10.0, 0.0, started=0.0).q) == 10.0
    assert float(close_round(GRPFED(), [2.0, 2.0], 10.0, 0.0).q) == 10.0  # no spread, neither now nor before
    assert float(close_round(GRPFED(), [2.0, 2.0], 10.0, 1.0).q) == 9.0  # the longest step, eta_q times 2
    assert float(close_round(GRPFED(), [2.0, 2.0], 0.4, 1.0).q) == 0.0  # never below 0


def test_weights_are_powers_of_the_losses() -> None:
    """q = 2 and losses 1, 2, 3: weights 1, 4, 9 of 14. The new q counts at once."""
    after = close_round(GRPFED(q0=2.0), [1.0, 2.0, 3.0], 2.0, 0.0, started=0.0)
    torch.testing.assert_close(after.params.w, torch.tensor([1.0, 4, 9]).double() / 14, rtol=0, atol=1e-10)
    moved = close_round(GRPFED(), [1.0, 3.0], 1.0, 3.0)  # q: 1 - 0.5
    expected = torch.tensor([1.0, math.sqrt(3)], dtype=torch.float64) / (1 + math.sqrt(3))
    torch.testing.assert_close(moved.params.w, expected, rtol=0, atol=1e-10)
    equal = close_round(GRPFED(), [0.7, 0.7, 0.7, 0.7], 10.0, 0.0)
    torch.testing.assert_close(equal.params.w, torch.full((4,), 0.25).double(), rtol=0, atol=1e-12)


def test_without_power_the_global_model_of_equal_clients_is_fedavgs(digits, simulate) -> None:
    settings = {"federation": digits, "batch_size": 20, "momentum": 0.5, "rounds": 3}
    ours = simulate(NAME, options={"q0": 0.0, "q_step": 0.0}, **settings)
    fedavg = simulate("fedavg", **settings)
    assert_close(ours.replicas[0].server.params, fedavg.replicas[0].server.params)
    for recorded in ("train_loss", "objective"):  # the history has the global extractor's losses, not the personal ones
        np.testing.assert_allclose(ours.history(0)[recorded], fedavg.history(0)[recorded], rtol=1e-9)


def test_the_first_round_keeps_q_and_later_ones_do_not(simulate) -> None:
    q = [float(simulate(NAME, rounds=rounds).replicas[0].server.q) for rounds in (0, 1, 2)]
    assert q[0] == q[1] == 10.0 and q[2] != 10.0 and abs(q[2] - 10) <= 1


@pytest.mark.parametrize(("first", "expected"), [("kept", 10.0), ("moved", 11.0)])
def test_q_in_the_first_round(first: str, expected: float) -> None:
    """Without an older spread the fraction is 2: q moves by 2 eta_q."""
    after = close_round(GRPFED(first_q=first), [1.0, 3.0], 10.0, 0.0, started=0.0)
    assert float(after.q) == pytest.approx(expected, abs=1e-12)


def test_a_negative_q_may_be_allowed() -> None:
    """0.4 - 1; then q = -1 gives losses 1 and 2 the weights 2/3 and 1/3."""
    for word, expected in (("cut", 0.0), ("allowed", -0.6)):
        assert float(close_round(GRPFED(negative_q=word), [2.0, 2.0], 0.4, 1.0).q) == pytest.approx(expected)
    after = close_round(GRPFED(negative_q="allowed"), [1.0, 2.0], -1.0, 0.5)
    torch.testing.assert_close(after.params.w, torch.tensor([2.0, 1.0]).double() / 3, rtol=0, atol=1e-10)


def close_with_absent(**options: Any) -> Tree:
    """Clients 0 and 2 of four report 1 and 3; client 1 reported 5 before and client 3 never; q = 1, sigma = sigma_old."""
    method = GRPFED(q0=1.0, q_step=0.5, **options)
    scalars = Tree(q=torch.tensor(1.0), spread=torch.tensor(1.0), started=torch.tensor(1.0))
    reports = Tree(loss=torch.tensor([9.0, 5.0, 0.0, 0.0]), known=torch.tensor([1.0, 1.0, 0.0, 0.0]))
    server = (scalars | Tree(reports=reports, params=Tree(w=torch.tensor([0.0, 0.0, 1.0])))).to(torch.float64)
    models = torch.tensor([[1.0, 0, 0], [0, 1, 0]], dtype=torch.float64)
    uploads = Tree(params=Tree(w=models), F=torch.tensor([1.0, 3.0], dtype=torch.float64))
    return method.aggregate(server, uploads, Tree(id=torch.tensor([0, 2])), None)


def test_the_sum_over_all_clients() -> None:
    """Losses 1, 5, 3 are known: weights 1/9 and 3/9, and 5/9 for what the server holds."""
    after = close_with_absent(summed_over="all")
    torch.testing.assert_close(after.params.w, torch.tensor([1.0, 3, 5]).double() / 9, rtol=0, atol=1e-10)
    assert after.reports.loss.tolist() == [1, 5, 3, 0] and after.reports.known.tolist() == [1, 1, 1, 0]
    assert float(after.q) == 1.0 and float(after.spread) == 1.0  # of the cohort, 1 and 3


def test_the_spread_of_all_clients() -> None:
    """Of 1, 5 and 3: sigma = sqrt(8/3), q = 1 + 0.5 (sigma - 1) / ((sigma + 1) / 2); the sum stays the cohort's."""
    after, sigma = close_with_absent(spread_of="all"), math.sqrt(8 / 3)
    q = 1 + (sigma - 1) / (sigma + 1)
    assert float(after.spread) == pytest.approx(sigma) and float(after.q) == pytest.approx(q)
    expected = torch.tensor([1.0, 3**q, 0], dtype=torch.float64) / (1 + 3**q)
    torch.testing.assert_close(after.params.w, expected, rtol=0, atol=1e-10)


def test_with_everybody_present_all_is_the_cohort(simulate) -> None:
    plain, all_ = (
        simulate(NAME, options=o, rounds=3).replicas[0] for o in ({}, {"summed_over": "all", "spread_of": "all"})
    )
    assert_close(all_.server.only(["params", "q"]), plain.server.only(["params", "q"]), 1e-12)


def test_statistics_follow_the_weights_of_the_method(digits, simulate) -> None:
    """A method that gives client 0 all the weight ends round 0 with the statistics of that client alone."""

    class First(FedAvg):
        def averaging(self, server, uploads, cohort, ctx):
            return (cohort.id == 0).to(cohort.p.dtype)

    settings = {"model": "cnn-digits-bn", "rounds": 1, "batch_size": 20, "drop_last": True, "statistics": "averaged"}
    rows = digits.rows
    alone = Federation(
        digits.x, digits.y, rows["train"][:1], rows["test"][:1], unit=(1 / 8, -1.0), classes=digits.classes
    )
    first, single = (simulate(FedAvg(), federation=alone, **settings), simulate(First(), federation=digits, **settings))
    assert first.replicas[0].averaged.has_leaves()
    assert_close(single.replicas[0].averaged, first.replicas[0].averaged)
    sizes, losses = (
        simulate(NAME, options={"statistics_weights": word}, federation=digits, **settings)
        for word in ("sizes", "losses")
    )
    assert_close(sizes.replicas[0].server, losses.replicas[0].server, 0)
    with pytest.raises(AssertionError):
        assert_close(sizes.replicas[0].averaged, losses.replicas[0].averaged, 1e-6)
    q, uploads = torch.tensor(2.0), Tree(F=torch.tensor([1.0, 2.0, 3.0]))
    weights = GRPFED(statistics_weights="losses").averaging(Tree(q=q), uploads, Tree(), None)
    torch.testing.assert_close(weights, torch.tensor([1.0, 4, 9]) / 14)


# ---- one client ------------------------------------------------------------------------------------------------------------
class Plain:
    """The three steps of every batch for one client that trains on full batches, by torch.optim."""

    def __init__(self, federation: Federation, start: Tree, momentum: float, **options: Any) -> None:
        self.options = {"beta": 0.5, "discriminator_loss": "bce", "regulariser": "paper"} | options
        network = build_model("mlp", federation.shape, federation.classes, 0)
        self.base, self.head = network.base.double(), network.head.double()
        self.local = build_model("mlp", federation.shape, federation.classes, 0).base.double()
        self.fixed = build_model("mlp", federation.shape, federation.classes, 0)
        self.fixed = nn.ModuleDict({"base": self.fixed.base, "head": self.fixed.head}).double()
        k = network.features
        self.discriminator = nn.ModuleDict({"first": nn.Linear(k, k), "second": nn.Linear(k, 1)}).double()
        self.discriminator.load_state_dict(dict(start))
        self.x, self.y = federation.batch(torch.as_tensor(federation.rows["train"][0]), torch.float64)
        groups = (nn.ModuleList([self.base, self.head]), self.local, self.discriminator)
        self.optimisers = [torch.optim.SGD(group.parameters(), lr=0.05, momentum=momentum) for group in groups]

    def logit(self, z: torch.Tensor) -> torch.Tensor:
        return self.discriminator["second"](F.relu(self.discriminator["first"](z)))[:, 0]

    def epoch(self) -> None:
        self.descend(0, F.cross_entropy(self.head(self.base(self.x)), self.y))
        classifier = self.head if self.options.get("classifier") != "received" else self.fixed["head"]
        z, beta = self.local(self.x), self.options["beta"]
        real = torch.sigmoid(self.logit(z))
        pull = torch.log(1 - real) if self.options["regulariser"] == "paper" else -torch.log(real)
        self.descend(1, beta * F.cross_entropy(classifier(z), self.y) + (1 - beta) * pull.mean())
        reference = self.base if self.options.get("reference") == "trained" else self.fixed["base"]
        with torch.no_grad():
            features = reference(self.x), self.local(self.x)
        of_global, of_local = (torch.sigmoid(self.logit(z)) for z in features)
        if self.options["discriminator_loss"] == "bce":
            self.descend(2, (-torch.log(of_global) - torch.log(1 - of_local)).mean())
        else:
            self.descend(2, (torch.log(1 - of_global) + torch.log(of_local)).mean())

    def descend(self, group: int, loss: torch.Tensor) -> None:
        for optimiser in self.optimisers:
            optimiser.zero_grad()
        loss.backward()
        self.optimisers[group].step()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"classifier": "received", "reference": "trained"},
        {"discriminator_loss": "paper", "regulariser": "non-saturating", "beta": 0.2},
    ],
)
def test_the_three_steps(federation, simulate, options: dict) -> None:
    """Three full-batch epochs with momentum; every optimiser state is its own."""
    rows = federation.rows["train"][0]
    alone = Federation(federation.x, federation.y, [rows], [rows[:3]], classes=federation.classes)
    settings = {"federation": alone, "batch_size": 100, "momentum": 0.9}
    start = simulate(NAME, rounds=0, **settings).replicas[0].clients.personal[0]
    ours = simulate(NAME, rounds=1, local_epochs=3, options=options, **settings).replicas[0]
    plain = Plain(alone, start.discriminator, 0.9, **options)
    for _ in range(3):
        plain.epoch()
    expected = Tree(
        base=Tree(plain.local.state_dict()),
        discriminator=Tree(plain.discriminator.state_dict()),
    )
    assert_close(ours.clients.personal[0], expected, 1e-11)
    assert_close(
        ours.server.params, Tree(base=Tree(plain.base.state_dict()), head=Tree(plain.head.state_dict())), 1e-11
    )


@pytest.mark.parametrize("momentum", ["fresh", "kept"])
@pytest.mark.parametrize("backend", ["loop", "batched"])
def test_the_personal_momentum_over_rounds(federation, simulate, momentum: str, backend: str) -> None:
    """Three rounds of two full-batch epochs; F^g's and C's is fresh every round in both."""
    rows = federation.rows["train"][0]
    alone = Federation(federation.x, federation.y, [rows], [rows[:3]], classes=federation.classes)
    settings = {"federation": alone, "batch_size": 100, "momentum": 0.9, "local_epochs": 2, "backend": backend}
    start = simulate(NAME, rounds=0, **settings).replicas[0].clients.personal[0]
    ours = simulate(NAME, rounds=3, options={"personal_momentum": momentum}, **settings).replicas[0]
    plain = Plain(alone, start.discriminator, 0.9)
    for _ in range(3):
        plain.fixed.load_state_dict(
            {f"{part}.{n}": v for part in ("base", "head") for n, v in getattr(plain, part).state_dict().items()}
        )
        for optimiser in plain.optimisers[: 1 if momentum == "kept" else 3]:
            optimiser.state.clear()
        plain.epoch()
        plain.epoch()
    expected = Tree(base=Tree(plain.local.state_dict()), discriminator=Tree(plain.discriminator.state_dict()))
    assert_close(ours.clients.personal[0], expected, 1e-11)
    assert_close(
        ours.server.params, Tree(base=Tree(plain.base.state_dict()), head=Tree(plain.head.state_dict())), 1e-11
    )


def test_an_idle_client_keeps_its_momentum(federation, simulate) -> None:
    """A client without a full batch takes no step: what it kept stays 0, that of others does not."""
    options = {"personal_momentum": "kept"}
    kept = simulate(NAME, options=options, momentum=0.9, batch_size=5, drop_last=True).replicas[0].clients.velocity.base
    sizes = federation.sizes("train")
    moved = [any(bool(leaf[i].any()) for leaf in kept.leaves()) for i in range(federation.clients)]
    assert moved == [bool(n >= 5) for n in sizes] and not all(moved)
    assert "velocity" not in simulate(NAME, options=options, rounds=0).replicas[0].clients  # a run without momentum


# ---- starts and widths -----------------------------------------------------------------------------------------------------
def distinct(rows: torch.Tensor) -> int:
    return len({tuple(row.flatten().tolist()) for row in rows})


def test_starts(simulate) -> None:
    own = {"extractor_start": "own", "discriminator_start": "own"}
    common, drawn = (simulate(NAME, options=options, rounds=0).replicas[0] for options in ({}, own))
    base, discriminator = ((r.clients.personal.base, r.clients.personal.discriminator) for r in (common, drawn))
    assert_close(base[0][2], common.server.params.base, 0)
    assert distinct(base[1]["first.weight"]) == 1 and distinct(discriminator[1]["first.weight"]) == 5
    for leaf in discriminator[0].leaves():
        assert distinct(leaf) == 5
    other = build_model("mlp", (8, 8), 6, 0, "weights/grpfed/3").base.double()
    assert_close(discriminator[0][3], Tree(dict(other.named_parameters())), 0)
    assert_close(drawn.server, common.server, 0)


def test_widths(simulate) -> None:
    """mlp3@fc2 has 500 features and a head of 100 hidden units."""
    options = {"discriminator_width": 7, "classifier_width": 9}
    runs = [
        simulate(NAME, options=options, model="mlp3@fc2", rounds=1, backend=b).replicas[0] for b in ("loop", "batched")
    ]
    shapes = sorted(tuple(leaf.shape) for leaf in runs[0].server.params.head.leaves())
    assert shapes == [(6,), (6, 9), (9,), (9, 500)]
    hidden = runs[0].clients.personal.discriminator
    assert hidden["first.weight"].shape == (5, 7, 500) and hidden["second.weight"].shape == (5, 1, 7)
    assert_close(runs[1].server, runs[0].server, 1e-10)


def test_another_classifier_needs_a_head_of_two_layers(simulate) -> None:
    with pytest.raises(UserError, match="two linear layers"):
        simulate(NAME, options={"classifier_width": 9})


OTHERS = {
    "first_q": "moved",
    "negative_q": "allowed",
    "spread_of": "all",
    "summed_over": "all",
    "statistics_weights": "losses",
    "extractor_start": "own",
    "discriminator_start": "own",
    "discriminator_width": 5,
    "personal_momentum": "kept",
}


def test_the_other_choices_conform() -> None:
    moves = dict.fromkeys(("server/q", "server/spread", "server/started", "server/reports"), "of the losses")
    numbered = {"client_permutation": "every client's initial weights are keyed by its number"}
    results = conformance.check("grp-fed", OTHERS, moves=moves, without=numbered)
    assert sum(result.outcome == "passed" for result in results) > 10


def test_beta_one_has_no_regulariser(simulate) -> None:
    """The discriminator's options then leave models and scores as they are."""
    one, other = (
        simulate(NAME, options={"beta": 1.0} | options, momentum=0.5)
        for options in ({}, {"discriminator_loss": "paper", "regulariser": "non-saturating", "reference": "trained"})
    )
    assert_close(one.replicas[0].clients.personal.base, other.replicas[0].clients.personal.base, 0)
    assert_close(one.replicas[0].server, other.replicas[0].server, 0)
    assert one.history(0)["loss"].tolist() == other.history(0)["loss"].tolist()
    assert any(
        bool((a != b).any())
        for a, b in zip(
            one.replicas[0].clients.personal.discriminator.leaves(),
            other.replicas[0].clients.personal.discriminator.leaves(),
            strict=True,
        )
    )


def test_the_personal_side_does_not_touch_the_global_one(simulate) -> None:
    """One round; later ones differ through nothing but the reported losses, which are the global model's."""
    a, b = (simulate(NAME, options=options, rounds=3).replicas[0] for options in ({"beta": 0.0}, {"beta": 0.9}))
    assert_close(a.server, b.server, 0)
    with pytest.raises(AssertionError):
        assert_close(a.clients.personal.base, b.clients.personal.base, 1e-6)


# ---- the reported loss -----------------------------------------------------------------------------------------------------
def batch_losses(federation, client: int, size: int) -> torch.Tensor:
    """The mean losses of the initial model on consecutive pieces of a client's training part."""
    network = build_model("mlp", federation.shape, federation.classes, 0)
    x, y = federation.batch(torch.as_tensor(federation.rows["train"][client]), torch.float64)
    with torch.no_grad():
        losses = F.cross_entropy(network.head.double()(network.base.double()(x)), y, reduction="none")
    return torch.stack([piece.mean() for piece in losses.split(size)])


def test_reported_losses_at_rest(federation, reports) -> None:
    """At rate 0 with full batches all three are the received model's loss; with small ones a mean over batches is another number."""
    start = torch.cat([batch_losses(federation, i, 100) for i in range(federation.clients)])
    for how in ("last-epoch", "received", "last-batch"):
        got = reports(how, rounds=1, lr=0.0, batch_size=100, local_epochs=2)
        torch.testing.assert_close(got, start, rtol=0, atol=1e-12)
    for how, equal in (("received", True), ("last-epoch", False)):
        got = reports(how, rounds=1, lr=0.0, batch_size=20)
        assert torch.allclose(got, start, rtol=0, atol=1e-12) == equal


def test_the_last_epoch_counts(federation, reports) -> None:
    """With one batch an epoch: the loss of the third epoch is that of a run of three steps before its last."""
    settings = {"rounds": 1, "batch_size": 100}
    last = {epochs: reports("last-epoch", local_epochs=epochs, **settings) for epochs in (1, 2, 3)}
    assert (last[3] < last[2]).all() and (last[2] < last[1]).all()
    torch.testing.assert_close(last[3], reports("last-batch", local_epochs=3, **settings), rtol=0, atol=0)
    mean, batch = (reports(how, rounds=1, local_epochs=2) for how in ("last-epoch", "last-batch"))
    assert (mean != batch)[[0, 2, 3, 4]].all() and mean[1] == batch[1]  # client 1 has one batch an epoch


# ---- what is tested ----------------------------------------------------------------------------------------------------------
def test_the_personal_extractor_is_tested_under_the_received_classifier(federation, simulate) -> None:
    for option in ("received", "own"):
        simulation = simulate(NAME, options={"tested_classifier": option}, participation=0.6)
        replica = simulation.replicas[0]
        for i in range(federation.clients - 1):  # the last has no test samples
            network = build_model("mlp", federation.shape, federation.classes, 0)
            network.base.double().load_state_dict(dict(replica.clients.personal.base[i]))
            head = replica.server.params.head if option == "received" else replica.clients.head[i]
            network.head.double().load_state_dict(dict(head))
            x, y = federation.batch(torch.as_tensor(federation.rows["test"][i]), torch.float64)
            with torch.no_grad():
                expected = F.cross_entropy(network.head(network.base(x)), y, reduction="sum")
            assert simulation.history(0)["loss"][-1][i] == pytest.approx(float(expected), rel=1e-9)


def test_each_extractor_has_running_statistics_of_its_own(digits, simulate) -> None:
    settings = {"federation": digits, "model": "cnn-digits-bn", "rounds": 1, "batch_size": 20, "drop_last": True}
    ours, fedavg = simulate(NAME, **settings).replicas[0], simulate("fedavg", **settings).replicas[0]
    assert sorted(ours.kept) == ["personal", "shared"]
    assert_close(Tree(shared=ours.kept.shared), fedavg.kept)  # the discriminator's passes leave them alone


def test_it_learns(digits, simulate) -> None:
    history = simulate(NAME, rounds=6, federation=digits, batch_size=10, local_epochs=3, dtype="float32").history(0)
    assert history["correct"][-1].sum() / history["test_samples"].sum() > 0.7 and np.isfinite(history["loss"]).all()


@pytest.mark.parametrize(
    "options",
    [
        {"beta": 1.5},
        {"q0": -1.0},
        {"q_step": -0.5},
        {"discriminator_loss": "gan"},
        {"regulariser": "none"},
        {"classifier": "own"},
        {"reference": "global"},
        {"reported": "mean"},
        {"tested_classifier": "trained"},
        {"first_q": "zero"},
        {"negative_q": "kept"},
        {"spread_of": "server"},
        {"summed_over": "everyone"},
        {"statistics_weights": "equal"},
        {"extractor_start": "zero"},
        {"discriminator_start": "copy"},
        {"discriminator_width": -1},
        {"classifier_width": -1},
        {"personal_momentum": "reset"},
    ],
)
def test_impossible_values_are_refused(options: dict) -> None:
    with pytest.raises(UserError, match="GRP-FED"):
        build_method(NAME, options)
