"""The generative classifier: numbers worked by hand, plain re-computations, and the search against scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch import Tensor
from torch.func import vmap

from pflrepro.algorithms import box, gaussian
from pflrepro.trees import Tree, stack

CLASSES, SIZE = 4, 6


def close(a: Tensor, b: Tensor | list, tolerance: float = 1e-12) -> None:
    torch.testing.assert_close(a, torch.as_tensor(b, dtype=a.dtype), rtol=0, atol=tolerance)


def problem(seed: int, rows: int = 60, shift: float = 1.0, scale: float = 1.0) -> Tree:
    """Rows of class-conditional Gaussians, and received statistics whose means are `shift` away."""
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    mu, y = scale * normal(CLASSES, SIZE), torch.randint(0, CLASSES, (rows,), generator=draw)
    z = mu[y] + normal(rows, SIZE) @ normal(SIZE, SIZE) / SIZE**0.5
    return Tree(
        z=z,
        y=y,
        mask=torch.ones(rows, dtype=torch.float64),
        key=torch.rand(rows, generator=draw, dtype=torch.float64),
        counts=torch.bincount(y, minlength=CLASSES),
        received=Tree(mu=mu + shift * normal(CLASSES, SIZE), sigma=torch.eye(SIZE, dtype=torch.float64)),
    )


def objective(p: Tree, folds: int = 2) -> box.Evaluate:
    parts = gaussian.split(p.z, p.y, p.mask, p.key, CLASSES, folds)
    return gaussian.validation(*parts, gaussian.log_priors(p.counts), p.received)


def start(coefficients: str) -> Tensor:
    return torch.full((2 if coefficients == "separate" else 1,), 0.5, dtype=torch.float64)


def hot(y: Tensor) -> Tensor:
    return F.one_hot(y, CLASSES).double()


# ---- the head --------------------------------------------------------------------------------------------------------------
def test_head_of_two_classes_by_hand() -> None:
    """Sigma = diag(1, 3): tr / D = 2, so Sigma' = diag(0.9999 + 0.0002, 2.9997 + 0.0002)."""
    log_prior = gaussian.log_priors(torch.tensor([3, 1]))
    close(log_prior, [math.log(0.7501 / 1.0002), math.log(0.2501 / 1.0002)])
    stats = Tree(mu=torch.tensor([[1.0, 0.0], [0.0, 2.0]]), sigma=torch.diag(torch.tensor([1.0, 3.0])))
    linear = gaussian.head(stats, log_prior)
    close(linear.weight, [[1 / 1.0001, 0], [0, 2 / 2.9999]])
    close(linear.bias, [-0.5 / 1.0001 + log_prior[0], -0.5 * 4 / 2.9999 + log_prior[1]])


def test_the_head_scores_as_the_gaussian_posterior() -> None:
    p = problem(0)
    stats = gaussian.estimate(p.z, hot(p.y), p.received)
    linear, covariance = gaussian.head(stats, gaussian.log_priors(p.counts)), gaussian.shrunk(stats.sigma)
    density = torch.stack([torch.distributions.MultivariateNormal(m, covariance).log_prob(p.z) for m in stats.mu], 1)
    posterior = (density + gaussian.log_priors(p.counts)).softmax(1)
    close(F.linear(p.z, linear.weight, linear.bias).softmax(1), posterior, 1e-10)


def test_priors_without_samples_are_uniform() -> None:
    close(gaussian.log_priors(torch.zeros(4, dtype=torch.int64)).exp(), [0.25] * 4)


# ---- estimates -------------------------------------------------------------------------------------------------------------
def test_estimate_by_hand() -> None:
    """Class 0: (0, 0), (2, 0); class 1: (5, 1), (5, 3): centred rows (-1, 0), (1, 0), (0, -1), (0, 1), n - 1 = 3."""
    z = torch.tensor([[0.0, 0], [2, 0], [5, 1], [5, 3]], dtype=torch.float64)
    members, other = (
        torch.eye(3, dtype=torch.float64)[[0, 0, 1, 1]],
        Tree(mu=torch.full((3, 2), 7.0, dtype=torch.float64), sigma=torch.eye(2, dtype=torch.float64)),
    )
    code = gaussian.estimate(z, members, other)
    close(code.mu, [[1, 0], [5, 2], [7, 7]])
    close(code.sigma, [[2 / 3 + 1.0001, 1e-4], [1e-4, 2 / 3 + 1.0001]])
    scarce = gaussian.estimate(z, members, other, least=3)
    close(scarce.mu, other.mu)  # the scatter is still around the own means
    close(scarce.sigma, code.sigma)


def test_masked_rows_do_not_count() -> None:
    p = problem(1, rows=30)
    keep = torch.arange(30) % 3 > 0
    masked = gaussian.estimate(p.z, hot(p.y) * keep[:, None], p.received)
    plain = gaussian.estimate(p.z[keep], hot(p.y[keep]), p.received)
    close(masked.mu, plain.mu)
    close(masked.sigma, plain.sigma)


@pytest.mark.parametrize("rows", [0, 1])
def test_hardly_any_row(rows: int) -> None:
    p = problem(2)
    stats = gaussian.estimate(p.z, hot(p.y) * (torch.arange(60) < rows)[:, None], p.received)
    close(stats.sigma, 1e-4 + torch.eye(SIZE).double() if rows else p.received.sigma)
    assert (stats.mu != p.received.mu).any(1).sum() == rows


def test_interpolation_ends() -> None:
    p = problem(3)
    local = gaussian.estimate(p.z, hot(p.y), p.received)
    for beta, expected in ((0.0, p.received), (1.0, local), (0.25, local * 0.25 + p.received * 0.75)):
        mixed = gaussian.interpolate(torch.tensor([beta], dtype=torch.float64), local, p.received)
        close(mixed.mu, expected.mu)
        close(mixed.sigma, expected.sigma)
    mixed = gaussian.interpolate(torch.tensor([1.0, 0.0], dtype=torch.float64), local, p.received)
    close(mixed.mu, local.mu)
    close(mixed.sigma, p.received.sigma)


# ---- folds -----------------------------------------------------------------------------------------------------------------
@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.integers(2, 4), st.integers(0, 10**6))
def test_folds_are_stratified(labels: list[int], folds: int, seed: int) -> None:
    source, y = np.random.default_rng(seed), torch.tensor(labels)
    mask, key = torch.tensor(source.integers(0, 2, len(labels))).double(), torch.tensor(source.random(len(labels)))
    z = torch.arange(1.0, len(labels) + 1)[:, None]
    rows, members = gaussian.split(z, y, mask, key, CLASSES, folds)
    counts = torch.bincount(y[mask > 0], minlength=CLASSES)
    kept = torch.where(counts >= folds, counts, 0)
    close(members.sum((0, 1)), kept)
    for sizes in (members.sum(1), members.sum((1, 2))[:, None]):  # of every class, and in total
        assert (sizes.max(0).values - sizes.min(0).values <= 1).all()
    where = members.sum(2) > 0
    place = (rows[where][:, 0] - 1).long()
    assert len(set(place.tolist())) == len(place) == kept.sum()
    assert (members[where].argmax(1) == y[place]).all() and (mask[place] > 0).all()


# ---- the objective ---------------------------------------------------------------------------------------------------------
def plain_objective(p: Tree, beta: Tensor, folds: int) -> Tensor:
    """The same sum with torch's own cross-entropy, fold by fold."""
    rows, members = gaussian.split(p.z, p.y, p.mask, p.key, CLASSES, folds)
    total = torch.zeros((), dtype=torch.float64)
    for j in range(folds):
        others = [i for i in range(folds) if i != j]
        local = gaussian.estimate(torch.cat([*rows[others]]), torch.cat([*members[others]]), p.received)
        linear = gaussian.head(gaussian.interpolate(beta, local, p.received), gaussian.log_priors(p.counts))
        there = members[j].sum(1) > 0
        scores = F.linear(rows[j][there], linear.weight, linear.bias)
        total = total + F.cross_entropy(scores, members[j][there].argmax(1))
    return total


@pytest.mark.parametrize("folds", [2, 3])
def test_value_and_slopes(folds: int) -> None:
    p = problem(5)
    for beta in ([0.3, 0.8], [1.0, 0.0], [0.4]):
        at = torch.tensor(beta, dtype=torch.float64)
        value, gradient, hessian = objective(p, folds)(at)

        def plain(x: Tensor) -> Tensor:
            return plain_objective(p, x, folds)

        close(value, plain(at), 1e-10)
        close(gradient, torch.autograd.functional.jacobian(plain, at), 1e-8)
        close(hessian, torch.autograd.functional.hessian(plain, at), 1e-6)


# ---- the search ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("coefficients", ["single", "separate"])
@pytest.mark.parametrize("shift", [0.1, 0.5, 2.0])
def test_the_search_agrees_with_scipy(coefficients: str, shift: float) -> None:
    for seed in range(4):
        evaluate = objective(problem(seed, shift=shift, scale=0.7))
        beta = box.minimise(evaluate, start(coefficients))

        def function(x: np.ndarray, evaluate: box.Evaluate = evaluate) -> tuple[float, np.ndarray]:
            value, gradient, _ = evaluate(torch.from_numpy(x))
            return float(value), gradient.numpy()

        tight = {"ftol": 1e-15, "gtol": 1e-11}
        reference = minimize(
            function,
            start(coefficients).numpy(),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0, 1)] * len(beta),
            options=tight,
        )
        value, _, hessian = evaluate(beta)
        assert float(value) == pytest.approx(reference.fun, abs=1e-6)
        if torch.linalg.eigvalsh(hessian).min() > 1e-2:
            np.testing.assert_allclose(beta.numpy(), reference.x, atol=1e-3)


@pytest.mark.parametrize("coefficients", ["single", "separate"])
def test_many_searches_at_once(coefficients: str) -> None:
    problems = [problem(seed, shift=0.5 + seed) for seed in range(4)]

    def solve(p: Tree) -> Tensor:
        return box.minimise(objective(p), start(coefficients))

    close(vmap(solve)(stack(problems)), torch.stack([solve(p) for p in problems]), 1e-10)


@pytest.mark.parametrize("coefficients", ["single", "separate"])
def test_a_search_that_may_look_ends_early_with_the_same_bits(coefficients: str) -> None:
    evaluate, calls = objective(problem(1)), []

    def counted(beta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        calls.append(beta)
        return evaluate(beta)

    full = box.minimise(counted, start(coefficients))
    taken = len(calls)
    early = box.minimise(counted, start(coefficients), settled=bool)
    assert torch.equal(early, full) and len(calls) - taken < taken == box.STEPS + 1


def quadratic(centre: list[float], matrix: list[list[float]]) -> box.Evaluate:
    c, H = torch.tensor(centre, dtype=torch.float64), torch.tensor(matrix, dtype=torch.float64)
    return lambda x: (0.5 * (x - c) @ H @ (x - c), H @ (x - c), H)


@given(
    st.tuples(st.floats(-2, 3), st.floats(-2, 3)),
    st.tuples(st.floats(0.1, 5), st.floats(0.1, 5), st.floats(-0.95, 0.95)),
)
def test_bounded_quadratics(centre: tuple[float, float], shape: tuple[float, float, float]) -> None:
    """At the minimum of a convex function over the box, x = clip(x - gradient)."""
    a, b, r = shape
    cross = r * math.sqrt(a * b)
    evaluate = quadratic(list(centre), [[a, cross], [cross, b]])
    x = box.minimise(evaluate, start("separate"))
    close(x, (x - evaluate(x)[1]).clamp(0, 1), 1e-4)
    line = quadratic([centre[0]], [[a]])
    close(box.minimise(line, start("single")), [min(max(centre[0], 0), 1)], 1e-4)


def test_a_saddle_is_left() -> None:
    value = box.minimise(quadratic([0.4, 0.5], [[2, 0], [0, -1]]), start("separate"))
    assert value[0] == pytest.approx(0.4, abs=1e-4) and float(value[1]) in (0.0, 0.5, 1.0)
    assert float(box.minimise(quadratic([0.45], [[-1.0]]), start("single"))) == 1.0
