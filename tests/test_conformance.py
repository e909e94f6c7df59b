"""The suite itself: it passes a sound method and catches each kind of fault."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

import pytest
import torch
import torch.nn.functional as F

from pflrepro import conformance
from pflrepro.algorithms.contract import Method, cross_entropy
from pflrepro.algorithms.fedper import FedPer
from pflrepro.algorithms.phases import Part, Phase
from pflrepro.conformance import CHECKS, Subject
from pflrepro.errors import UserError
from pflrepro.trees import Tree


@dataclass(frozen=True)
class ForgetsTheMask(Method):
    def loss(self, params, local, batch, ctx):
        out = self.forward(params, batch.x, ctx)
        return F.cross_entropy(out.logits, batch.y), out


@dataclass(frozen=True)
class DividesByClassCounts(Method):
    def loss(self, params, local, batch, ctx):
        out = self.forward(params, batch.x, ctx)
        shares = ctx.info.counts.to(out.logits.dtype) / ctx.info.n
        return cross_entropy(out.logits / shares, batch), out


@dataclass(frozen=True)
class DividesBySamples(Method):
    def finish(self, local, client, ctx):
        changed, upload = super().finish(local, client, ctx)
        return changed, upload | Tree(params=upload.params * (ctx.info.n / ctx.info.n))


@dataclass(frozen=True)
class CountsItsCalls(Method):
    calls: itertools.count = field(default_factory=itertools.count, compare=False)

    def aggregate(self, server, uploads, cohort, ctx):
        return Tree(params=uploads.params.mix(cohort.p) * (1 + 0.001 * next(self.calls)))


@dataclass(frozen=True)
class LearnsByItself(Method):
    rate: float = 0.1

    def aggregate(self, server, uploads, cohort, ctx):
        return Tree(params=uploads.params.mix(cohort.p) * (1 - self.rate))


@dataclass(frozen=True)
class FavoursLateClients(Method):
    def aggregate(self, server, uploads, cohort, ctx):
        weights = (cohort.id + 1).to(cohort.p.dtype)
        return Tree(params=uploads.params.mix(weights / weights.sum()))


@dataclass(frozen=True)
class DriftsWhenTested(FedPer):
    def predict(self, params, x, ctx):
        params.head.bias.add_(0.01)
        return super().predict(params, x, ctx)


@dataclass(frozen=True)
class WidensItsState(Method):
    def init_server(self, setup):
        return super().init_server(setup) | Tree(rounds=torch.ones(1))

    def aggregate(self, server, uploads, cohort, ctx):
        return super().aggregate(server, uploads, cohort, ctx) | Tree(rounds=server.rounds.double())


@dataclass(frozen=True)
class HidesStateFromCheckpoints(Method):
    memory: dict = field(default_factory=dict, compare=False)

    def aggregate(self, server, uploads, cohort, ctx):
        new = uploads.params.mix(cohort.p)
        previous, self.memory["last"] = self.memory.get("last", new), new
        return Tree(params=new + 0.5 * (new - previous))


@dataclass(frozen=True)
class ReadsANumber(Method):
    def begin(self, common, own, client, ctx):
        return super().begin(common, own, client, ctx) | Tree(
            most=torch.ones_like(ctx.info.n) * ctx.info.n.max().item()
        )


@dataclass(frozen=True)
class AsksANumber(Method):
    def loss(self, params, local, batch, ctx):
        value, out = super().loss(params, local, batch, ctx)
        return (2 * value if ctx.scalars.t > 0 else value), out


@dataclass(frozen=True)
class WorksOnTheCpu(Method):
    def correct(self, grads, local, ctx):
        bias = grads.head.bias
        return grads | Tree(head=Tree(bias=bias @ torch.eye(len(bias), dtype=bias.dtype)))


@dataclass(frozen=True)
class CopiesANumber(Method):
    def predict(self, params, x, ctx):
        return torch.tensor(2.0, dtype=x.dtype, device=x.device) * super().predict(params, x, ctx)


@dataclass(frozen=True)
class CountsWhatIsThere(Method):
    def trained(self, local, ctx):
        return local.params * len(ctx.common.params.head.bias.nonzero())


@dataclass(frozen=True)
class LooksWhereItMay(FedPer):
    """On the host, in the server's step, and at numbers that the host knows."""

    def phases(self, clock):
        server = [Phase("server", where="server", data="none", steps=2)] if clock.t else []
        return [*super().phases(clock), *server]

    def send(self, server, cohort):
        assert float(server.params.base["1.weight"].abs().max()) > 0 and cohort.n.tolist()
        return super().send(server, cohort)

    def serve(self, server, uploads, batch, cohort, ctx):
        return Tree(params=server.params * torch.tensor(1.0 - 0.1 * bool(cohort.n.sum() > 1e9)))

    def trained(self, local, ctx):
        return super().trained(local, ctx) * (1.0 + 0.0 * ctx.task.largest)


@pytest.mark.parametrize(
    ("method", "place", "said"),
    [
        (ReadsANumber, "begin", r"item\(\)"),
        (AsksANumber, "loss", r"item\(\)"),
        (WorksOnTheCpu, "correct", "eye.* works on the CPU"),
        (CopiesANumber, "predict", "numbers on the host"),
        (CountsWhatIsThere, "trained", "nonzero"),
    ],
)
def test_a_device_function_that_needs_the_host_is_caught(method: type[Method], place: str, said: str) -> None:
    """By the line that needs it; on a CPU without anything to compare with, all but the third run as any method."""
    with pytest.raises(
        AssertionError, match=rf"without numbers, in test_conformance.py, line \d+, in {place}: .*{said}"
    ):
        CHECKS["no_host"](Subject(method))


def test_the_host_may_look_at_numbers() -> None:
    CHECKS["no_host"](Subject(LooksWhereItMay))
    assert len(Subject(LooksWhereItMay).trace("batched").states[0]) == 4


@pytest.mark.parametrize(
    ("method", "caught"),
    [
        (ForgetsTheMask, "backends_agree"),
        (DividesByClassCounts, "absent_classes"),
        (DividesBySamples, "clients_without_data"),
        (CountsItsCalls, "round_is_pure"),
        (LearnsByItself, "zero_rate"),
        (FavoursLateClients, "client_permutation"),
        (DriftsWhenTested, "evaluation_is_pure"),
        (WidensItsState, "state_keeps_its_form"),
        (HidesStateFromCheckpoints, "resume"),
    ],
)
def test_a_fault_is_caught(method: type[Method], caught: str) -> None:
    with pytest.raises(AssertionError):
        CHECKS[caught](Subject(method))


def test_a_touched_absent_client_is_caught() -> None:
    subject = Subject(FedPer)
    trace = subject.trace()
    absent = [client for client in range(5) if client not in trace.cohorts[0][1]]
    state = trace.states[0][2]
    state["clients/params/head/bias"] = state["clients/params/head/bias"].copy()
    state["clients/params/head/bias"][absent[0], 0] += 1e-12
    with pytest.raises(AssertionError, match=r"round 1 changed absent clients .*: clients/params/head/bias differs"):
        CHECKS["absent_clients_untouched"](subject)


def test_a_users_own_method_passes_and_every_check_is_reported() -> None:
    @dataclass(frozen=True)
    class OwnHeadBias(Method):
        def layout(self, setup):
            parts = super().layout(setup)
            return parts | {
                "head": replace(parts["head"], kind="personal"),
                "extra": Part("shared", Tree(w=setup.zeros(3))),
            }

    results = conformance.check(OwnHeadBias, without={"chunks": "this one is small"})
    assert [result.check for result in results] == list(CHECKS)
    assert {result.outcome for result in results if result.check != "chunks"} == {"passed"}
    assert [(r.outcome, r.reason) for r in results if r.check == "chunks"] == [("not applicable", "this one is small")]


def test_the_error_names_method_check_and_entry() -> None:
    with pytest.raises(AssertionError) as caught:
        conformance.check(LearnsByItself(rate=0.2))
    message = str(caught.value)
    assert message.startswith("LearnsByItself on mlp fails 1 of")
    assert "zero_rate: at rate 0: server/params/" in message


def test_an_own_rate_can_be_declared() -> None:
    CHECKS["zero_rate"](Subject(LearnsByItself, zero_rate={"rate": 0.0}))
    CHECKS["zero_rate"](Subject(LearnsByItself, moves={"server/params": "the server shrinks the model"}))


def test_a_method_may_be_a_name_a_class_or_an_instance() -> None:
    subjects = [Subject("fedper"), Subject(FedPer), Subject(FedPer())]
    assert [type(subject.method()) for subject in subjects] == [FedPer] * 3
    assert str(Subject("gpfl", {"guidance": 0.5})) == "gpfl(guidance=0.5) on mlp"


def test_an_unknown_method_is_the_users_mistake() -> None:
    with pytest.raises(
        UserError, match=r"unknown algorithm 'fedavgg' \(a method of your own: module:Class\); valid: fedavg"
    ):
        conformance.check("fedavgg")
    for wrong in (5, int):
        with pytest.raises(
            UserError, match="a method is a registered name, module:Class, or a Method or a class of it"
        ):
            conformance.report(wrong)
    with pytest.raises(UserError, match="options are a mapping of names to values, not 5"):
        conformance.report("fedavg", 5)


def test_a_report_tells_of_every_check_and_shows_itself() -> None:
    found = conformance.report(LearnsByItself, {"rate": 0.2})
    assert [each.check for each in found] == list(CHECKS)
    names = [each.check for each in found.failed]
    assert names, "it is caught"
    assert all(each.reason for each in found.failed)
    html = found._repr_html_()
    assert html.count("<tr>") == 1 + len(CHECKS)
    assert "✗" in html and "✓" in html and all(name.replace("_", " ") in html for name in names)
    lines = repr(found).splitlines()
    assert lines[0].startswith(f"Report({found.name}: ") and f"{len(names)} failed" in lines[0]
    assert len(lines) == 1 + len(names), "a line for each that failed"
    with pytest.raises(AssertionError, match=f"fails {len(names)} of {len(CHECKS)} checks: {names[0]}: "):
        conformance.check(LearnsByItself, {"rate": 0.2})
