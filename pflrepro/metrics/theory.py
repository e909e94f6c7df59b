"""Theory that can be computed: pFedFDA's Theorem 1, exactly and by simulation, and divergences between clients' features.

setting = Setting.of_shift(shift=1.0, samples=20, clients=10, features=5)
risk(setting, beta).total, simulate(setting, beta).mean, best_beta(setting)

The examples below take two clients at distance 2 of the common mean, with 10 samples of 5 unit-variance features each:
tr Sigma_i / n_i = 5 / 10, tr Sigma_i / N = tr Sigma_g / N = 5 / 20.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pflrepro.errors import UserError, as_floats, check_range
from pflrepro.markup import BriefArrays
from pflrepro.randomness import generator

ELEMENTS = 2**22  # normal numbers drawn at once
SPLITS = 5  # into halves that train and test a classifier of domains


# ---- Theorem 1 of pFedFDA ------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False, repr=False)
class Setting(BriefArrays):
    """Clients that draw features from N(mu_k, Sigma_k), one class, one round, seen from client i [FDA section 4.3, appendix E].

    Attributes:
        means: float64 [N, D].
        covariances: [N, D, D], symmetric and positive semidefinite.
        samples: [N] n_k >= 1.
        client: i.
    """

    means: np.ndarray
    covariances: np.ndarray
    samples: np.ndarray
    client: int = 0

    def __post_init__(self) -> None:
        means, covariances = (np.asarray(each, dtype=np.float64) for each in (self.means, self.covariances))
        samples = np.asarray(self.samples)
        n, d = means.shape if means.ndim == 2 else (0, 0)
        if not n or covariances.shape != (n, d, d) or samples.shape != (n,):
            raise UserError(
                f"a setting has means [N, D], covariances [N, D, D] and samples [N], not {list(means.shape)}, "
                f"{list(covariances.shape)} and {list(samples.shape)}"
            )
        if not (np.isfinite(means).all() and np.isfinite(covariances).all()):
            raise UserError("means and covariances must be finite")
        if samples.dtype.kind not in "iu" or samples.min() < 1:
            raise UserError("every client needs a whole number of samples, 1 at least")
        if not np.allclose(covariances, covariances.mT) or np.linalg.eigvalsh(covariances).min() < -1e-9:
            raise UserError("covariances must be symmetric and positive semidefinite")
        check_range("client", self.client, 0, n - 1, integer=True)
        for name, value in (("means", means), ("covariances", covariances), ("samples", samples)):
            object.__setattr__(self, name, value)

    @classmethod
    def of_shift(
        cls,
        shift: float,
        samples: int,
        clients: int = 10,
        features: int = 10,
        scale: float = 1.0,
        others: int | None = None,
    ) -> Setting:
        """Client 0 at distance ||mu_0 - mu_g|| = `shift` from the weighted mean; all others share one mean.

        Args:
            samples: n_0.
            others: n_k of the others, default `samples`.
            scale: standard deviation of every feature of client 0; the others have 1.

        Example:
            >>> setting = Setting.of_shift(shift=2.0, samples=10, clients=2, features=5)
            >>> setting.squared_shift, setting.traces
            (4.0, (0.5, 0.25, 0.25))
        """
        check_range("clients", clients, 2, integer=True)
        check_range("features", features, 1, integer=True)
        check_range("shift", shift, 0)
        check_range("scale", scale, 0)
        for name, count in (("samples", samples), ("others' samples", samples if others is None else others)):
            check_range(name, count, 1, integer=True)
        n = np.array([samples, *[samples if others is None else others] * (clients - 1)])
        means = np.zeros((clients, features))
        means[0, 0] = shift / (1 - n[0] / n.sum())
        covariances = np.repeat(np.eye(features)[None], clients, 0)
        covariances[0] *= scale**2
        return cls(means, covariances, n)

    @property
    def shares(self) -> np.ndarray:
        """n_k / N [N], N the samples of all clients."""
        return self.samples / self.samples.sum()

    @property
    def squared_shift(self) -> float:
        """||mu_i - mu_g||^2, mu_g = sum_k (n_k / N) mu_k."""
        return float(((self.means[self.client] - self.shares @ self.means) ** 2).sum())

    @property
    def traces(self) -> tuple[float, float, float]:
        """(a, l, g) = (tr Sigma_i / n_i, tr Sigma_i / N, tr Sigma_g / N), Sigma_g = sum_k (n_k / N) Sigma_k."""
        each = np.trace(self.covariances, axis1=1, axis2=2)
        total, i = self.samples.sum(), self.client
        return float(each[i] / self.samples[i]), float(each[i] / total), float(self.shares @ each / total)


@dataclass(frozen=True, eq=False, repr=False)
class Risk(BriefArrays):
    """E ||mu~_i - mu_i||^2 in its parts, each of the shape of beta: squared bias, local variance, cross term, global variance."""

    bias: np.ndarray
    local: np.ndarray
    cross: np.ndarray
    pooled: np.ndarray

    @property
    def total(self) -> np.ndarray:
        """E ||mu~_i - mu_i||^2, the sum of the four parts, of the shape of beta."""
        return self.bias + self.local + self.cross + self.pooled


def risk(setting: Setting, beta: float | np.ndarray, cross: bool = True) -> Risk:
    """The expected squared error of mu~_i = beta mu^_i + (1 - beta) mu^_g, exactly [derived].

    (1-beta)^2 ||mu_i - mu_g||^2 + (beta^2 / n_i) tr Sigma_i + (2 beta (1-beta) / N) tr Sigma_i + ((1-beta)^2 / N) tr Sigma_g.
    The third term comes from client i's samples in mu^_g. cross=False leaves it out: the paper's reading, which calls the two
    means independent [appendix E; inferred]. The two differ by O(1/N).

    Example, 4/4 + 0.5/4 + 0.25/2 + 0.25/4:
        >>> setting = Setting.of_shift(shift=2.0, samples=10, clients=2, features=5)
        >>> float(risk(setting, 0.5).total), float(risk(setting, 0.5, cross=False).total)
        (1.3125, 1.1875)
    """
    beta = _beta(beta)
    local, cross_trace, pooled = setting.traces
    weight = 2 * beta * (1 - beta) * (1.0 if cross else 0.0)
    rest = (1 - beta) ** 2
    return Risk(rest * setting.squared_shift, beta**2 * local, weight * cross_trace, rest * pooled)


def best_beta(setting: Setting) -> float:
    """beta* = clip((b2 + g - l) / (b2 + a - 2 l + g), 0, 1), b2 = ||mu_i - mu_g||^2.

    Where every beta is equally good (no shift and no variance, or a client alone) it is 1: local statistics.
    [derived: where the derivative of `risk` in beta is 0.]

    Example, 4 / 4.25:
        >>> round(best_beta(Setting.of_shift(shift=2.0, samples=10, clients=2, features=5)), 4)
        0.9412
    """
    a, l, g = setting.traces  # noqa: E741
    above, below = setting.squared_shift + g - l, setting.squared_shift + a - 2 * l + g
    if below <= 1e-15 * (setting.squared_shift + a + g):
        return 1.0
    # rounded, since equal traces are summed with another last digit on another machine: 0 there, too
    return float(np.clip(above / below, 0.0, 1.0).round(12))


@dataclass(frozen=True, eq=False, repr=False)
class Simulated(BriefArrays):
    """||mu~_i - mu_i||^2 of drawn data sets: `errors` float64 [draws, *beta], their mean over draws and its standard error.

    Example:
        >>> found = Simulated(np.array([1.0, 3.0]))
        >>> float(found.mean), float(found.standard_error), float(found.quantile(0.5))
        (2.0, 1.0, 2.0)
    """

    errors: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """Mean over the draws, of the shape of beta: the estimate of `risk(...).total`."""
        return self.errors.mean(0)

    @property
    def standard_error(self) -> np.ndarray:
        """Of `mean`: sample standard deviation (ddof 1) / sqrt(draws), of the shape of beta."""
        return self.errors.std(0, ddof=1) / np.sqrt(len(self.errors))

    def quantile(self, delta: float) -> np.ndarray:
        """The empirical (1 - delta)-quantile, of the shape of beta; delta in [0, 1]."""
        check_range("delta", delta, 0, 1)
        return np.quantile(self.errors, 1 - delta, axis=0)


def simulate(setting: Setting, beta: float | np.ndarray, draws: int = 2000, seed: int = 0) -> Simulated:
    """Monte Carlo of the theorem's setting: the same draws for every beta.

    The error depends on the data through the clients' sample means alone, and these are N(mu_k, Sigma_k / n_k) exactly: they are
    drawn.

    Example, at beta = 1 the error of the local mean, tr Sigma_i / n_i = 0.5:
        >>> found = simulate(Setting.of_shift(shift=2.0, samples=10, clients=2, features=5), beta=1.0)
        >>> bool(abs(found.mean - 0.5) < 4 * found.standard_error)
        True
    """
    beta = _beta(beta)
    check_range("draws", draws, 2, integer=True)
    n, d = setting.means.shape
    values, vectors = np.linalg.eigh(setting.covariances)
    roots = vectors * np.sqrt(values.clip(min=0))[:, None, :]
    stream = generator(seed, "theory/interpolation")
    most = max(1, ELEMENTS // (n * d))
    errors = []
    for start in range(0, draws, most):
        noise = stream.standard_normal((min(most, draws - start), n, d)) / np.sqrt(setting.samples)[:, None]
        found = setting.means + np.einsum("kij,ckj->cki", roots, noise)
        local, pooled = found[:, setting.client], np.einsum("k,ckd->cd", setting.shares, found)
        apart = local - setting.means[setting.client], pooled - setting.means[setting.client]
        squares = [(x * y).sum(1) for x, y in ((apart[0], apart[0]), (apart[0], apart[1]), (apart[1], apart[1]))]
        weights = beta**2, 2 * beta * (1 - beta), (1 - beta) ** 2
        errors.append(sum(np.multiply.outer(s, w) for s, w in zip(squares, weights, strict=True)))
    return Simulated(np.concatenate(errors))


def bound(setting: Setting, beta: float | np.ndarray, delta: float, constant: float) -> np.ndarray:
    """The high-probability form: constant * ((1-beta)^2 ||mu_i - mu_g||^2 + log(1/delta) * the trace terms of `risk`).

    With probability 1 - delta the squared error is at most that (Hanson-Wright); the paper's constants are not recoverable [?], so
    one constant is fitted: `fit_constant`. `UserError` for a negative constant, and for delta outside (0, 1].

    Example, where log(1/delta) = 2: 1 + 2 * 0.3125:
        >>> setting = Setting.of_shift(shift=2.0, samples=10, clients=2, features=5)
        >>> round(float(bound(setting, 0.5, delta=np.exp(-2.0), constant=1.0)), 4)
        1.625
    """
    check_range("delta", delta, 0, 1, open_low=True)
    check_range("constant of the bound", constant, 0)
    parts = risk(setting, beta)
    return constant * (parts.bias + np.log(1 / delta) * (parts.total - parts.bias))


def fit_constant(quantiles: Sequence[np.ndarray], bounds: Sequence[np.ndarray]) -> float:
    """The smallest constant for which no quantile lies above its bound; `bounds` were taken with constant 1.

    `UserError` without a quantile, or where a bound is not positive or a number is not finite, or one has no counterpart.

    Example:
        >>> fit_constant([np.array([2.0, 1.0])], [np.array([4.0, 1.0])])
        1.0
    """
    quantiles, bounds = ([np.asarray(each, np.float64) for each in part] for part in (quantiles, bounds))
    shapes = [[list(each.shape) for each in part] for part in (quantiles, bounds)]
    if shapes[0] != shapes[1]:
        raise UserError(f"each quantile needs one bound, not quantiles of shapes {shapes[0]} for bounds of {shapes[1]}")
    pairs = list(zip(quantiles, bounds, strict=True))
    if not pairs or not all(
        q.size and np.isfinite(q).all() and np.isfinite(b).all() and (b > 0).all() for q, b in pairs
    ):
        raise UserError("a constant is fitted to one quantile at least, and to positive bounds")
    return float(max((q / b).max() for q, b in pairs))


def _beta(beta: float | np.ndarray) -> np.ndarray:
    beta = as_floats(beta, "beta")
    if not ((beta >= 0) & (beta <= 1)).all():
        raise UserError(f"beta must lie in [0, 1], not {beta.min():g}..{beta.max():g}")
    return beta


# ---- divergences between domains -----------------------------------------------------------------------------------------------
def proxy_a_distance(one: np.ndarray, other: np.ndarray) -> float:
    """2 (1 - 2 error) of a linear classifier that tells two samples of features apart, in [0, 2]: 0 alike, 2 apart.

    The proxy of the A-distance of Ben-David et al. (2006), which used a linear classifier [recalled]: equally many rows of both,
    one half to train (logistic regression, standardised features), the other for the error; mean over five splits, negative values are
    0. NaN where one of them has fewer than 4 rows. The papers estimate no divergence: neither number has a published counterpart.

    Example:
        >>> proxy_a_distance(np.zeros((8, 1)), np.ones((8, 1)))
        2.0
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    a, b = _domains(one, other)
    count = min(len(a), len(b))
    if count < 4:
        return float("nan")
    errors = []
    for split in range(SPLITS):
        stream = generator(0, "theory/domains", split)
        parts = [x[stream.permutation(len(x))[:count]] for x in (a, b)]
        half = count // 2
        train, test = (np.concatenate([x[chosen] for x in parts]) for chosen in (slice(half), slice(half, None)))
        classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        classifier.fit(train, np.repeat([0, 1], half))
        errors.append(float((classifier.predict(test) != np.repeat([0, 1], count - half)).mean()))
    return max(0.0, 2 * (1 - 2 * float(np.mean(errors))))


def _domains(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, b = as_floats(one, "features"), as_floats(other, "features")
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1] or not a.size or not b.size:
        raise UserError(f"two domains are features [n, K] and [m, K], not {list(a.shape)} and {list(b.shape)}")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise UserError("features must be finite: nothing can be measured on NaN or infinite numbers")
    return a, b
