"""A minimum over the unit box of one or two coefficients: the search for pFedFDA's interpolation.

Functions of tensors for one client, fit for `vmap`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pflrepro.algorithms.task import Settled, never

Evaluate = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]  # x -> value, gradient, Hessian

STEPS = 12  # of a search; with I on the covariances ten were the most that made-up problems took
STILL = 1e-9  # a step whose predicted gain is below this share of 1 + |loss| is not taken: rounding would decide it


def minimise(evaluate: Evaluate, start: Tensor, steps: int = STEPS, settled: Settled = never) -> Tensor:
    """A local minimum x [1 or 2] of a smooth function in the box 0 <= x <= 1, by Newton's method in a trust region.

    `evaluate(x)` gives value, gradient and Hessian. Each step is the exact minimum of the quadratic model in the part of the box
    that lies within the trust radius (greatest norm); a coordinate at its border stays while the slope points outwards. The
    number of steps is fixed, and a finished search stands still, so that it runs under `vmap`; `settled` may end it there. A search
    is finished where no step is worth taking.
    """
    x, radius = start, torch.ones_like(start[0])
    value, gradient, hessian = evaluate(x)
    for _ in range(steps):
        held = ((x <= 0) & (gradient >= 0)) | ((x >= 1) & (gradient <= 0))
        reach = torch.where(held, 0.0, radius)
        step, gain = _model_step(gradient, hessian, torch.maximum(-x, -reach), torch.minimum(1 - x, reach))
        moving = gain > STILL * (1 + value.abs())
        if settled(~moving):
            break
        trial = (x + step).clamp(0, 1)
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
