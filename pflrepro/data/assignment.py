"""How each kind of partition assigns rows to clients: host draws, then sorting and gathering on the labels' device."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pflrepro.data import recipes
from pflrepro.data.arrays import read_members
from pflrepro.data.published import published_counts, read_counts
from pflrepro.data.selection import choose, too_many
from pflrepro.data.sizes import draw_sizes
from pflrepro.data.specs import (
    Counts,
    File,
    Group,
    GroupClasses,
    GroupDirichlet,
    Iid,
    PapersDirichlet,
    PapersPathological,
    Spec,
)
from pflrepro.errors import CorruptFile, UserError
from pflrepro.randomness import generator

Sides = tuple[list[Tensor], list[Tensor]]


def divide(
    spec: Spec, labels: Tensor, clients: int | None, seed: int, groups: Tensor | None, min_size: int, test_share: float
) -> Sides:
    """Training and test rows of each client; the arguments are those of `partition`, checked one by one already."""
    total, chosen = clients, None
    if spec.choice:
        if clients is None:
            raise UserError(f"partition '{spec}' needs the number of clients to choose")
        if spec.total is not None and clients > spec.total:  # said before a long division
            raise too_many(spec, clients, spec.total)
        total, chosen = spec.total, clients
    sides = choose(spec, _among_all(spec, labels, total, seed, groups, min_size, test_share), chosen, seed)
    if min_size > 0 and not isinstance(spec, File):
        _refuse_untrained(spec, sides, test_share)
    return sides


def _among_all(
    spec: Spec, labels: Tensor, clients: int | None, seed: int, groups: Tensor | None, min_size: int, test_share: float
) -> Sides:
    """The same before any option of the specification applies."""
    is_test = None
    if isinstance(spec, Group | GroupClasses | Counts | File):
        client, clients, is_test = _given(spec, labels, clients, seed, groups)
        if min_size > 0:
            _refuse_empty(spec, client, clients)
    else:
        clients = _possible(spec, len(labels), clients, min_size)
        if isinstance(spec, PapersDirichlet | PapersPathological):
            return _papers(spec, labels, clients, seed, min_size, test_share)
        if isinstance(spec, Iid):
            client = _equal_numbers(labels, clients, seed)
        elif isinstance(spec, GroupDirichlet):
            client = _within_groups(spec, labels, clients, seed, groups, min_size)
        else:
            sizes = draw_sizes(spec, torch.bincount(labels).cpu().numpy(), clients, seed, min_size)
            client = _by_class(labels, sizes, seed)
    if is_test is None:
        is_test = _random_test_rows(spec, client, clients, labels, seed, test_share)
    return _sides(client, is_test, clients)


def as_integers(name: str, values: Any, device: torch.device | None) -> Tensor:
    """`values` as an int64 vector on `device` (None: where they are); raises `UserError` for anything else."""
    try:
        tensor = torch.as_tensor(values, device=device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UserError(f"{name} must be a vector of whole numbers: {error}") from None
    if tensor.ndim != 1 or tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
        raise UserError(f"{name} must be a vector of whole numbers, not {tensor.dtype} of shape {tuple(tensor.shape)}")
    return tensor.to(torch.int64)


def _possible(spec: Spec, samples: int, clients: int | None, min_size: int) -> int:
    if clients is None:
        raise UserError(f"partition '{spec}' needs the number of clients")
    if clients > samples:
        raise UserError(f"clients must be <= {samples}, the number of samples, not {clients}")
    if min_size * clients > samples and not isinstance(spec, PapersPathological):
        raise UserError(
            f"{clients} clients with min_size = {min_size} samples each need {min_size * clients:,} samples; there are {samples:,}"
        )
    return clients


# ---- rows -> clients ---------------------------------------------------------------------------------------------------------


def _shuffled(count: int, purpose: str, seed: int, device: torch.device, stream: int = 0) -> Tensor:
    """A random order of 0 .. count-1, drawn on the host."""
    return torch.from_numpy(generator(seed, purpose, client=stream).permutation(count)).to(device)


def _equal_numbers(labels: Tensor, clients: int, seed: int) -> Tensor:
    samples = len(labels)
    client = torch.empty_like(labels)
    place = torch.arange(samples, device=labels.device)
    client[_shuffled(samples, "partition/order", seed, labels.device)] = place * clients // samples
    return client


def _by_class(labels: Tensor, sizes: np.ndarray, seed: int, stream: int = 0) -> Tensor:
    """Give client i `sizes[i, k]` random rows of class k; the rest stays unused (-1)."""
    clients, classes = sizes.shape
    available = torch.bincount(labels, minlength=classes).cpu().numpy()
    for label in np.flatnonzero(sizes.sum(0) > available[:classes]):
        wanted = int(sizes[:, label].sum())
        raise UserError(
            f"the counts ask for {wanted:,} samples of class {label}; the data set has {available[label]:,}"
        )
    cells = np.zeros((len(available), clients + 1), dtype=np.int64)
    cells[:classes, :clients] = sizes.T
    cells[:, clients] = available - cells.sum(1)
    owners = torch.cat([torch.arange(clients), torch.tensor([-1])]).repeat(len(available)).to(labels.device)
    order = _shuffled(len(labels), "partition/order", seed, labels.device, stream)
    order = order[torch.argsort(labels[order], stable=True)]  # class by class, in random order within each
    client = torch.empty_like(labels)
    client[order] = owners.repeat_interleave(torch.from_numpy(cells.reshape(-1)).to(labels.device))
    return client


def _random_test_rows(spec: Spec, client: Tensor, clients: int, labels: Tensor, seed: int, test_share: float) -> Tensor:
    """Choose n_i - floor((1 - test_share) n_i) random rows of every client i, or `_stratum` of each of its classes."""
    cell, cells, held_out = client, clients, lambda size: size - recipes.train_size(size, test_share)
    if spec.stratified:
        classes = int(labels.max()) + 1
        cell, cells = torch.where(client < 0, -1, client * classes + labels), clients * classes
        held_out = partial(_stratum, test_share=test_share)
    order = _shuffled(len(cell), "partition/split", seed, cell.device)
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


# ---- given partitions --------------------------------------------------------------------------------------------------------


def _given(
    spec: Group | GroupClasses | Counts | File, labels: Tensor, clients: int | None, seed: int, groups: Tensor | None
) -> tuple[Tensor, int, Tensor | None]:
    """Client of every row, number of clients, and the given test rows if there are any."""
    is_test = None
    if isinstance(spec, Group):
        client, found = _by_group(spec, labels, groups)
    elif isinstance(spec, GroupClasses):
        client, found = _by_group_and_class(spec, labels, groups)
    elif isinstance(spec, Counts):
        sizes = read_counts(spec.source) if spec.is_file else published_counts(spec.source)
        client, found = _by_class(labels, sizes, seed), len(sizes)
    else:
        client, is_test, found = _from_file(Path(spec.path), len(labels))
        client, is_test = client.to(labels.device), is_test.to(labels.device)
    if clients is not None and clients != found:
        choosable = isinstance(spec, Group | GroupClasses) and not spec.choice and clients < found
        some = f"; {clients} of them, drawn at random: {spec}+of=all" if choosable else ""
        raise UserError(f"partition '{spec}' has {found} clients, not {clients}{some}")
    return client, found, is_test


def _numbered(spec: Spec, labels: Tensor, groups: Tensor | None) -> tuple[Tensor, int]:
    """Group of every row, counted from 0 in the order of the group numbers, and how many there are."""
    if groups is None:
        raise UserError(
            f"partition '{spec}' needs a data set with groups (writers, patients, users, domains); this one has none"
        )
    if groups.shape != labels.shape:
        raise UserError(f"there are {len(groups):,} groups for {len(labels):,} samples")
    known, group = torch.unique(groups, return_inverse=True)
    return group, len(known)


def _by_group(spec: Group, labels: Tensor, groups: Tensor | None) -> tuple[Tensor, int]:
    group, found = _numbered(spec, labels, groups)
    large = torch.bincount(group, minlength=found) >= spec.least
    if not large.any():
        raise UserError(f"partition '{spec}': no group has {spec.least:,} samples")
    place = torch.where(large, large.cumsum(0) - 1, -1)
    return place[group], int(large.sum())


def _by_group_and_class(spec: GroupClasses, labels: Tensor, groups: Tensor | None) -> tuple[Tensor, int]:
    """Blocks of consecutive classes, the first ones larger by one where the classes do not divide evenly."""
    group, found = _numbered(spec, labels, groups)
    classes = int(labels.max()) + 1
    if spec.parts > classes:
        raise UserError(f"K in {spec.kind}:K must be <= {classes}, the number of classes, not {spec.parts}")
    block = np.repeat(np.arange(spec.parts), [len(part) for part in np.array_split(np.arange(classes), spec.parts)])
    return group * spec.parts + torch.from_numpy(block).to(labels.device)[labels], found * spec.parts


def _within_groups(
    spec: GroupDirichlet, labels: Tensor, clients: int, seed: int, groups: Tensor | None, min_size: int
) -> Tensor:
    """Client of every row: the first clients hold the first group, and so on; the draws of the groups are independent."""
    group, found = _numbered(spec, labels, groups)
    each, rest = divmod(clients, found)
    if rest:
        raise UserError(f"partition '{spec}' needs a multiple of {found} clients, the number of groups, not {clients}")
    client = torch.empty_like(labels)
    rows = torch.argsort(group, stable=True).split(torch.bincount(group).tolist())
    for number, members in enumerate(rows):
        _possible(spec, len(members), each, min_size)
        own = labels[members]
        sizes = draw_sizes(spec, torch.bincount(own).cpu().numpy(), each, seed, min_size, stream=number)
        client[members] = number * each + _by_class(own, sizes, seed, stream=number)
    return client


def _from_file(path: Path, samples: int) -> tuple[Tensor, Tensor, int]:
    try:
        members = read_members(path, ("client", "is_test"))
    except FileNotFoundError:
        raise UserError(f"there is no partition file {path}") from None
    client, is_test = members["client"], members["is_test"]
    for key, values, kinds in (("client", client, "iu"), ("is_test", is_test, "biu")):
        if values.ndim != 1 or values.dtype.kind not in kinds:
            raise CorruptFile(f"{path}: '{key}' has dtype {values.dtype} and shape {values.shape}, not one entry a row")
        if len(values) != samples:
            raise CorruptFile(f"{path}: '{key}' has {len(values):,} entries; the data set has {samples:,} rows")
    if not np.isin(is_test, (0, 1)).all():
        raise CorruptFile(f"{path}: 'is_test' has values other than 0 and 1")
    low, high = int(client.min()), int(client.max())
    if low < -1 or high < 0 or high >= samples:
        raise CorruptFile(
            f"{path}: 'client' has values from {low} to {high}; expected -1 (unused) or 0 .. {samples - 1}"
        )
    return torch.from_numpy(client.astype(np.int64)), torch.from_numpy(is_test.astype(bool)), high + 1


def _refuse_empty(spec: Spec, client: Tensor, clients: int) -> None:
    empty = (torch.bincount(client + 1, minlength=clients + 1)[1:] == 0).nonzero().flatten().tolist()
    if empty:
        raise UserError(
            f"partition '{spec}' leaves {len(empty)} of {clients} clients without samples, client {empty[0]} first; "
            "min_size = 0 allows that"
        )


def _refuse_untrained(spec: Spec, sides: Sides, test_share: float) -> None:
    """No client with test samples alone, unless that is asked for."""
    train, test = sides
    idle = [client for client, (own, held) in enumerate(zip(train, test, strict=True)) if len(held) and not len(own)]
    if idle:
        enough = next(size for size in count(2) if recipes.train_size(size, test_share))
        other = f"{spec.kind}:{enough} leaves such groups out, and " if isinstance(spec, Group) else ""
        raise UserError(
            f"partition '{spec}' leaves {len(idle)} of {len(train)} clients without training samples, client {idle[0]} first, which "
            f"has {len(test[idle[0]])} in all; {other}min_size = 0 allows clients that are only tested"
        )


# ---- the papers' own partitions ----------------------------------------------------------------------------------------------


def _papers(
    spec: PapersDirichlet | PapersPathological,
    labels: Tensor,
    clients: int,
    seed: int,
    min_size: int,
    test_share: float,
) -> Sides:
    """The legacy recipes run on the host; only their result is moved."""
    host = labels.cpu().numpy()
    random = recipes.legacy_generator(seed)
    if isinstance(spec, PapersDirichlet):
        parts = recipes.practical(host, clients, spec.alpha, min_size, random)
    else:
        if spec.labels > host.max() + 1:
            raise UserError(f"K in {spec.kind}:K must be <= {host.max() + 1}, the number of classes, not {spec.labels}")
        parts = recipes.pathological(host, clients, spec.labels, min_size, random)
    train, test = recipes.split(parts, test_share, random)
    return tuple([torch.from_numpy(rows).to(labels.device) for rows in side] for side in (train, test))
