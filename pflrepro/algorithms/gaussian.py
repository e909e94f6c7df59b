"""The generative classifier of pFedFDA: class-conditional Gaussians z | y = c ~ N(mu_c, Sigma) with one covariance for all classes.

Pure functions of tensors for one client, fit for `vmap`. They work in float64, whatever the run's number type: statistics go
through a matrix inverse, and the interpolation coefficients through differences of losses.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pflrepro.algorithms.box import Evaluate
from pflrepro.algorithms.contract import one_hot
from pflrepro.trees import Tree

EPSILON = 1e-4  # smoothing of the priors, shrinkage of the covariance and what is added to its entries [FDA-code]


# ---- the classifier ----------------------------------------------------------------------------------------------------------
def log_priors(counts: Tensor) -> Tensor:
    """log pi [C] from sample counts n_c [C], pi_c proportional to n_c / n + 1e-4."""
    shares = counts.double() / counts.sum().clamp(min=1) + EPSILON
    return (shares / shares.sum()).log()


def shrunk(sigma: Tensor) -> Tensor:
    """(1 - 1e-4) Sigma + 1e-4 (tr Sigma / D) I; linear in Sigma."""
    size = sigma.shape[-1]
    return (1 - EPSILON) * sigma + EPSILON * sigma.diagonal().sum() / size * _eye(sigma)


def head(stats: Tree, log_prior: Tensor) -> Tree:
    """The Bayes classifier of `stats` (`mu` [C, D], `sigma` [D, D]) as a linear layer, in float64.

    `weight` [C, D]: w_c = Sigma'^-1 mu_c with the shrunk Sigma', by Cholesky; `bias` [C]: -1/2 <mu_c, w_c> + log pi_c.
    """
    mu, factor = stats.mu.double(), _cholesky(shrunk(stats.sigma.double()))
    weight = torch.cholesky_solve(mu.T, factor).T
    return Tree(weight=weight, bias=log_prior - 0.5 * (mu * weight).sum(1))


# ---- estimates ---------------------------------------------------------------------------------------------------------------
def estimate(z: Tensor, members: Tensor, otherwise: Tree, least: int = 1) -> Tree:
    """`mu` and `sigma` of the rows of z [n, D] that `members` [n, C] (one-hot, zero rows: not there) assigns to a class (Eqs. 6 to 8).

    mu_c is the mean of class c, `otherwise.mu` where the class has fewer than `least` rows; Sigma = Zc' Zc / (n - 1), Zc centred by
    the classes' own means in either case, plus I and 1e-4 in every entry [FDA-code]. Without any row Sigma is `otherwise.sigma`.
    """
    counts = members.sum(0)
    means = members.T @ z / counts.clamp(min=1)[:, None]
    centred = z * members.sum(1, keepdim=True) - members @ means
    n = counts.sum()
    scatter = centred.T @ centred / (n - 1).clamp(min=1)
    mu = torch.where((counts >= least)[:, None], means, otherwise.mu)
    return Tree(mu=mu, sigma=torch.where(n > 0, scatter + EPSILON + _eye(scatter), otherwise.sigma))


def interpolate(beta: Tensor, local: Tree, received: Tree) -> Tree:
    """beta_1 mu^ + (1 - beta_1) mu_g and beta_2 Sigma^ + (1 - beta_2) Sigma_g, for beta [2], or [1] for both."""
    return Tree(mu=torch.lerp(received.mu, local.mu, beta[0]), sigma=torch.lerp(received.sigma, local.sigma, beta[-1]))


# ---- the objective of the interpolation --------------------------------------------------------------------------------------
def split(z: Tensor, y: Tensor, mask: Tensor, key: Tensor, classes: int, folds: int) -> tuple[Tensor, Tensor]:
    """Stratified folds of the true rows: features [k, m, D] and one-hot memberships [k, m, C], zero where there is no row.

    Classes with fewer than k rows are left out. The others are laid out class by class, within a class by `key` [n] in [0, 1),
    and assigned to the folds in turn, so that folds differ by one row at most, in every class and in total.
    """
    present = one_hot(y, classes, torch.float64) * mask.double()[:, None]
    kept = (present * (present.sum(0) >= folds)).sum(1) > 0
    order = torch.where(kept, y + key.double().clamp(max=1 - 1e-9), float(classes)).argsort(stable=True)
    order = torch.cat([order, order.new_zeros(-len(order) % folds)])
    real = torch.arange(len(order), device=z.device) < kept.sum()
    members = present[order] * real[:, None]
    return tuple(rows.unflatten(0, (-1, folds)).transpose(0, 1) for rows in (z[order].double(), members))


def validation(z: Tensor, members: Tensor, log_prior: Tensor, received: Tree) -> Evaluate:
    """J(beta) (Eq. 9), the sum over folds of the mean cross-entropy of the fold's rows, with gradient and Hessian.

    z [k, m, D], members [k, m, C] from `split`. Fold j is classified by `head(interpolate(beta, (mu^j, Sigma^j), received))`,
    mu^j and Sigma^j from the rows of all other folds. beta is [2], for mean and covariance, or [1], the same for both.
    """
    folds, rows = z.shape[:2]
    flat, owner = z.flatten(0, 1), torch.arange(folds, device=z.device).repeat_interleave(rows)

    def others(j: Tensor) -> Tree:
        local = estimate(flat, members.flatten(0, 1) * (owner != j)[:, None], received)
        return Tree(mu=local.mu, sigma=shrunk(local.sigma))

    local = torch.func.vmap(others)(torch.arange(folds, device=z.device))
    A, mu = shrunk(received.sigma), received.mu
    line = Tree(mu=mu, d=local.mu - mu, A=A, E=local.sigma - A, log_prior=log_prior)
    weight = members.sum(2)
    weight = weight / weight.sum(1, keepdim=True).clamp(min=1)

    def evaluate(beta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        # relative to the true class: J = log sum exp r, and its small derivatives are sums without cancellation
        scores = _scores(z, line, beta[0], beta[-1])
        r, r1, r2, r11, r12, r22 = (s - (s * members).sum(2, keepdim=True) for s in scores)
        one = len(beta) == 1
        slopes, bends = ([r1 + r2], [r11 + 2 * r12 + r22]) if one else ([r1, r2], [r11, r12, r22])
        p = r.softmax(2)
        weighted = [p * slope for slope in slopes]
        expected = [part.sum(2) for part in weighted]
        second = [
            (weight * ((weighted[i] * slopes[j] + p * bend).sum(2) - expected[i] * expected[j])).sum()
            for (i, j), bend in zip(((0, 0), (0, 1), (1, 1)), bends, strict=False)
        ]
        gradient = torch.stack([(weight * slope).sum() for slope in expected])
        hessian = torch.stack(second if one else [second[0], second[1], second[1], second[2]])
        return (weight * r.logsumexp(2)).sum(), gradient, hessian.view(len(slopes), len(slopes))

    return evaluate


def _scores(z: Tensor, line: Tree, first: Tensor, second: Tensor) -> tuple[Tensor, ...]:
    """Scores s [k, m, C] of z [k, m, D] at the coefficients beta_1, beta_2, and s_1, s_2, s_11, s_12, s_22.

    With w = A^-1 mu: w_1 = A^-1 d, w_2 = -A^-1 E w, w_12 = -A^-1 E w_1, w_22 = -2 A^-1 E w_2, w_11 = 0. The biases are b = -1/2
    mu.w + log pi, b_1 = -d.w, b_11 = -d.w_1, b_2 = -1/2 mu.w_2, b_22 = -1/2 mu.w_22, b_12 = -d.w_2.

    Args:
        line: k classifiers of mu + beta_1 d and A + beta_2 E, shrunk already: mu [C, D], d [k, C, D], A [D, D], E [k, D, D].
    """
    d, E, classes = line.d, line.E, line.d.shape[1]
    mu, factor = line.mu + first * d, _cholesky(torch.addcmul(line.A, E, second))

    def solve(rows: Tensor) -> Tensor:
        return torch.cholesky_solve(rows.mT, factor).mT

    w_w1 = solve(torch.cat([mu, d], 1))
    w2_w12 = -solve(w_w1 @ E)
    (w, w1), (w2, w12) = w_w1.split(classes, 1), w2_w12.split(classes, 1)
    w22 = -2 * solve(w2 @ E)
    bias = [line.log_prior - 0.5 * (mu * w).sum(2), -(d * w).sum(2), -0.5 * (mu * w2).sum(2)]
    bias += [-(d * w2).sum(2), -0.5 * (mu * w22).sum(2)]
    linear = z @ torch.cat([w, w1, w2, w12, w22], 1).mT + torch.cat(bias, 1)[:, None]
    s, s1, s2, s12, s22 = linear.split(classes, 2)
    return s, s1, s2, -(d * w1).sum(2)[:, None].expand_as(s), s12, s22


def _eye(like: Tensor) -> Tensor:
    return torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)


def _cholesky(matrix: Tensor) -> Tensor:
    """The lower factor; not finite where the matrix is not (a diverged run), instead of an error that asks the device to wait."""
    return torch.linalg.cholesky_ex(matrix)[0]
