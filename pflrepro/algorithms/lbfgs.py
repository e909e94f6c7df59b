"""The search of pFedFDA's released code: L-BFGS with a strong-Wolfe line search on an argument that is clipped to [0, 1].

One evaluation a turn, every choice a `torch.where`, so that searches of many clients run side by side under `vmap`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pflrepro.algorithms.box import Evaluate
from pflrepro.algorithms.task import Settled, never
from pflrepro.trees import Tree, select

TURNS = 64  # evaluations beside the first; the most that 6,000 made-up problems took were 62, and 41 with I on the covariances
ITERATIONS, FLAT = 10, 1e-3  # limit, and the largest slope at which the search ends [FDA-code]
STILL = 1e-9  # least change of x and of the value, least descent, least width of a bracket [the library it calls, pytorch-minimize]
CURVED = 1e-10  # least y.s of a pair that the inverse Hessian takes up [the same]
LOWER, LEVEL = 1e-4, 0.9  # Wolfe's constants [PyTorch's line search, which that library takes]
TRIES = 25  # evaluations of a line search behind its first [the same]


def search(evaluate: Evaluate, start: Tensor, turns: int = TURNS, settled: Settled = never) -> Tensor:
    """The coefficients beta [1 or 2] at which the released code's search from `start` ends, clipped to [0, 1].

    x is unbounded, the value and the slopes are those at clip(x, 0, 1), and beyond a border its coordinate has none. x <- x + t d,
    d = -H g, H the BFGS matrix of all pairs (s, y) so far with y.s > 1e-10, from (y.s / y.y) I of the last pair. The first trial
    t is 1 / max(1, |g|_1), later ones 1; a line search lengthens it while the value falls steeply, and else narrows a bracket by
    cubic interpolation, until value and slope fulfil the strong Wolfe conditions. It ends after ten iterations, where no slope is
    above 1e-3, or where x or the value change by at most 1e-9, which then are not taken.

    After `turns` evaluations beside the first the last finished iteration counts. Where the released code divides 0 by 0 (two
    points outside with equal values), the middle of the bracket is tried.
    """
    state = _first(evaluate, start)
    for _ in range(turns):
        if settled(~state.active):
            break
        state = select(state.active, _turn(evaluate, state), state)
    return state.x.clamp(0, 1)


def _clipped(evaluate: Evaluate, x: Tensor) -> tuple[Tensor, Tensor]:
    """Value and gradient of x -> f(clip(x, 0, 1))."""
    inside = x.clamp(0, 1)
    value, gradient, _ = evaluate(inside)
    return value, torch.where(inside == x, gradient, 0.0)


def _first(evaluate: Evaluate, x: Tensor) -> Tree:
    """The state before the first trial.

    `at`: value and gradient at x. `d`: the direction; t: the trial. `low`: the point of the line search before the trial, later the
    better end of the bracket, `high` the other one; each with its t, value, gradient, and slope along d. `zoom`: there is a bracket;
    `leading`: its better end is the one that was found first, which decides between equal values; `near`: the last trial was close
    to an end. H = scale * `plain` + `pairs`.
    """
    value, gradient = _clipped(evaluate, x)
    d, zero = -gradient, torch.zeros_like(value)
    origin = Tree(t=zero, value=value, gradient=gradient, slope=gradient @ d)
    no = zero > 0
    eye = torch.eye(len(x), dtype=x.dtype, device=x.device)
    return Tree(
        x=x,
        at=origin.only(["value", "gradient"]),
        d=d,
        t=1 / gradient.abs().sum().clamp(min=1),
        low=origin,
        high=origin,
        tries=zero,
        zoom=no,
        leading=~no,
        near=no,
        plain=eye,
        pairs=torch.zeros_like(eye),
        scale=zero + 1,
        taken=zero,
        active=origin.slope <= -STILL,
    )


def _turn(evaluate: Evaluate, old: Tree) -> Tree:
    """The state after one more evaluation: the trial becomes a part of the bracket, is lengthened, or ends the line search."""
    value, gradient = _clipped(evaluate, old.x + old.t * old.d)
    new = Tree(t=old.t, value=value, gradient=gradient, slope=gradient @ old.d)
    descent = old.at.gradient @ old.d
    high_up = new.value > old.at.value + LOWER * new.t * descent
    level = new.slope.abs() <= -LEVEL * descent
    worse = high_up | ((old.zoom | (old.tries > 1)) & (new.value >= old.low.value))
    done = ~worse & level
    lengthened = ~old.zoom & ~worse & ~done & (new.slope < 0)
    zoom = ~lengthened & ~done
    # the bracket: a worse point becomes its other end, a better one its better end
    behind = old.zoom & (new.slope * (old.high.t - old.low.t) >= 0)
    into_high = zoom & (worse | ~old.zoom)
    low = select(into_high, old.low, new)
    high = select(into_high, new, select(behind, old.low, old.high))
    before = old.leading | ~old.zoom
    swapped = into_high & torch.where(before, low.value > high.value, low.value >= high.value)
    leading = before ^ swapped
    low, high = select(swapped, high, low), select(swapped, low, high)
    tries = old.tries + (lengthened | old.zoom).to(old.tries)
    narrow = (high.t - low.t).abs() * old.d.abs().max() < STILL
    ended = done | (zoom & narrow) | (tries >= TRIES)
    t, near = _inner(low, high, old.near & old.zoom)
    t = torch.where(zoom, t, _cubic(old.low, new, new.t + 0.01 * (new.t - old.low.t), 10 * new.t))
    within = Tree(t=t, low=low, high=high, tries=tries, zoom=zoom, leading=leading, near=near & zoom)
    return select(ended, _next(old, low), old | within)


def _next(old: Tree, found: Tree) -> Tree:
    """The state at the start of the next iteration; `found`: where the line search ended."""
    s, y = found.t * old.d, found.gradient - old.at.gradient
    bend = y @ s
    curved = bend > CURVED
    rho = 1 / torch.where(curved, bend, 1.0)
    V = torch.eye(len(s), dtype=s.dtype, device=s.device) - rho * torch.outer(y, s)
    plain = torch.where(curved, V.T @ old.plain @ V, old.plain)
    pairs = torch.where(curved, V.T @ old.pairs @ V + rho * torch.outer(s, s), old.pairs)
    scale = torch.where(curved, bend / torch.where(curved, y @ y, 1.0), old.scale)
    moved = (s.abs().max() > STILL) & ((found.value - old.at.value).abs() > STILL)
    x = torch.where(moved, old.x + s, old.x)
    at = select(moved, found.only(["value", "gradient"]), old.at)
    d = -(scale * (plain @ at.gradient) + pairs @ at.gradient)
    origin = at | Tree(t=torch.zeros_like(found.t), slope=at.gradient @ d)
    taken = old.taken + 1
    active = moved & (at.gradient.abs().max() > FLAT) & (taken < ITERATIONS) & (origin.slope <= -STILL)
    fresh = Tree(x=x, at=at, d=d, t=torch.ones_like(found.t), low=origin, high=origin, tries=torch.zeros_like(taken))
    no = torch.zeros_like(active)
    search = Tree(zoom=no, leading=~no, near=no)
    return old | fresh | search | Tree(plain=plain, pairs=pairs, scale=scale, taken=taken, active=active)


def _inner(low: Tree, high: Tree, near: Tensor) -> tuple[Tensor, Tensor]:
    """The next trial in the bracket, and whether it is within a tenth of its width of an end.

    The second such trial on end, or one that is no inner point, is moved to a tenth of the width from that end.
    """
    left, right = torch.minimum(low.t, high.t), torch.maximum(low.t, high.t)
    t, margin = _cubic(low, high, left, right), 0.1 * (right - left)
    close = torch.minimum(right - t, t - left) < margin
    pushed = close & (near | (t >= right) | (t <= left))
    away = torch.where((t - right).abs() < (t - left).abs(), right - margin, left + margin)
    return torch.where(pushed, away, t), close & ~pushed


def _cubic(a: Tree, b: Tree, least: Tensor, most: Tensor) -> Tensor:
    """The minimum in [least, most] of the cubic with the values and slopes of two points; the middle where it has none."""
    ordered = a.t <= b.t
    left, right = select(ordered, a, b), select(ordered, b, a)
    p = left.slope + right.slope - 3 * (left.value - right.value) / (left.t - right.t)
    q = (p**2 - left.slope * right.slope).sqrt()
    t = right.t - (right.t - left.t) * ((right.slope + q - p) / (right.slope - left.slope + 2 * q))
    t = torch.minimum(torch.maximum(t, least), most)
    return torch.where(t.isnan(), (least + most) / 2, t)
