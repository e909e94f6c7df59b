"""pFedFDA: what is stored, estimated, interpolated and averaged."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from pflrepro.algorithms import build_method, gaussian
from pflrepro.algorithms.pfedfda import TEST_ROWS, PFedFDA
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.models import build_model
from pflrepro.settings import Settings
from pflrepro.simulation import Simulation
from pflrepro.simulation.inspection import notes
from pflrepro.trees import Tree

NAME = "pflrepro.algorithms.pfedfda:PFedFDA"
FULL = {"batch_size": 100, "rounds": 1}


def close(a: Tensor, b: Tensor, tolerance: float = 1e-12) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=tolerance)


class Spy(PFedFDA):
    """Keeps what was uploaded."""

    seen: list[Tree] = []  # noqa: RUF012

    def aggregate(self, server, uploads, cohort, ctx):
        self.seen.append(uploads)
        return super().aggregate(server, uploads, cohort, ctx)


def uploads(simulate, options: dict, **settings) -> tuple[Tree, Tree, Tree]:
    """(the last uploads, the server and the clients behind them)."""
    Spy.seen = []
    replica = simulate(Spy(**options), **(FULL | settings)).replicas[0]
    return Spy.seen[-1], replica.server, replica.clients


def shares(federation) -> Tensor:
    n = torch.tensor([len(rows) for rows in federation.rows["train"]]).double()
    return n / n.sum()


def features(federation, base: Tree | None, client: int, split: str = "train") -> tuple[Tensor, Tensor]:
    """Features and labels of a client's samples under `base`, default the initial one."""
    module = build_model("mlp", federation.shape, federation.classes, 0).base.double()
    if base is not None:
        module.load_state_dict(dict(base))
    x, y = federation.batch(torch.as_tensor(federation.rows[split][client]), torch.float64)
    with torch.no_grad():
        return module(x), y


def plain_estimate(z: Tensor, y: Tensor, received: Tensor) -> tuple[Tensor, Tensor]:
    """Means and covariance with loops over classes."""
    mu, centred = received.clone(), z.clone()
    for c in y.unique():
        mu[c] = z[y == c].mean(0)
        centred[y == c] -= mu[c]
    one = torch.eye(z.shape[1], dtype=z.dtype)
    sigma = centred.T @ centred / max(len(z) - 1, 1)
    return mu, sigma + 1e-4 + one


def estimate_before_a_test(z: Tensor, y: Tensor, received: Tensor) -> tuple[Tensor, Tensor]:
    """The same as a test takes it: classes of few rows have the received means."""
    mu, sigma = plain_estimate(z, y, received)
    counts = torch.bincount(y, minlength=len(mu))
    return torch.where((counts >= TEST_ROWS)[:, None], mu, received), sigma


# ---- one round ---------------------------------------------------------------------------------------------------------------
def test_local_statistics_are_those_of_the_stored_features(federation, simulate) -> None:
    """A full batch: its features are those of the received base."""
    sent, server, clients = uploads(simulate, {"coefficients": "none"})
    start = simulate(Spy(), rounds=0).replicas[0].server
    assert (clients.beta == 1).all()
    for i in range(federation.clients):
        mu, sigma = plain_estimate(*features(federation, None, i), start.mu)
        close(sent.mu[i], mu)
        close(sent.sigma[i], sigma)
    for name in ("mu", "sigma"):
        close(server[name], torch.tensordot(shares(federation), sent[name], 1))


def test_every_epoch_is_stored(federation, simulate) -> None:
    """At rate 0 two epochs hold every row twice: the scatter is divided by 2n - 1 instead of n - 1."""
    settings = {"lr": 0.0, "batch_size": 7}
    once, twice = (uploads(simulate, {"coefficients": "none"}, local_epochs=epochs, **settings)[0] for epochs in (1, 2))
    close(twice.mu, once.mu)
    ridge = 1e-4 + torch.eye(once.sigma.shape[1], dtype=torch.float64)
    for i, rows in enumerate(federation.rows["train"]):
        n = len(rows)
        close(twice.sigma[i] - ridge, (once.sigma[i] - ridge) * 2 * (n - 1) / (2 * n - 1))


def test_the_server_keeps_a_moving_average(federation, simulate) -> None:
    """mu~_i = beta_i mu^_i + (1 - beta_i) mu_g, and the same for Sigma, each with its own coefficient."""
    start = simulate(Spy(), rounds=0).replicas[0].server
    local, _, _ = uploads(simulate, {"coefficients": "none"})
    for coefficients in ("single", "separate"):
        _, server, clients = uploads(simulate, {"coefficients": coefficients})
        assert (clients.beta >= 0).all() and (clients.beta <= 1).all()
        assert torch.equal(clients.beta[:, 0], clients.beta[:, 1]) == (coefficients == "single")
        for k, name in enumerate(("mu", "sigma")):
            weights = shares(federation) * clients.beta[:, k]
            expected = torch.tensordot(weights, local[name], 1) + (1 - weights.sum()) * start[name]
            close(server[name], expected)


def test_only_the_base_learns_under_the_received_statistics(federation, simulate) -> None:
    """One full-batch step per client on the cross-entropy of the fixed Bayes classifier."""
    sent, server, _ = uploads(simulate, {}, lr=0.3)
    start = simulate(Spy(), rounds=0).replicas[0].server
    assert set(server.params) == {"base"}
    for i in range(federation.clients):
        base = build_model("mlp", federation.shape, federation.classes, 0).base.double()
        x, y = federation.batch(torch.as_tensor(federation.rows["train"][i]), torch.float64)
        head = gaussian.head(start, gaussian.log_priors(torch.bincount(y, minlength=federation.classes)))
        F.cross_entropy(F.linear(base(x), head.weight, head.bias), y).backward()
        for name, p in base.named_parameters():
            close(sent.params.base[name][i], p.detach() - 0.3 * p.grad)


# ---- the start, and the tests --------------------------------------------------------------------------------------------------
def test_initial_statistics(simulate) -> None:
    start = simulate(NAME, rounds=0).replicas[0].server
    assert torch.equal(start.sigma, torch.eye(len(start.sigma), dtype=torch.float64))
    assert start.mu.min() >= 0 and start.mu.max() < 1 and start.mu.mean() == pytest.approx(0.5, abs=0.1)


def test_the_tested_classifier_is_personal(federation, simulate) -> None:
    """Without beta: the classifier of the client's own statistics, computed with the received base before any training."""
    simulation = simulate(NAME, rounds=0, options={"coefficients": "none"}, batch_size=4)
    start, loss = simulation.replicas[0].server, simulation.history(0)["loss"][0]
    for i in range(federation.clients):
        z, y = features(federation, None, i)
        mu, sigma = estimate_before_a_test(z, y, start.mu)
        head = gaussian.head(Tree(mu=mu, sigma=sigma), gaussian.log_priors(torch.bincount(y, minlength=6)))
        z, y = features(federation, None, i, "test")
        expected = F.cross_entropy(F.linear(z, head.weight, head.bias), y, reduction="sum") if len(y) else 0.0
        assert loss[i] == pytest.approx(float(expected), rel=1e-9)


def test_the_noted_coefficients_are_those_of_the_test(federation, simulate) -> None:
    """Interpolated with them, local estimates under the received base give the classifier that was tested, to the loss."""
    simulation = simulate(NAME, rounds=1, options={"coefficients": "separate"})
    server, loss, beta = simulation.replicas[0].server, simulation.history(0)["loss"][-1], notes(simulation)["beta"]
    assert beta.shape == (federation.clients, 2) and (beta > 0).any() and (beta < 1).any()
    assert not np.array_equal(beta, simulation.replicas[0].clients.beta)  # of the last local training
    for i in range(federation.clients):
        z, y = features(federation, server.params.base, i)
        local = estimate_before_a_test(z, y, server.mu)
        mixed = [
            b * ours + (1 - b) * theirs
            for b, ours, theirs in zip(beta[i], local, (server.mu, server.sigma), strict=True)
        ]
        head = gaussian.head(Tree(mu=mixed[0], sigma=mixed[1]), gaussian.log_priors(torch.bincount(y, minlength=6)))
        z, y = features(federation, server.params.base, i, "test")
        expected = F.cross_entropy(F.linear(z, head.weight, head.bias), y, reduction="sum") if len(y) else 0.0
        assert loss[i] == pytest.approx(float(expected), rel=1e-6)


def test_clients_without_folds_take_the_global_statistics(federation, simulate) -> None:
    """Client 1 has 3 rows: with batches of 5 and incomplete ones dropped it stores none, beta is 0."""
    sent, _, clients = uploads(simulate, {}, batch_size=5, drop_last=True)
    start = simulate(Spy(), rounds=0)
    assert (clients.beta[1] == 0).all() and (clients.beta[0] > 0).all()
    close(sent.mu[1], start.replicas[0].server.mu)
    close(sent.sigma[1], start.replicas[0].server.sigma)
    dropped = simulate(NAME, rounds=0, batch_size=5, drop_last=True)
    head = gaussian.head(start.replicas[0].server, gaussian.log_priors(federation.counts()[1]))
    z, y = features(federation, None, 1, "test")
    expected = F.cross_entropy(F.linear(z, head.weight, head.bias), y, reduction="sum")
    assert dropped.history(0)["loss"][0][1] == pytest.approx(float(expected), rel=1e-9)


def test_new_clients_only_fit_their_classifier(federation, simulate) -> None:
    """Trained on the first three clients; the last two are handed the server's state and are tested without any training."""
    old, new = (
        Federation(
            federation.x, federation.y, *(federation.rows[split][part] for split in ("train", "test")), classes=6
        )
        for part in (slice(0, 3), slice(3, 5))
    )
    server = simulate(NAME, rounds=2, federation=old).replicas[0].server
    settings = Settings(0, batch_size=5, drop_last=False)
    later = Simulation(PFedFDA(coefficients="none"), new, "mlp", settings, [0], dtype="float64", workers=1)
    later.replicas[0].server = server
    later.step()
    z, y = features(new, server.params.base, 0)
    mu, sigma = estimate_before_a_test(z, y, server.mu)
    head = gaussian.head(Tree(mu=mu, sigma=sigma), gaussian.log_priors(torch.bincount(y, minlength=6)))
    z, y = features(new, server.params.base, 0, "test")
    expected = F.cross_entropy(F.linear(z, head.weight, head.bias), y, reduction="sum")
    assert later.history(0)["loss"][0, 0] == pytest.approx(float(expected), rel=1e-9)


def test_testing_leaves_no_trace(simulate) -> None:
    often, seldom = (simulate(NAME, rounds=2, every=every).replicas[0] for every in (1, 2))
    for a, b in zip(often.server.leaves(), seldom.server.leaves(), strict=True):
        assert torch.equal(a, b)


def test_it_learns(digits, simulate) -> None:
    """Four clients with two or three digits each: far above the share of the commonest class."""
    history = simulate(
        NAME, rounds=4, federation=digits, batch_size=10, local_epochs=2, dtype="float32", lr=0.1
    ).history(0)
    after = history["correct"][-1].sum() / history["test_samples"].sum()
    assert after > 0.85 and np.isfinite(history["loss"]).all()


@pytest.mark.parametrize(
    "options",
    [
        {"coefficients": "two"},
        {"folds": 1},
    ],
)
def test_impossible_values_are_refused(options: dict) -> None:
    with pytest.raises(UserError, match="PFedFDA"):
        build_method(NAME, options)


def test_steps_in_place_of_epochs_and_batches_that_fit(simulate) -> None:
    """More steps than epochs would have, and a client with fewer samples than a batch: all features find room."""
    runs = [
        simulate(PFedFDA(), rounds=2, backend=backend, drop_last=True, local_steps=9, fit_batch=True)
        for backend in ("loop", "batched")
    ]
    for mine, theirs in zip(*(run.replicas[0].server.leaves() for run in runs), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-9)
