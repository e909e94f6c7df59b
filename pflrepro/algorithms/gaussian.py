"""The generative classifier of pFedFDA: class-conditional Gaussians z | y = c ~ N(mu_c, Sigma) with one covariance for all classes.

Pure functions of tensors for one client, fit for `vmap`. They work in float64, whatever the run's number type: statistics go
through a matrix inverse, and the interpolation coefficients through differences of losses.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pflrepro.algorithms.contract import one_hot
from pflrepro.algorithms.task import Settled, never
from pflrepro.trees import Tree

EPSILON = 1e-4  # smoothing of the priors, shrinkage and ridge of the covariance [FDA-code]
THRESHOLD = 1e-15  # least eigenvalue of a correlation matrix, as statsmodels' cov_nearest [FDA-code]
# Steps of the search by ridge. With I on the covariances ten were the most that made-up problems took, four to eight with the small
# ridge for most, and all for some.
STEPS = {"code": 12, "paper": 20}
STILL = 1e-9  # a step whose predicted gain is below this share of 1 + |loss| is not taken: rounding would decide it


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
def estimate(z: Tensor, members: Tensor, otherwise: Tree, cov_reg: str, least: int = 1) -> Tree:
    """`mu` and `sigma` of the rows of z [n, D] that `members` [n, C] (one-hot, zero rows: not there) assigns to a class.

    mu_c is the mean of class c, `otherwise.mu` where the class has fewer than `least` rows; Sigma = Zc' Zc / (n - 1), Zc centred by
    the classes' own means in either case, plus 1e-4 I (`cov_reg` paper) or I and 1e-4 in every entry (`code`); then the nearest
    positive definite matrix, which the second of the two always is already. Without any row Sigma is `otherwise.sigma`.
    """
    counts = members.sum(0)
    means = members.T @ z / counts.clamp(min=1)[:, None]
    centred = z * members.sum(1, keepdim=True) - members @ means
    n = counts.sum()
    scatter = centred.T @ centred / (n - 1).clamp(min=1)
    if cov_reg == "code":
        sigma = scatter + EPSILON + _eye(scatter)
    else:
        sigma = nearest_positive(scatter + EPSILON * _eye(scatter))
    mu = torch.where((counts >= least)[:, None], means, otherwise.mu)
    return Tree(mu=mu, sigma=torch.where(n > 0, sigma, otherwise.sigma))


def nearest_positive(sigma: Tensor) -> Tensor:
    """A positive definite matrix near the symmetric `sigma` [D, D] with the same variances.

    Eigenvalues of the correlation matrix below 1e-15 are raised to it, and its diagonal is scaled back to 1; a matrix without
    such eigenvalues stays as it is.
    """
    deviation = sigma.diagonal().clamp(min=torch.finfo(sigma.dtype).tiny).sqrt()
    outer = deviation[:, None] * deviation
    values, vectors = torch.linalg.eigh(sigma / outer)
    clipped = (vectors * values.clamp(min=THRESHOLD)) @ vectors.T
    unit = clipped.diagonal().clamp(min=torch.finfo(sigma.dtype).tiny).rsqrt()
    return torch.where(values.min() < THRESHOLD, clipped * unit[:, None] * unit * outer, sigma)


def interpolate(beta: Tensor, local: Tree, received: Tree) -> Tree:
    """beta_1 mu^ + (1 - beta_1) mu_g and beta_2 Sigma^ + (1 - beta_2) Sigma_g, for beta [2], or [1] for both."""
    return Tree(mu=torch.lerp(received.mu, local.mu, beta[0]), sigma=torch.lerp(received.sigma, local.sigma, beta[-1]))


# ---- the objective of the interpolation --------------------------------------------------------------------------------------
def split(z: Tensor, y: Tensor, mask: Tensor, key: Tensor, classes: int, folds: int) -> tuple[Tensor, Tensor]:
    """Stratified folds of the true rows: features [k, m, D] and one-hot memberships [k, m, C], zero where there is no row.

    Classes with fewer than k rows are left out. The others are laid out class by class, within a class by `key` [n] in [0, 1),
    and dealt to the folds in turn, so that folds differ by one row at most, in every class and in total.
    """
    present = one_hot(y, classes, torch.float64) * mask.double()[:, None]
    kept = (present * (present.sum(0) >= folds)).sum(1) > 0
    order = torch.where(kept, y + key.double().clamp(max=1 - 1e-9), float(classes)).argsort(stable=True)
    order = torch.cat([order, order.new_zeros(-len(order) % folds)])
    real = torch.arange(len(order), device=z.device) < kept.sum()
    members = present[order] * real[:, None]
    return tuple(rows.unflatten(0, (-1, folds)).transpose(0, 1) for rows in (z[order].double(), members))


def validation(
    z: Tensor, members: Tensor, log_prior: Tensor, received: Tree, cov_reg: str, coefficients: str
) -> Evaluate:
    """J(beta), the sum over folds of the mean cross-entropy of the fold's rows, with gradient and Hessian.

    z [k, m, D], members [k, m, C] from `split`. Fold j is classified by `head(interpolate(beta, (mu^j, Sigma^j), received))`,
    mu^j and Sigma^j from the rows of all other folds. beta is [2] (`separate`), or [1], the same for both (`single`).
    """
    folds, rows = z.shape[:2]
    flat, owner = z.flatten(0, 1), torch.arange(folds, device=z.device).repeat_interleave(rows)

    def others(j: Tensor) -> Tree:
        local = estimate(flat, members.flatten(0, 1) * (owner != j)[:, None], received, cov_reg)
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
        one = coefficients == "single"
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


Evaluate = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]


def _scores(z: Tensor, line: Tree, first: Tensor, second: Tensor) -> tuple[Tensor, ...]:
    """Scores s [k, m, C] of z [k, m, D] at the coefficients beta_1, beta_2, and s_1, s_2, s_11, s_12, s_22.

    `line`: k classifiers of mu + beta_1 d and A + beta_2 E, shrunk already: mu [C, D], d [k, C, D], A [D, D], E [k, D, D].
    With w = A^-1 mu: w_1 = A^-1 d, w_2 = -A^-1 E w, w_12 = -A^-1 E w_1, w_22 = -2 A^-1 E w_2, w_11 = 0. The biases are
    b = -1/2 mu.w + log pi, b_1 = -d.w, b_11 = -d.w_1, b_2 = -1/2 mu.w_2, b_22 = -1/2 mu.w_22, b_12 = -d.w_2.
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


# ---- the search --------------------------------------------------------------------------------------------------------------
def search(
    evaluate: Evaluate, start: Tensor, rule: str, steps: int = STEPS["paper"], settled: Settled = never
) -> Tensor:
    """The coefficients beta [1 or 2] in [0, 1] that minimise `evaluate` from `start`.

    `rule` bounded: a minimum over the box. `code`: the first trial point is start - g / max(1, |g|_1), as that of the released
    code's L-BFGS on a clipped argument. Where the loss there is sufficiently lower (Armijo, 1e-4), a coordinate that has left the
    box stays at the border, for beyond it the clipped objective has no slope; all else goes on to the minimum.
    """
    low, high = torch.zeros_like(start), torch.ones_like(start)
    if rule == "code":
        value, slope, _ = evaluate(start)
        length = 1 / slope.abs().sum().clamp(min=1)
        trial = start - length * slope
        inside = trial.clamp(0, 1)
        taken = evaluate(inside)[0] <= value - 1e-4 * length * (slope**2).sum()
        stuck = taken & (inside != trial)
        start = torch.where(taken, inside, start)
        low, high = torch.where(stuck, inside, low), torch.where(stuck, inside, high)
    return minimise(evaluate, start, low, high, steps, settled)


def minimise(
    evaluate: Evaluate, start: Tensor, low: Tensor, high: Tensor, steps: int, settled: Settled = never
) -> Tensor:
    """A local minimum x [1 or 2] of a smooth function in the box low <= x <= high, by Newton's method in a trust region.

    `evaluate(x)` gives value, gradient and Hessian. Each step is the exact minimum of the quadratic model in the part of the box
    that lies within the trust radius (greatest norm); a coordinate at its border stays while the slope points outwards. The
    number of steps is fixed, and a finished search stands still, so that it runs under `vmap`; `settled` may end it there.
    """
    x, radius = start, torch.ones_like(start[0])
    value, gradient, hessian = evaluate(x)
    for _ in range(steps):
        held = ((x <= low) & (gradient >= 0)) | ((x >= high) & (gradient <= 0))
        reach = torch.where(held, 0.0, radius)
        step, gain = _model_step(gradient, hessian, torch.maximum(low - x, -reach), torch.minimum(high - x, reach))
        moving = gain > STILL * (1 + value.abs())
        if settled(~moving):
            break
        trial = _between(x + step, low, high)
        new = evaluate(trial)
        better = moving & (new[0] < value)
        ratio = (value - new[0]) / gain.clamp(min=STILL)
        wider = torch.where(
            ratio > 0.75, (2 * radius).clamp(max=1), torch.where(ratio > 0.25, radius, step.abs().max() / 4)
        )
        radius = torch.where(moving, wider, radius)
        x = torch.where(better, trial, x)
        value, gradient, hessian = (
            torch.where(better, after, before) for after, before in zip(new, (value, gradient, hessian), strict=True)
        )
    return x


def _model_step(g: Tensor, H: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The minimum p of g.p + p.H.p / 2 over the box low <= p <= high (which holds 0), and how far below 0 it lies.

    In one dimension it is the stationary point or an end; in two the stationary point, where H is positive definite and the
    point is inside, or a point of one of the four edges.
    """
    if len(g) == 1:
        points = torch.cat([_between(-g / _positive(H[0]), low, high), low, high])[:, None]
    else:
        det = H[0, 0] * H[1, 1] - H[0, 1] ** 2
        inner = torch.stack([H[0, 1] * g[1] - H[1, 1] * g[0], H[0, 1] * g[0] - H[0, 0] * g[1]]) / _positive(det)
        convex = (det > 0) & (H[0, 0] > 0) & (inner >= low).all() & (inner <= high).all()
        at = torch.stack([low, high])  # of coordinate 0 and of coordinate 1 [2, 2]; the other one is free there
        free = -(g.flip(0) + H[0, 1] * at) / _positive(H.diagonal().flip(0))
        free = torch.stack([_between(free, low.flip(0), high.flip(0)), *(e.flip(0).expand(2, 2) for e in (low, high))])
        edges = torch.stack([at.expand(3, 2, 2), free], -1)  # [3, 2, coordinate, (at, free)]
        edges = torch.stack([edges[:, :, 0], edges[:, :, 1].flip(-1)]).flatten(0, 2)
        points = torch.cat([torch.where(convex, inner, 0.0)[None], edges])
    values = points @ g + 0.5 * ((points @ H) * points).sum(1)
    best = values.argmin().view(1, 1).expand(1, len(g))
    return points.gather(0, best)[0], -values.min()


def _between(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    return torch.minimum(torch.maximum(x, low), high)


def _positive(x: Tensor) -> Tensor:
    """x where it is positive, 1 elsewhere: a denominator."""
    return torch.where(x > 0, x, 1.0)


def _eye(like: Tensor) -> Tensor:
    return torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)


def _cholesky(matrix: Tensor) -> Tensor:
    """The lower factor; not finite where the matrix is not (a diverged run), instead of an error that asks the device to wait."""
    return torch.linalg.cholesky_ex(matrix)[0]
