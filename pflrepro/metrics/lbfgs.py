"""Many small minimisations side by side: PyTorch's L-BFGS without line search, or its Adam, row by row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Gradients = Callable[
    [Tensor, Tensor], tuple[Tensor, Tensor]
]  # (points [m, D], their rows [m]) -> (values [m], gradients)
HISTORY, LEAST_GRADIENT, LEAST_CHANGE, LEAST_CURVATURE = 100, 1e-7, 1e-9, 1e-10  # torch.optim.LBFGS's


def minimise(
    gradients: Gradients, start: Tensor, optimiser: str, lr: float, steps: int, inner: int = 20
) -> tuple[Tensor, Tensor]:
    """(points [V, D], values [V]) after `steps` steps from `start` [V, D]; every row as if it were alone.

    A row whose value is NaN or infinite stays where it is, its value NaN.

    Args:
        optimiser: `adam`, or `lbfgs` with `inner` iterations a step.
    """
    x = start.clone()
    everyone = torch.arange(len(x), device=x.device)
    if optimiser == "adam":
        # Adam works number by number: one of it on all rows is one a row
        adam = torch.optim.Adam([x], lr=lr)
        for _ in range(steps):
            x.grad = gradients(x, everyone)[1]
            adam.step()
    else:
        state = _State.fresh(x)
        for _ in range(steps):
            if not len(_step(gradients, x, state, lr, inner)):
                break
    value = gradients(x.detach(), everyone)[0]
    return x.detach(), torch.where(value.isfinite(), value, torch.nan)


@dataclass
class _State:
    """What rows keep between steps: the last direction and gradient, pairs (s, y) in a ring, how many; `begun`: had an iteration."""

    direction: Tensor
    rate: Tensor
    gradient: Tensor
    s: Tensor
    y: Tensor
    inverse: Tensor
    scale: Tensor
    count: Tensor
    begun: Tensor

    @classmethod
    def fresh(cls, x: Tensor) -> _State:
        rows, size = x.shape
        zeros = x.new_zeros
        counts = torch.zeros(rows, dtype=torch.int64, device=x.device)
        ring = (HISTORY, rows, size)
        return cls(
            torch.zeros_like(x),
            zeros(rows),
            torch.zeros_like(x),
            zeros(ring),
            zeros(ring),
            zeros(HISTORY, rows),
            torch.ones(rows, dtype=x.dtype, device=x.device),
            counts,
            counts.bool(),
        )


def _step(gradients: Gradients, x: Tensor, state: _State, lr: float, inner: int) -> Tensor:
    """One step of at most `inner` iterations, in place; the rows that iterated at all."""
    active = torch.arange(len(x), device=x.device)
    value, g = gradients(x, active)
    keep = value.isfinite() & ~(g.abs().amax(1) <= LEAST_GRADIENT) & g.isfinite().all(1)
    active, value, g = active[keep], value[keep], g[keep]
    first = active
    for iteration in range(1, inner + 1):
        if not len(active):
            break
        _remember(state, active, g)
        d = _direction(state, active, g)
        begun = state.begun[active]
        t = torch.where(begun, lr, lr * (1 / g.abs().sum(1)).clamp(max=1.0))
        state.direction[active], state.rate[active], state.gradient[active] = d, t, g
        state.begun[active] = True
        descends = ~((g * d).sum(1) > -LEAST_CHANGE)
        active, value, t, d = active[descends], value[descends], t[descends], d[descends]
        if iteration == inner or not len(active):
            x[active] += t[:, None] * d
            break
        x[active] += t[:, None] * d
        new, g = gradients(x[active], active)
        done = (g.abs().amax(1) <= LEAST_GRADIENT) | ((t[:, None] * d).abs().amax(1) <= LEAST_CHANGE)
        done |= ((new - value).abs() < LEAST_CHANGE) | ~new.isfinite() | ~g.isfinite().all(1)
        active, value, g = active[~done], new[~done], g[~done]
    return first


def _remember(state: _State, rows: Tensor, g: Tensor) -> None:
    """Adds (s, y) of the last iteration to the rings of `rows` where s'y is large enough."""
    y, s = g - state.gradient[rows], state.direction[rows] * state.rate[rows, None]
    curvature = (y * s).sum(1)
    good = (curvature > LEAST_CURVATURE) & state.begun[rows]
    chosen, place = rows[good], state.count[rows[good]] % HISTORY
    state.s[place, chosen], state.y[place, chosen] = s[good], y[good]
    state.inverse[place, chosen] = 1 / curvature[good]
    state.scale[chosen] = curvature[good] / (y[good] ** 2).sum(1)
    state.count[chosen] += 1


def _direction(state: _State, rows: Tensor, g: Tensor) -> Tensor:
    """The two-loop recursion: -H g with each row's pairs; an absent pair has inverse 0 and changes nothing."""
    count = state.count[rows]
    held = int(count.clamp(max=HISTORY).max())
    places = [(count - 1 - age) % HISTORY for age in range(held)]
    there = [age < count for age in range(held)]
    q, factors = -g, []
    for place, exists in zip(places, there, strict=True):
        inverse = torch.where(exists, state.inverse[place, rows], 0.0)
        factors.append((state.s[place, rows] * q).sum(1) * inverse)
        q = q - factors[-1][:, None] * state.y[place, rows]
    r = q * state.scale[rows, None]
    for place, exists, factor in zip(places[::-1], there[::-1], factors[::-1], strict=True):
        inverse = torch.where(exists, state.inverse[place, rows], 0.0)
        back = (state.y[place, rows] * r).sum(1) * inverse
        r = r + (factor - back)[:, None] * state.s[place, rows] * exists[:, None]
    return r
