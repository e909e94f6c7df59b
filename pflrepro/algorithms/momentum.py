"""What client momentum does to the length of a local path."""

from __future__ import annotations

from torch import Tensor


def effective_steps(steps: Tensor, momentum: float, like: Tensor) -> Tensor:
    """How many times a constant gradient g is in (w^t - y) / eta after T `steps` of SGD with momentum rho.

    (T - rho (1 - rho^T) / (1 - rho)) / (1 - rho), in the number type of `like`; T itself without momentum.
    """
    steps = steps.to(like.dtype)
    return (steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum)
