"""FedPAC: its quadratic programme, its statistics, its phases."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest
import torch
from helpers.trees import assert_close
from hypothesis import given
from hypothesis import strategies as st

from pflrepro.algorithms import build_method, fedpac
from pflrepro.algorithms.fedpac import FedPAC
from pflrepro.algorithms.simplex import minimise
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.models import build_model
from pflrepro.trees import Tree


# ---- the programme ---------------------------------------------------------------------------------------------------------
def brute_force(matrix: np.ndarray) -> float:
    """The least a' A a over the simplex: the best stationary point over all supports."""
    m, best = len(matrix), np.inf
    for support in chain.from_iterable(combinations(range(m), size) for size in range(1, m + 1)):
        x = np.linalg.solve(matrix[np.ix_(support, support)], np.ones(len(support)))
        if (x >= 0).all():
            best = min(best, 1 / x.sum())  # a = x / sum x, a' A a = 1 / sum x
    return best


@given(st.integers(1, 6), st.integers(0, 10**6), st.floats(1e-3, 1e3))
def test_the_solution_is_the_best_of_all_supports(m: int, seed: int, scale: float) -> None:
    source = np.random.default_rng(seed)
    rows = source.standard_normal((m, 4))
    matrix = scale * (rows @ rows.T + np.diag(source.uniform(0.01, 1, m)))
    a = minimise(matrix)
    assert (a >= 0).all() and a.sum() == pytest.approx(1, abs=1e-14)
    assert a @ matrix @ a == pytest.approx(brute_force(matrix), rel=1e-8)
    slope = matrix @ a  # at the optimum no other entry has a smaller slope than those in use
    assert slope.min() == pytest.approx(a @ matrix @ a, rel=1e-8)


def test_diagonal_and_singular_programmes() -> None:
    np.testing.assert_allclose(minimise(np.diag([1.0, 2.0, 4.0])), np.array([4, 2, 1]) / 7, atol=1e-9)
    np.testing.assert_allclose(minimise(np.zeros((4, 4))), 0.25, atol=1e-12)
    np.testing.assert_allclose(minimise(np.diag([0.0, 1.0, 1.0])), [1, 0, 0], atol=1e-9)
    np.testing.assert_allclose(minimise(np.ones((2, 2))), 0.5, atol=1e-6)


def test_mixture_weights() -> None:
    method, n = FedPAC(), torch.tensor([3.0, 3.0, 3.0])
    h = torch.randn(3, 2, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    zero = torch.zeros(3, dtype=torch.float64)
    torch.testing.assert_close(
        method.mixture(h, zero, n), torch.eye(3, dtype=torch.float64)
    )  # nobody is a mixture of others
    inverse = torch.tensor([[4.0, 2.0, 1.0]], dtype=torch.float64) / 7
    same = method.mixture(h[:1].expand(3, -1, -1), torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64), n)
    torch.testing.assert_close(same, inverse.expand(3, -1), rtol=0, atol=1e-8)
    noise = torch.tensor([0.5, 0.1, 0.2], dtype=torch.float64)
    a = method.mixture(h, noise, n)
    for i in range(3):  # the form is |h_i - sum_j a_j h_j|^2 + sum_j a_j^2 V_j

        def value(weights: torch.Tensor, i: int = i) -> torch.Tensor:
            return ((h[i] - torch.tensordot(weights, h, 1)) ** 2).sum() + (weights**2 * noise).sum()

        for other in (*torch.eye(3, dtype=torch.float64), torch.full((3,), 1 / 3, dtype=torch.float64)):
            assert value(a[i]) <= value(0.99 * a[i] + 0.01 * other) + 1e-9


def test_small_weights_are_dropped_and_clients_without_samples_give_nothing() -> None:
    h, variance = torch.zeros(2, 1, 1), torch.tensor([1.0, 999.0])
    torch.testing.assert_close(
        FedPAC().mixture(h, variance, torch.ones(2)), torch.tensor([[0.999, 0.001]]).expand(2, -1)
    )
    lower = torch.tensor([1.0, 1999.0])
    torch.testing.assert_close(FedPAC().mixture(h, lower, torch.ones(2)), torch.tensor([[1.0, 0.0]] * 2))
    torch.testing.assert_close(FedPAC().mixture(h, variance, torch.tensor([0.0, 1.0])), torch.tensor([[0.0, 1.0]] * 2))
    torch.testing.assert_close(FedPAC().mixture(h, variance, torch.zeros(2)), torch.eye(2), msg="all keep their heads")


def test_of_so_many_equal_clients_that_every_weight_is_small_none_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fedpac, "SMALLEST", 0.1)  # as with 1,001 clients and the real one, which take minutes
    many = 11
    a = FedPAC().mixture(torch.zeros(many, 1, 1), torch.ones(many), torch.ones(many))
    torch.testing.assert_close(a.sum(1), torch.ones(many))


def test_a_cohort_without_samples_keeps_its_heads(federation, simulate) -> None:
    rows = {split: [*federation.rows[split][:2], [], []] for split in ("train", "test")}
    sparse = Federation(federation.x, federation.y, rows["train"], rows["test"], classes=federation.classes)
    trained = simulate("fedpac", federation=sparse, rounds=6, participation=0.25).replicas[0].server.heads
    assert all(bool(torch.isfinite(leaf).all()) for leaf in trained.values())


# ---- the rounds ------------------------------------------------------------------------------------------------------------
class Spy(FedPAC):
    """Keeps what was uploaded in each round, and the heads at its start."""

    seen: list[Tree] = []  # noqa: RUF012

    def aggregate(self, server, uploads, cohort, ctx):
        self.seen.append(uploads | Tree(received=server.heads))
        return super().aggregate(server, uploads, cohort, ctx)


@pytest.fixture
def spy() -> FedPAC:
    Spy.seen = []
    return Spy()


def test_statistics_are_those_of_the_received_base(federation, simulate, spy) -> None:
    simulate(spy, rounds=1)
    base = build_model("mlp", federation.shape, federation.classes, 0).base.double()
    for i, rows in enumerate(federation.rows["train"]):
        x, y = federation.batch(torch.as_tensor(rows), torch.float64)
        with torch.no_grad():
            z = base(x)
        variance = 0.0
        for k in range(federation.classes):
            mine = z[y == k]
            share = len(mine) / len(rows)
            h = share * mine.mean(0) if len(mine) else torch.zeros_like(z[0])
            torch.testing.assert_close(spy.seen[0].h[i, k], h, rtol=0, atol=1e-12)
            if len(mine):
                variance += share * float((mine**2).sum(1).mean()) - float((h**2).sum())
        assert float(spy.seen[0].V[i]) == pytest.approx(variance / len(rows), rel=1e-10)


def test_centroids_are_weighted_means_with_the_trained_bases(federation, simulate, spy) -> None:
    server, counts = simulate(spy, rounds=1).replicas[0].server, federation.counts().double()
    total = counts.sum(0)
    assert server.present.tolist() == (total > 0).double().tolist()
    expected = torch.einsum("ik,ikf->kf", counts, spy.seen[0].mu)[total > 0] / total[total > 0, None]
    torch.testing.assert_close(server.centroids[total > 0], expected, rtol=0, atol=1e-12)
    held = spy.seen[0].h[0] / (counts[0] / counts[0].sum()).clamp(min=1e-9)[:, None]
    assert (spy.seen[0].mu[0] - held)[counts[0] > 0].abs().max() > 1e-3  # not those of the received base


def test_alignment_begins_in_the_second_round(simulate) -> None:
    states = {
        (rounds, lam): simulate("fedpac", rounds=rounds, options={"alignment": lam}).replicas[0].server.params
        for rounds in (1, 2)
        for lam in (0.0, 5.0)
    }
    assert_close(states[1, 0.0], states[1, 5.0], 0)
    with pytest.raises(AssertionError):
        assert_close(states[2, 0.0], states[2, 5.0], 1e-6)


def test_heads_are_combined_but_after_the_last_round(simulate, spy) -> None:
    own = simulate(spy, rounds=2).replicas[0].server.heads
    first, last = spy.seen
    assert_close(own, last.params.head, 0)
    weights = spy.mixture(first.h, first.V, torch.ones(len(first.V)))
    assert_close(last.received, first.params.head.mix(weights))


def test_equal_clients_keep_equal_heads(federation, simulate) -> None:
    train, test = ([federation.rows[split][0]] * 3 for split in ("train", "test"))
    equal = Federation(federation.x, federation.y, train, test, classes=federation.classes)
    heads = simulate("fedpac", federation=equal, batch_size=100, rounds=3).replicas[0].server.heads
    assert_close(heads[1:], heads[:-1])


def test_without_head_phase_and_alignment_the_base_is_that_of_fedbabu(simulate) -> None:
    ours = simulate("fedpac", options={"head_passes": 0, "alignment": 0.0}, momentum=0.4).replicas[0].server.params
    babu = simulate("fedbabu", options={"tune_epochs": 0}, momentum=0.4).replicas[0].server.params
    assert_close(ours.base, babu.base, 1e-14)


@pytest.mark.parametrize("options", [{"alignment": -1.0}, {"head_passes": -1}, {"head_rate": -0.1}])
def test_impossible_values_are_refused(options: dict) -> None:
    with pytest.raises(UserError, match=f"option {next(iter(options))} of fedpac must be "):
        build_method("fedpac", options)
