"""Mixup: what is mixed, where it acts, and the hosts it is put upon."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers.trees import assert_close

from pflrepro.algorithms.contract import Method, cross_entropy
from pflrepro.algorithms.ditto import Ditto
from pflrepro.algorithms.fedavg import FedAvg
from pflrepro.algorithms.fedavgft import FedAvgFT
from pflrepro.algorithms.fedcm import FedCM
from pflrepro.algorithms.feddecorr import FedDecorr
from pflrepro.algorithms.fedfomo import FedFomo
from pflrepro.algorithms.fedgen import FedGen
from pflrepro.algorithms.fedntd import FedNTD
from pflrepro.algorithms.mixup import Mixup
from pflrepro.algorithms.moon import Moon
from pflrepro.algorithms.phases import Clock, Phase
from pflrepro.algorithms.task import Context
from pflrepro.errors import UserError
from pflrepro.settings import Settings
from pflrepro.simulation.schedule import table
from pflrepro.trees import Tree, WholeBatch

HOSTS = [FedAvg, FedCM, FedDecorr, FedNTD, Moon]


def on(host: type[Method], plugin: type[Mixup] = Mixup) -> type[Method]:
    return dataclass(frozen=True)(type(f"{host.__name__}+{plugin.__name__}", (plugin, host), {}))


def training() -> Context:
    return Context(task=None, kinds={}, scalars=Tree(), phase=Phase())


# ---- one batch -------------------------------------------------------------------------------------------------------------------
def batch(mask: list[int], kind: type[Tree] = Tree) -> Tree:
    rows = len(mask)
    x = torch.arange(2.0 * rows, dtype=torch.float64).view(rows, 2)
    return kind(
        x=x,
        y=torch.arange(rows),
        mask=torch.tensor(mask, dtype=torch.float64),
        mixup_share=torch.tensor(0.25, dtype=torch.float64),
        mixup_order=torch.tensor([0.9, 0.1, 0.5, 0.3, 0.0], dtype=torch.float64),
    )


def test_worked_by_hand() -> None:
    """Order 0.9, 0.1, 0.5, 0.3 of four true rows: partners 1, 3, 2, 0."""
    mixed = on(FedAvg)().transform(batch([1, 1, 1, 1], WholeBatch), training())
    assert mixed.partner.tolist() == [1, 3, 2, 0] and mixed.y.tolist() == [0, 1, 2, 3] and float(mixed.share) == 0.25
    x = batch([1, 1, 1, 1]).x
    assert torch.equal(mixed.x, 0.25 * x + 0.75 * x[[1, 3, 2, 0]])
    assert isinstance(mixed, WholeBatch)


def test_padded_rows_are_nobody_s_partner() -> None:
    """The first three rows of five: as an unpadded batch of three, and the padding stays among itself."""
    padded = on(FedAvg)().transform(batch([1, 1, 1, 0, 0]), training())
    whole = on(FedAvg)().transform(batch([1, 1, 1], WholeBatch), training())
    assert whole.partner.tolist() == [1, 2, 0]
    assert torch.equal(padded.x[:3], whole.x) and torch.equal(padded.partner[:3], whole.partner)
    assert sorted(padded.partner[3:].tolist()) == [3, 4] and not isinstance(padded, WholeBatch)


def test_the_loss_is_that_of_the_mixed_label() -> None:
    """share CE(y) + (1 - share) CE(partner) = CE of the soft label."""
    mixed = on(FedAvg)().transform(batch([1, 1, 1, 1], WholeBatch), training())
    logits = torch.randn(4, 4, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    soft = 0.25 * F.one_hot(mixed.y, 4).double() + 0.75 * F.one_hot(mixed.partner, 4).double()
    torch.testing.assert_close(cross_entropy(logits, mixed), F.cross_entropy(logits, soft), rtol=1e-12, atol=0)


# ---- where it acts ---------------------------------------------------------------------------------------------------------------
def drawn(method: type[Method], **options) -> dict[str, tuple[int, ...] | None]:
    """Phase -> the length of its drawn orders, None where it is not mixed."""
    phases = on(method)(**options).phases(Clock(5, 5, batch_size=7))
    return {p.name: p.draws["mixup_order"].shape if "mixup_order" in p.draws else None for p in phases}


@dataclass(frozen=True)
class Doubled(FedAvg):
    def phases(self, clock):
        return [Phase(batch=2 * clock.batch_size)]


def test_only_training_of_clients_is_mixed() -> None:
    assert drawn(FedAvg) == {"train": (7,)}
    assert drawn(Ditto) == {"personal": (7,), "train": (7,)}
    assert drawn(FedAvgFT) == {"train": (7,), "tune": None}
    assert drawn(FedFomo) == {"weigh": None, "train": (7,)}
    assert drawn(FedGen) == {"train": (7,), "generator": None}
    assert drawn(Doubled) == {"train": (14,)}
    generated = on(FedGen)().phases(Clock(0, 1))[0].draws
    assert set(generated) == {"u", "noise", "mixup_share", "mixup_order"}


def test_a_copy_that_is_tuned_sees_true_samples(simulate) -> None:
    plain, mixed = (simulate(method(tune_epochs=2), rounds=0) for method in (FedAvgFT, on(FedAvgFT)))
    np.testing.assert_array_equal(mixed.history(0)["loss"], plain.history(0)["loss"])


# ---- in simulations --------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Unmixed(Mixup):
    """lambda = 1."""

    def transform(self, batch, ctx):
        return super().transform(type(batch)({**batch, "mixup_share": torch.ones_like(batch.mixup_share)}), ctx)


@pytest.mark.parametrize("host", HOSTS)
def test_lambda_one_is_the_host_itself(simulate, host: type[Method]) -> None:
    """Exactly: batches, their order and everything that is drawn are the host's."""
    settings = {"participation": 0.6, "momentum": 0.5}
    ours, plain = simulate(on(host, Unmixed)(), **settings), simulate(host(), **settings)
    assert_close(ours.replicas[0].server, plain.replicas[0].server, 0)
    mixed = simulate(on(host)(), **settings).replicas[0].server.params
    with pytest.raises(AssertionError):
        assert_close(mixed, plain.replicas[0].server.params, 1e-3)


@pytest.mark.parametrize("host", HOSTS)
def test_the_backends_agree(simulate, host: type[Method]) -> None:
    """Incomplete batches (padded in `batched`) and two seeds."""
    runs = [
        simulate(on(host)(), participation=0.6, seeds=[0, 1], backend=backend)
        for backend in ("loop", "batched", "graph")
    ]
    for other in runs[1:]:
        for mine, theirs in zip(other.replicas, runs[0].replicas, strict=True):
            assert_close(mine.server, theirs.server, 1e-10)
            assert_close(mine.clients, theirs.clients, 1e-10)


@dataclass(frozen=True)
class Spy(FedAvg):
    seen = []  # noqa: RUF012

    def step(self, local, batch, ctx):
        self.seen.append((batch, int(ctx.info.id)))
        return super().step(local, batch, ctx)


def test_partners_come_from_the_own_batch(simulate) -> None:
    """One lambda and one permutation a batch; both change from batch to batch."""
    Spy.seen.clear()
    simulate(on(Spy)(), rounds=3)
    assert len(Spy.seen) > 30 and len({float(b.share) for b, _ in Spy.seen}) > 20
    assert all(sorted(b.partner.tolist()) == sorted(b.y.tolist()) and b.share.ndim == 0 for b, _ in Spy.seen)
    assert any(b.partner.tolist() != b.y.tolist() for b, _ in Spy.seen)


def test_lambda_is_drawn_from_beta(federation) -> None:
    """Beta(a, a): mean 1/2, variance 1 / (4 (2a + 1)), over 3000 draws."""
    for a in (0.2, 3.0):
        (phase,) = on(FedAvg)(mixup_beta=a).phases(Clock(0, 1, batch_size=1))
        phase = Phase(**(vars(phase) | {"passes": 100}))
        share = table(federation, phase, Settings(1, batch_size=1), 0, [(0, 4)]).draws["mixup_share"].ravel()
        assert len(share) == 3000 and abs(share.mean() - 0.5) < 0.03
        assert share.var() == pytest.approx(1 / (4 * (2 * a + 1)), rel=0.1)


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_impossible_values_are_refused(value: float) -> None:
    with pytest.raises(UserError, match="mixup_beta of Mixup must be a number > 0"):
        on(FedAvg)(mixup_beta=value)
