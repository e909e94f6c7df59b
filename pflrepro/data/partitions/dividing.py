"""From a kind's rule to the training and test rows of each client."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import count

import torch
from torch import Tensor

from pflrepro.data.partitions.kind import Data, OwnSplit, Sides, Spec, train_size
from pflrepro.data.partitions.rows import shuffled
from pflrepro.data.partitions.selection import choose, too_many
from pflrepro.errors import UserError


def divide(spec: Spec, data: Data) -> Sides:
    """Training and test rows of each client."""
    total, chosen = data.clients, None
    if spec.choice:
        if data.clients is None:
            raise UserError(f"partition '{spec}' needs the number of clients to choose")
        if spec.total is not None and data.clients > spec.total:  # said before a long division
            raise too_many(spec, data.clients, spec.total)
        total, chosen = spec.total, data.clients
    sides = choose(spec, _before_options(spec, replace(data, clients=total)), chosen, data.seed)
    if data.min_size > 0 and not spec.own_rows:
        _refuse_untrained(spec, sides, data.test_share)
    return sides


def _before_options(spec: Spec, data: Data) -> Sides:
    if isinstance(spec, OwnSplit):
        return spec.sides(data)
    client, clients, is_test = spec.owners(data)
    if spec.counted:
        _check_counted(spec, clients, data.clients)
        if data.min_size > 0:
            _refuse_empty(spec, client, clients)
    if is_test is None:
        is_test = _random_test_rows(spec, client, clients, data)
    return _sides(client, is_test, clients)


# ---- clients -> training and test rows ---------------------------------------------------------------------------------------


def _random_test_rows(spec: Spec, client: Tensor, clients: int, data: Data) -> Tensor:
    """Choose n_i - floor((1 - test_share) n_i) random rows of every client i, or `_stratum` of each of its classes."""
    labels, test_share = data.labels, data.test_share
    cell, cells, held_out = client, clients, lambda size: size - train_size(size, test_share)
    if spec.stratified:
        classes = int(labels.max()) + 1
        cell, cells = torch.where(client < 0, -1, client * classes + labels), clients * classes
        held_out = partial(_stratum, test_share=test_share)
    order = shuffled(len(cell), "partition/split", data.seed, cell.device)
    order = order[torch.argsort(cell[order], stable=True)]  # unused rows first, then cell by cell in random order
    sizes = torch.bincount(cell + 1, minlength=cells + 1)
    distinct, place = sizes[1:].unique(return_inverse=True)
    wanted = torch.tensor([0, *map(held_out, distinct.tolist())], device=cell.device)
    held = torch.cat([wanted[:1], wanted[1:][place]])
    start = torch.cumsum(sizes, 0) - sizes
    rank = torch.arange(len(cell), device=cell.device) - start.repeat_interleave(sizes)
    is_test = torch.empty_like(cell, dtype=torch.bool)
    is_test[order] = rank < held.repeat_interleave(sizes)
    return is_test


def _stratum(size: int, test_share: float) -> int:
    """Test samples of `size` of one class: the nearest whole number, but never all of them."""
    return max(min(math.floor(Fraction(repr(test_share)) * size + Fraction(1, 2)), size - 1), 0)


def _sides(client: Tensor, is_test: Tensor, clients: int) -> Sides:
    """Row numbers in ascending order, client by client."""
    side = 2 * client + is_test + 2  # 0, 1: unused; then training and test of client 0, 1, ...
    rows = torch.argsort(side, stable=True)
    parts = rows.split(torch.bincount(side, minlength=2 * clients + 2).tolist())
    return list(parts[2::2]), list(parts[3::2])


# ---- what is refused ---------------------------------------------------------------------------------------------------------


def _check_counted(spec: Spec, found: int, clients: int | None) -> None:
    if clients is not None and clients != found:
        choosable = not spec.choice and clients < found
        some = f"; {clients} of them, drawn at random: {spec}+of=all" if choosable else ""
        raise UserError(f"partition '{spec}' has {found} clients, not {clients}{some}")


def _refuse_empty(spec: Spec, client: Tensor, clients: int) -> None:
    empty = (torch.bincount(client + 1, minlength=clients + 1)[1:] == 0).nonzero().flatten().tolist()
    if empty:
        raise UserError(
            f"partition '{spec}' leaves {len(empty)} of {clients} clients without samples, client {empty[0]} first; "
            "min_size = 0 allows that"
        )


def _refuse_untrained(spec: Spec, sides: Sides, test_share: float) -> None:
    """No client without training samples, unless that is asked for."""
    train, test = sides
    idle = [client for client, own in enumerate(train) if not len(own)]
    if idle:
        held = len(test[idle[0]])
        has = f", which has {held} in all" if held else ""  # of held out training samples it does not tell
        enough = next(size for size in count(2) if train_size(size, test_share))
        raise UserError(
            f"partition '{spec}' leaves {len(idle)} of {len(train)} clients without training samples, client {idle[0]} first{has}; "
            f"{spec.without_smaller(enough)}min_size = 0 allows clients that are only tested"
        )
