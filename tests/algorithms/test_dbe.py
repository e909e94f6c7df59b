"""DBE and its halves: the bias, the consensus, the regulariser, and their hosts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from helpers.trees import assert_close, assert_same

from pflrepro.algorithms import Clock, build_method
from pflrepro.algorithms.dbe import MR
from pflrepro.algorithms.fedbabu import FedBABU
from pflrepro.algorithms.fedrep import FedRep
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.models import build_model

PROTOCOL = {"rounds": 3, "participation": 0.6}


# ---- PRBM --------------------------------------------------------------------------------------------------------------------
def test_the_bias_acts_as_a_personal_part_of_the_heads_bias(federation, simulate) -> None:
    """W (z + b_i) + a = W z + (a + W b_i)."""
    ours = simulate("fedavg+prbm", rounds=3, lr=0.2)
    server, bias = ours.replicas[0].server.params, ours.replicas[0].clients.params.bias.b
    base = build_model("mlp", federation.shape, federation.classes, 0).base.double()
    base.load_state_dict(dict(server.base))
    for i, rows in enumerate(federation.rows["test"]):
        with torch.no_grad():
            own = server.head.bias + server.head.weight @ bias[i]
            answers = (base(federation.x[rows].double()) @ server.head.weight.T + own).argmax(1)
        assert int((answers == federation.y[rows]).sum()) == ours.history(0)["correct"][-1, i]
    assert float(bias.abs().max()) > 1e-2


def test_the_bias_starts_at_zero_and_stays_at_home(simulate) -> None:
    assert not simulate("fedavg+dbe", rounds=0).replicas[0].clients.params.bias.b.any()
    ours, fedavg = simulate("fedavg+prbm"), simulate("fedavg")
    assert ours.traffic == fedavg.traffic == simulate("fedavg+dbe").traffic, "zbar comes once, not every round"


@pytest.mark.parametrize("host", ["fedrep", "fedpac"])
def test_where_base_and_head_train_in_turns_the_bias_trains_in_both(simulate, host: str) -> None:
    """Without a turn of the head it is that of FedBABU, whose head nobody trains."""
    silent = {"fedrep": {"head_epochs": 0}, "fedpac": {"head_passes": 0, "alignment": 0.0}}[host]
    ours = simulate(f"{host}+prbm", options=silent, rounds=1).replicas[0]
    babu = simulate("fedbabu+prbm", options={"tune_epochs": 0}, rounds=1).replicas[0]
    assert_close(ours.clients.params.bias, babu.clients.params.bias, 1e-14)
    assert_close(ours.server.params.base, babu.server.params.base, 1e-14)
    turns = [phase.train for phase in build_method(f"{host}+prbm").phases(Clock(0, 2)) if not phase.scan]
    assert turns == [("head", "bias"), ("base", "bias")]


# ---- MR ------------------------------------------------------------------------------------------------------------------------
def test_kappa_zero_leaves_the_host_as_it_is(simulate) -> None:
    """Mean regularisation of weight 0, and the initialisation period, change nothing; with the bias it is PRBM alone."""
    for host, plugin, reference in (
        ("fedavg", "mr", "fedavg"),
        ("fedavg", "dbe", "fedavg+prbm"),
        ("scaffold", "mr", "scaffold"),
    ):
        ours, plain = simulate(f"{host}+{plugin}", options={"kappa": 0.0}, **PROTOCOL), simulate(reference, **PROTOCOL)
        assert_same(ours.replicas[0].server.params, plain.replicas[0].server.params)
        assert ours.history(0)["correct"].tolist() == plain.history(0)["correct"].tolist()


@pytest.mark.parametrize("mu", [1.0, 0.25])
def test_the_consensus_of_models_that_stand_still(federation, simulate, mu: float) -> None:
    """One batch a client and no learning: m_i = mu * the mean feature, so zbar = mu * the mean over all training samples."""
    zbar = simulate("fedavg+mr", options={"mr_momentum": mu}, rounds=0, lr=0.0, batch_size=100).replicas[0].server.zbar
    base = build_model("mlp", federation.shape, federation.classes, 0).base.double()
    with torch.no_grad():
        z = base(federation.x[np.concatenate(federation.rows["train"])].double())
    torch.testing.assert_close(zbar, mu * z.mean(0), rtol=0, atol=1e-12)


def test_the_consensus_needs_every_client_and_no_model_of_it_remains(simulate) -> None:
    start, prepared = (simulate(name, rounds=0, participation=0.2).replicas[0] for name in ("fedavg", "fedavg+mr"))
    assert_same(prepared.server.params, start.server.params)
    everyone = simulate("fedavg+mr", rounds=0).replicas[0]
    assert_same(prepared.server.only(["zbar"]), everyone.server.only(["zbar"]))


def test_the_penalty_of_one_step(federation, simulate) -> None:
    """kappa (1/K) sum_k (mu mean_b z - zbar)_k^2 / 2 as a second loss: the bases of two weights differ by eta times its gradient."""
    rows = federation.rows
    alone = Federation(federation.x, federation.y, rows["train"][:1], rows["test"][:1], classes=federation.classes)
    settings = {"federation": alone, "rounds": 1, "batch_size": 100, "lr": 0.01}
    weak, strong = (
        simulate("fedavg+mr", options={"kappa": k, "mr_momentum": 0.5}, **settings).replicas[0] for k in (1.0, 4.0)
    )
    base = build_model("mlp", alone.shape, alone.classes, 0).base.double()
    r = 0.5 * base(alone.x[alone.rows["train"][0]].double()).mean(0)
    (0.5 * ((r - 0.3 * strong.server.zbar - 0.7 * weak.server.zbar) ** 2).sum() / 32).backward()
    for name, parameter in base.named_parameters():
        moved = (weak.server.params.base[name] - strong.server.params.base[name]) / 0.01
        torch.testing.assert_close(moved, 3.0 * parameter.grad, rtol=0, atol=1e-10)


@dataclass(frozen=True)
class Watched(MR):
    """Notes r at the end of every phase."""

    seen: list = field(default_factory=list, compare=False)

    def leave(self, local, sums, ctx):
        self.seen.append((ctx.phase.name, bool(local.r.any())))
        return super().leave(local, sums, ctx)


def test_it_acts_only_where_an_uploaded_base_learns(simulate) -> None:
    @dataclass(frozen=True)
    class Rep(Watched, FedRep):
        pass

    @dataclass(frozen=True)
    class Babu(Watched, FedBABU):
        pass

    rep, babu = Rep(kappa=5.0, mr_momentum=0.3), Babu(kappa=5.0, mr_momentum=0.3, tune_epochs=1)
    for method in (rep, babu):
        simulate(method, rounds=2)
    assert set(rep.seen) == {("head", False), ("base", True)}
    assert set(babu.seen) == {("train", True), ("tune", False)}


# ---- the clients' means --------------------------------------------------------------------------------------------------------
def test_the_noise_on_uploaded_means(federation, simulate) -> None:
    """sum_i p_i ((1 - q) m_i + s e_i) = (1 - q) zbar + s e, whose numbers have variance sum_i p_i^2."""

    def zbar(**options) -> torch.Tensor:
        seed = options.pop("seed", 0)
        return simulate("fedavg+dbe", options=options, rounds=0, seeds=[seed]).replicas[0].server.zbar

    plain = zbar()
    torch.testing.assert_close(zbar(perturbation=0.3), 0.7 * plain, rtol=0, atol=1e-12)
    noise = zbar(mean_noise=1.0) - plain
    torch.testing.assert_close(zbar(perturbation=0.3, mean_noise=0.5), 0.7 * plain + 0.5 * noise, rtol=0, atol=1e-12)
    p = np.array([len(rows) for rows in federation.rows["train"]])
    spread = np.sqrt(((p / p.sum()) ** 2).sum())
    assert 0.6 * spread < float(noise.std()) < 1.4 * spread and abs(float(noise.mean())) < spread
    replica = simulate("fedavg+dbe", options={"mean_noise": 2.0}, rounds=0, weights="uniform").replicas[0]
    equal = simulate("fedavg+dbe", rounds=0, weights="uniform").replicas[0].server.zbar
    torch.testing.assert_close(replica.server.zbar - equal, replica.server.noise.mean(0), rtol=0, atol=1e-12)
    other = zbar(mean_noise=1.0, perturbation=1.0, seed=1)
    assert not torch.equal(other, zbar(mean_noise=1.0, perturbation=1.0))


# ---- personal models -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("host", ["ditto", "apfl"])
def test_only_the_shared_model_is_regularised(simulate, host: str) -> None:
    """It is FedAvg's with the penalty. Ditto's personal model, which nothing ties to it, is Local's without."""
    settings = {
        "rounds": 2,
        "local_epochs": 2,
        "batch_size": 100,
        "lr": 0.1,
    }  # one step an epoch: the order does not matter
    mr, options = {"kappa": 20.0, "mr_momentum": 0.3}, {"ditto": {"proximal": 0.0, "personal_epochs": 2}}.get(host, {})
    ours, fedavg = (
        simulate(f"{name}+mr", options=more | mr, **settings).replicas[0]
        for name, more in ((host, options), ("fedavg", {}))
    )
    assert_close(ours.server.params, fedavg.server.params, 1e-12)
    if host == "ditto":
        local = simulate("local", **settings).replicas[0]
        assert_close(ours.clients.personal, local.clients.params, 1e-12)


def test_impossible_options_are_refused() -> None:
    for option, value in (("kappa", -1.0), ("mr_momentum", 1.1), ("perturbation", 1.5), ("mean_noise", -1.0)):
        with pytest.raises(UserError, match=option):
            build_method("ditto+mr", {option: value})


# ---- hosts ---------------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("scaffold+dbe", {}),
        ("scaffold+dbe", {}),
        ("fedprox+dbe", {"mu": 0.5}),
        ("fedper+mr", {}),
        ("fedrep+mr", {"head_epochs": 2}),
        ("ditto+mr", {"personal_epochs": 2}),
        ("fedavg+dbe", {"mean_noise": 0.05, "perturbation": 0.2}),
        ("apfl+mr", {"adaptive": True}),
        ("fedfomo+mr", {"models": 3}),
        ("local+prbm", {}),
    ],
)
def test_hosts_agree_between_backends(simulate, name: str, options: dict) -> None:
    extra = {"kappa": 5.0, "mr_momentum": 0.3} if not name.endswith("prbm") else {}
    settings = PROTOCOL | {"momentum": 0.5, "receivers": "selected", "seeds": [0, 1]}
    one, all_ = (
        simulate(name, options=options | extra, backend=backend, **settings) for backend in ("loop", "batched")
    )
    for a, b in zip(one.replicas, all_.replicas, strict=True):
        for tree in ("server", "clients"):
            assert_close(getattr(a, tree), getattr(b, tree), 1e-11)
        assert np.array_equal(a.history["correct"], b.history["correct"])
