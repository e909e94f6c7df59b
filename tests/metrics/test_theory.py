"""pFedFDA's Theorem 1: the exact expression against draws, by hand, and its minimiser; divergences against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from pflrepro.errors import UserError
from pflrepro.metrics import theory
from pflrepro.metrics.theory import Setting, best_beta, risk, simulate

BETAS = np.linspace(0, 1, 6)


def random_setting(seed: int, clients: int = 4, features: int = 3) -> Setting:
    draw = np.random.default_rng(seed)
    roots = draw.normal(size=(clients, features, features))
    samples = draw.integers(2, 9, clients)
    return Setting(draw.normal(size=(clients, features)), roots @ roots.mT, samples, int(draw.integers(clients)))


def test_by_hand() -> None:
    """Two clients in one dimension: means 0 and 4, variances 1 and 9, n 2 and 6: mu_g = 3, Sigma_g = 7, N = 8."""
    setting = Setting([[0.0], [4.0]], [[[1.0]], [[9.0]]], np.array([2, 6]))
    assert setting.squared_shift == pytest.approx(9)
    assert setting.traces == pytest.approx((1 / 2, 1 / 8, 7 / 8))
    parts = risk(setting, 0.5)
    assert (parts.bias, parts.local, parts.cross, parts.pooled) == pytest.approx((9 / 4, 1 / 8, 1 / 16, 7 / 32))
    assert risk(setting, 0.5, cross=False).total == pytest.approx(9 / 4 + 1 / 8 + 7 / 32)
    assert best_beta(setting) == pytest.approx((9 + 7 / 8 - 1 / 8) / (9 + 1 / 2 - 2 / 8 + 7 / 8))


def simulate_samples(setting: Setting, betas: np.ndarray, draws: int, seed: int) -> theory.Simulated:
    """`simulate` without the step to means: every sample of every client drawn, averaged, and mixed."""
    draw = np.random.default_rng(seed)
    clients = zip(setting.means, setting.covariances, setting.samples, strict=True)
    means = [draw.multivariate_normal(mu, sigma, (draws, n)).mean(1) for mu, sigma, n in clients]
    pooled = np.average(means, axis=0, weights=setting.samples)
    mixed = [beta * means[setting.client] + (1 - beta) * pooled for beta in betas]
    return theory.Simulated(np.stack([((each - setting.means[setting.client]) ** 2).sum(1) for each in mixed], 1))


@pytest.mark.parametrize("draws_of", [simulate, simulate_samples])
@pytest.mark.parametrize("seed", range(4))
def test_the_exact_expression_is_the_mean_of_draws(seed: int, draws_of) -> None:
    setting = random_setting(seed)
    found = draws_of(setting, BETAS, draws=20_000, seed=seed)
    apart = np.abs(found.mean - risk(setting, BETAS).total) / found.standard_error
    assert apart.max() < 4.5
    # The reading without the cross term is told apart where that term is largest.
    without = np.abs(found.mean - risk(setting, BETAS, cross=False).total) / found.standard_error
    assert without[1:-1].max() > 6


@pytest.mark.parametrize(("shift", "samples", "scale"), [(0.0, 5, 1.0), (0.5, 50, 2.0), (2.0, 5, 0.5), (2.0, 200, 1.0)])
def test_over_shift_sample_size_and_scale(shift: float, samples: int, scale: float) -> None:
    setting = Setting.of_shift(shift, samples, clients=6, features=4, scale=scale, others=20)
    assert setting.squared_shift == pytest.approx(shift**2)
    found = simulate(setting, BETAS, draws=8000, seed=1)
    assert (np.abs(found.mean - risk(setting, BETAS).total) < 4.5 * found.standard_error).all()


@given(st.integers(0, 10_000))
def test_the_minimiser(seed: int) -> None:
    setting = random_setting(seed)
    found = minimize_scalar(lambda b: float(risk(setting, b).total), bounds=(0, 1), method="bounded")
    best = best_beta(setting)
    assert float(risk(setting, best).total) <= found.fun * (1 + 1e-9)
    assert best == pytest.approx(found.x, abs=1e-3)


def test_the_trade_off_goes_the_way_the_theorem_says() -> None:
    by_shift = [best_beta(Setting.of_shift(shift, 20)) for shift in (0.0, 0.3, 1.0, 3.0)]
    by_samples = [best_beta(Setting.of_shift(1.0, n, others=20)) for n in (2, 10, 50, 400)]
    assert by_shift == sorted(by_shift) and by_samples == sorted(by_samples)
    # Without a shift, and equal clients, the mean of all samples is best; far away, the own samples.
    assert by_shift[0] == 0.0 and by_shift[-1] > 0.9


def test_where_every_beta_is_as_good_it_is_local() -> None:
    alone = Setting([[1.0]], [[[2.0]]], np.array([5]))
    np.testing.assert_allclose(risk(alone, BETAS).total, 0.4)
    assert best_beta(alone) == 1.0
    assert best_beta(Setting(np.zeros((2, 1)), np.zeros((2, 1, 1)), np.array([1, 1]))) == 1.0


def test_quantiles_stay_below_the_bound_with_the_fitted_constant() -> None:
    settings = [Setting.of_shift(shift, n) for shift in (0.0, 1.0) for n in (5, 40)]
    delta = 0.05
    quantiles = [simulate(each, BETAS, 2000).quantile(delta) for each in settings]
    bounds = [theory.bound(each, BETAS, delta, 1.0) for each in settings]
    constant = theory.fit_constant(quantiles, bounds)
    slack = [theory.bound(each, BETAS, delta, constant) - q for each, q in zip(settings, quantiles, strict=True)]
    assert min(part.min() for part in slack) == pytest.approx(0, abs=1e-9) and 0.3 < constant < 2
    with pytest.raises(UserError, match="positive bounds"):
        theory.fit_constant([], [])


def test_settings_are_checked() -> None:
    eye = np.eye(2)[None]
    for arguments, message in (
        ((np.zeros(2), eye, np.ones(1, int)), r"means \[N, D\]"),
        ((np.zeros((1, 2)), eye, np.array([0])), "1 at least"),
        ((np.zeros((1, 2)), eye, np.array([1.5])), "whole number of samples"),
        ((np.zeros((1, 2)), -eye, np.array([1])), "positive semidefinite"),
        ((np.full((1, 2), np.nan), eye, np.array([1])), "must be finite"),
        ((np.zeros((1, 2)), eye, np.array([1]), 1), "client must be"),
    ):
        with pytest.raises(UserError, match=message):
            Setting(*arguments)
    with pytest.raises(UserError, match=r"beta must lie in \[0, 1\], not -0.1..0"):
        risk(Setting.of_shift(1, 5), np.array([-0.1, 0.0]))
    with pytest.raises(UserError, match="draws"):
        simulate(Setting.of_shift(1, 5), 0.5, draws=1)


# ---- divergences ---------------------------------------------------------------------------------------------------------------
def test_proxy_distance_of_alike_and_of_separate_domains() -> None:
    draw = np.random.default_rng(0)
    a, b = draw.normal(size=(400, 4)), draw.normal(size=(300, 4))
    assert theory.proxy_a_distance(a, b) < 0.3
    assert theory.proxy_a_distance(a, b + 10) == 2.0
    middle = theory.proxy_a_distance(a, b + np.eye(4)[0])
    # A linear classifier of N(0,1) against N(1,1) errs with probability Phi(-1/2) = 0.3085.
    assert middle == pytest.approx(2 * (1 - 2 * 0.3085), abs=0.2)
    assert theory.proxy_a_distance(a, b) == theory.proxy_a_distance(a, b)
    assert np.isnan(theory.proxy_a_distance(a, b[:3]))
    assert theory.proxy_a_distance(np.ones((20, 2)), np.ones((20, 2))) == 0.0


def test_domains_are_checked() -> None:
    a = np.zeros((5, 2))
    for other, message in (
        (np.zeros((5, 3)), "two domains are features"),
        (a[:0], "two domains"),
        (a * np.nan, "finite"),
    ):
        with pytest.raises(UserError, match=message):
            theory.proxy_a_distance(a, other)


@pytest.mark.parametrize("delta", [2, -0.5, float("nan")])
def test_a_quantile_needs_a_probability(delta) -> None:
    with pytest.raises(UserError, match="delta must be a number >= 0 and <= 1"):
        simulate(Setting.of_shift(1.0, 5), 0.5, draws=2).quantile(delta)


@pytest.mark.parametrize(("samples", "others"), [(0, None), (5, 0), (2.5, None)])
def test_settings_need_samples(samples, others) -> None:
    with pytest.raises(UserError, match="samples must be a whole number >= 1"):
        Setting.of_shift(1.0, samples, others=others)


@pytest.mark.parametrize("quantiles, bounds", [([], []), ([[1.0]], [[0.0]]), ([[np.nan]], [[1.0]]), ([[]], [[]])])
def test_a_constant_needs_positive_bounds(quantiles, bounds) -> None:
    with pytest.raises(UserError, match="positive bounds"):
        theory.fit_constant(quantiles, bounds)


@pytest.mark.parametrize("constant", [-1, np.nan, np.inf])
def test_a_bound_s_constant_is_not_negative(constant) -> None:
    with pytest.raises(UserError, match="constant of the bound must be a number >= 0"):
        theory.bound(Setting.of_shift(1.0, 5), 0.5, 0.1, constant)


@pytest.mark.parametrize("quantiles, bounds", [([[1.0]], [[1.0], [2.0]]), ([[1.0, 2.0]], [[1.0]]), ([1.0], [])])
def test_each_quantile_has_its_bound(quantiles, bounds) -> None:
    with pytest.raises(UserError, match="each quantile needs one bound"):
        theory.fit_constant(quantiles, bounds)
