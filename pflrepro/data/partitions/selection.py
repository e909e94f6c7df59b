"""The options of a specification: some of a partition's clients, a part of each client's training samples, and what is tested on."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor

from pflrepro.data.partitions.kind import Sides, Spec
from pflrepro.errors import UserError
from pflrepro.randomness import generator


def choose(spec: Spec, sides: Sides, clients: int | None, seed: int) -> Sides:
    """The training and test rows that the options of `spec` leave, of `clients` clients (None: of all)."""
    train, test = sides
    chosen = range(len(train)) if clients is None else _clients(spec, clients, len(train), seed)
    kept = [_reduced(spec, train[client], client, seed) for client in chosen]
    if not spec.validation:
        return kept, [test[client] for client in chosen]
    parts = [_validated(spec, rows, client, seed) for client, rows in zip(chosen, kept, strict=True)]
    return [train for train, _ in parts], [valid for _, valid in parts]


def too_many(spec: Spec, clients: int, total: int) -> UserError:
    """The error where more clients are asked for than there are to choose from."""
    return UserError(f"clients must be <= {total} for the partition '{spec}', not {clients}")


def _clients(spec: Spec, clients: int, total: int, seed: int) -> list[int]:
    """The chosen ones of `total` clients in ascending order."""
    if clients > total:
        raise too_many(spec, clients, total)
    everyone = np.arange(total)
    if spec.choice == "of":
        everyone = generator(seed, "partition/clients").permutation(everyone)
    return sorted((everyone[-clients:] if spec.choice == "last-of" else everyone[:clients]).tolist())


def _reduced(spec: Spec, rows: Tensor, client: int, seed: int) -> Tensor:
    """floor(share n) [FDA] or at most N random training rows, in their order; a smaller part is a subset of a larger one."""
    if spec.train_samples is not None:
        kept = min(spec.train_samples, len(rows))
    else:
        kept = _part(spec.train_share, rows)
    if kept == len(rows):
        return rows
    if not kept:
        raise UserError(f"partition '{spec}' leaves client {client} none of its {len(rows)} training samples")
    return _some(rows, generator(seed, "partition/kept", client=client).permutation(len(rows))[:kept])


def _validated(spec: Spec, rows: Tensor, client: int, seed: int) -> tuple[Tensor, Tensor]:
    """The rows that train, and floor(share n) random others that are tested on, each in their order."""
    order = generator(seed, "partition/validation", client=client).permutation(len(rows))
    held = _part(spec.validation, rows)
    return _some(rows, order[held:]), _some(rows, order[:held])


def _part(share: float, rows: Tensor) -> int:
    """floor(share n), without rounding error."""
    return math.floor(Fraction(repr(float(share))) * len(rows))


def _some(rows: Tensor, places: np.ndarray) -> Tensor:
    """The rows at those places, in their order."""
    return rows[torch.from_numpy(np.sort(places)).to(rows.device)]
