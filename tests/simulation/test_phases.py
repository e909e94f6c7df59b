"""What a method can ask for: prologue, server phases, adaptation, validation data, kinds of groups, rates a group."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.fedavg import FedAvg
from pflrepro.algorithms.local import Local
from pflrepro.algorithms.phases import Draw, Part, Phase
from pflrepro.settings import Settings
from pflrepro.simulation.schedule import batches
from pflrepro.trees import Tree

BACKENDS = ("loop", "batched", "graph")


# ---- prologue ------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Gathers(Method):
    """Adds up what its clients saw first, and the round's number."""

    def begin(self, common, own, client, ctx):
        return super().begin(common, own, client, ctx) | Tree(first=0 * ctx.scalars.rate)

    def step(self, local, batch, ctx):
        return super().step(local, batch, ctx) | Tree(
            first=local.first + (batch.x.flatten(1).sum(1) * batch.mask).sum()
        )

    def finish(self, local, client, ctx):
        return Tree(), Tree(first=local.first, t=ctx.scalars.t, one=torch.ones_like(local.first))

    def aggregate(self, server, uploads, cohort, ctx):
        return Tree(
            total=server.total + uploads.first.sum(), ts=server.ts + uploads.t.mean(), n=server.n + uploads.one.sum()
        )


@dataclass(frozen=True)
class HasPrologue(Method):
    def prologue(self):
        return Gathers()

    def init_server(self, setup):
        return super().init_server(setup) | Tree(total=setup.zeros(), ts=setup.zeros(), n=setup.zeros())

    def send(self, server, cohort):
        return server, Tree()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_prologue_runs_once_before_round_0_with_everyone_and_keeps_the_model(
    start, federation, differ, backend: str
) -> None:
    simulation = start(HasPrologue(), backend=backend, participation=0.4)
    plain = start(FedAvg(), backend=backend, participation=0.4)
    simulation.step(), plain.step()
    server = simulation.replicas[0].server
    assert (server.n.item(), server.ts.item()) == (5, -1), "five clients, round -1"
    everything = federation.batch(torch.as_tensor(np.concatenate(federation.rows["train"])), torch.float64)[0].sum()
    assert server.total.item() == pytest.approx(everything.item(), rel=1e-10)
    assert differ(server.params, plain.replicas[0].server.params) == 0.0, (
        "its draws are keyed apart, its training is discarded"
    )
    simulation.step()
    assert simulation.replicas[0].server.n.item() == 5


def test_a_prologue_is_not_in_the_history(simulate) -> None:
    history = simulate(HasPrologue()).history(0)
    assert history["round"].tolist() == [0, 1, 2]
    assert (history["correct_after"][0] == -1).all() and not history["participated"][0].any()


# ---- server phases -------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ServerLearns(Method):
    def phases(self, clock):
        return [
            Phase(),
            Phase("polish", where="server", data="none", steps=3 + clock.t, draws={"z": Draw("normal", (2,))}),
        ]

    def init_server(self, setup):
        return super().init_server(setup) | Tree(steps=setup.zeros(), noise=setup.zeros(2), uploads=setup.zeros())

    def serve(self, server, uploads, batch, cohort, ctx):
        assert ctx.clock is not None and ctx.phase.name == "polish"
        seen = torch.tensor(float(len(next(uploads.leaves()))), dtype=server.steps.dtype)
        return Tree(steps=server.steps + 1, noise=server.noise + batch.z, uploads=seen)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_server_phase_runs_after_the_uploads_with_draws_of_its_round(simulate, backend: str) -> None:
    simulation = simulate(ServerLearns(), backend=backend, participation=0.6, seeds=[0, 1])
    first, second = (replica.server for replica in simulation.replicas)
    assert (first.steps.item(), first.uploads.item()) == (3 + 4, 3)
    assert not torch.equal(first.noise, second.noise), "each seed has its own draws"
    assert torch.equal(first.noise, simulate(ServerLearns(), participation=0.6).replicas[0].server.noise)


# ---- adaptation ----------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class FineTunes(Method):
    def phases(self, clock):
        return [Phase(), Phase("tune", where="adapt", passes=2, train=("head",))]


@pytest.mark.parametrize("backend", BACKENDS)
def test_adaptation_trains_a_copy_before_the_test_and_writes_nothing_back(
    simulate, federation, differ, backend: str
) -> None:
    simulation, plain = (simulate(method, rounds=1, backend=backend) for method in (FineTunes(), FedAvg()))
    assert differ(simulation.replicas[0].server, plain.replicas[0].server) == 0.0
    scores, settings = simulation.history(0)["loss"][1], simulation.settings
    params, task = plain.replicas[0].server.params, simulation.task
    for client in range(5):
        weight, bias = params.head.weight.clone().requires_grad_(), params.head.bias.clone().requires_grad_()
        optimiser = torch.optim.SGD([weight, bias], lr=settings.lr)
        for rows in batches(federation, Phase(passes=2), settings, 0, 1, client, "adapt/train"):
            x, y = federation.batch(torch.as_tensor(rows), torch.float64)
            z = task.base(params.base, Tree(), x, False)[0]
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(z @ weight.T + bias, y).backward()
            optimiser.step()
        x, y = federation.batch(torch.as_tensor(federation.rows["test"][client]), torch.float64)
        logits = task.base(params.base, Tree(), x, False)[0] @ weight.T + bias
        loss = torch.nn.functional.cross_entropy(logits, y, reduction="sum").item()
        assert scores[client] == pytest.approx(loss, rel=1e-10, abs=1e-10)


@dataclass(frozen=True)
class ScalesBySteps(FineTunes):
    def correct(self, grads, local, ctx):
        return grads / ctx.steps[ctx.phase.name].clamp(min=1)


@pytest.mark.parametrize("receivers", ["all", "selected"])
def test_an_adaptation_knows_its_number_of_steps(simulate, receivers: str) -> None:
    runs = [
        simulate(ScalesBySteps(), backend=backend, receivers=receivers, participation=0.6).history(0)["loss"]
        for backend in BACKENDS
    ]
    assert np.allclose(runs[0], runs[1], rtol=1e-10) and np.allclose(runs[0], runs[2], rtol=1e-10)


# ---- which groups train, at which rate -----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class TwoPhases(Method):
    """The head first, at a rate of its own, then the base with weight decay."""

    def phases(self, clock):
        return [
            Phase("head", train=("head",), rate={"head": 0.2}),
            Phase("base", train=("base",), decay={"base": 0.1}, passes=2),
        ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_phases_train_their_groups_in_turn_with_their_rates_and_decays(simulate, single, differ, backend: str) -> None:
    simulation = simulate(TwoPhases(), rounds=1, federation=single, backend=backend, momentum=0.5, batch_size=16)
    network = simulation.task
    params = simulate(FedAvg(), rounds=0, federation=single).replicas[0].server.params
    leaves = {group: {n: v.clone().requires_grad_() for n, v in params[group].items()} for group in ("base", "head")}
    for group, passes, extra in (("head", 1, {"lr": 0.2}), ("base", 2, {"lr": 0.05, "weight_decay": 0.1})):
        optimiser = torch.optim.SGD(leaves[group].values(), momentum=0.5, **extra)
        for rows in batches(
            single, Phase(passes=passes), Settings(1, batch_size=16, drop_last=False), 0, 0, 0, "clients/train"
        ):
            x, y = single.batch(torch.as_tensor(rows), torch.float64)
            z = network.base(Tree(leaves["base"]), Tree(), x, False)[0]
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(network.head(Tree(leaves["head"]), Tree(), z, False)[0], y).backward()
            optimiser.step()
    found = Tree({group: Tree({n: v.detach() for n, v in tree.items()}) for group, tree in leaves.items()})
    assert differ(found, simulation.replicas[0].server.params) < 1e-12


@dataclass(frozen=True)
class Plain(Method):
    def phases(self, clock):
        return [Phase(optimiser="plain")]


def test_a_plain_phase_has_neither_momentum_nor_the_runs_weight_decay(simulate, differ) -> None:
    plain = simulate(Plain(), momentum=0.9, weight_decay=0.1)
    assert differ(plain.replicas[0].server, simulate(FedAvg()).replicas[0].server) == 0.0


@dataclass(frozen=True)
class EveryKind(Method):
    """A frozen head; a further group of each kind, none of which the loss uses but for the received one."""

    def layout(self, setup):
        parts = super().layout(setup)
        extra = {
            kind: Part(kind, Tree(v=setup.zeros(setup.features)))
            for kind in ("shared", "personal", "received", "server")
        }
        return (
            parts
            | {"head": replace(parts["head"], kind="frozen")}
            | {f"{kind}_part": part for kind, part in extra.items()}
        )

    def model(self, common, own, client, ctx):
        return super().model(common, own, client, ctx) | Tree(
            received_part=Tree(v=common.params.head.bias.sum().expand(32))
        )

    def embed(self, params, z, ctx):
        return z + params.received_part.v + 0.01 * params.personal_part.v


@pytest.mark.parametrize("backend", BACKENDS)
def test_kinds_decide_who_holds_and_who_trains(start, backend: str) -> None:
    simulation = start(EveryKind(), backend=backend)
    server, initial = simulation.replicas[0].server.params, simulation.replicas[0].clients.params
    assert sorted(server) == ["base", "head", "server_part", "shared_part"] and list(initial) == ["personal_part"]
    simulation.step()
    replica = simulation.replicas[0]
    assert torch.equal(replica.server.params.head.weight, server.head.weight), "frozen"
    assert not torch.equal(replica.server.params.base["1.weight"], server.base["1.weight"]), "shared"
    assert torch.equal(replica.server.params.server_part.v, server.server_part.v), "the server's own"
    assert sorted(replica.server.params) == sorted(server)
    assert (replica.clients.params.personal_part.v != 0).any(1).all(), "personal"


# ---- validation ----------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Validates(Local):
    holdout = 0.25

    def phases(self, clock):
        return [Phase(), Phase("check", data="valid", scan=True)]

    def init_client(self, setup, info):
        return super().init_client(setup, info) | Tree(rows=setup.zeros(), mean=setup.zeros(), n=setup.zeros())

    def begin(self, common, own, client, ctx):
        return super().begin(common, own, client, ctx) | client.only(("rows", "mean"))

    def observe(self, local, batch, ctx):
        return Tree(rows=batch.mask.sum(), total=(batch.x.flatten(1).sum(1) * batch.mask).sum())

    def leave(self, local, sums, ctx):
        return Tree(rows=sums.rows, mean=sums.total / sums.rows.clamp(min=1)) if ctx.phase.scan else Tree()

    def finish(self, local, client, ctx):
        kept, upload = super().finish(local, client, ctx)
        return kept | local.only(("rows", "mean")) | Tree(n=ctx.info.n.to(local.rows.dtype)), upload


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_validation_part_is_held_out_of_training_and_of_the_counts(start, federation, backend: str) -> None:
    simulation = start(Validates(), backend=backend)
    simulation.step()
    clients, held = simulation.replicas[0].clients, simulation.federation
    assert clients.rows.tolist() == [6, 0, 3, 2, 7], "a quarter, rounded down; client 1 has none"
    assert clients.n.tolist() == [18, 3, 11, 7, 23] == simulation.history(0)["train_samples"].tolist()
    for client in (0, 2, 3, 4):
        x = held.batch(torch.as_tensor(held.rows["valid"][client]), torch.float64)[0]
        assert clients.mean[client].item() == pytest.approx(x.flatten(1).sum(1).mean().item(), rel=1e-10)
    assert federation.sizes("valid").sum() == 0
