"""How many samples of each class every client of a label-skewed partition gets: host draws from class sizes alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pflrepro.data import recipes
from pflrepro.data.specs import Dirichlet, FixedSize, Lda, LdaFlat, LongTail, LongTailGeometric, Pathological, Spec
from pflrepro.errors import UserError
from pflrepro.randomness import generator


def draw_sizes(
    spec: Spec, class_sizes: np.ndarray, clients: int, seed: int, min_size: int, *, stream: int = 0
) -> np.ndarray:
    """Samples of each client and class, int64 [N, C]; at most `spec.attempts` draws until the smallest client has `min_size`.

    class_sizes: samples of each class. stream: tells draws of one seed apart (groups that are divided one by one).
    Raises `UserError` for an impossible request.
    """
    random = generator(seed, "partition/sizes", client=stream)
    attempt = _drawing(spec, class_sizes, clients, random)
    best = -1
    for _ in range(spec.attempts):
        sizes = attempt()
        smallest = int(sizes.sum(1).min())
        if smallest >= min_size:
            return sizes
        best = max(best, smallest)
        if isinstance(spec, Lda | FixedSize | LongTail):  # the next draw would have the same sizes
            raise UserError(
                f"'{spec}' among {clients} clients gives the smallest {smallest} samples, fewer than min_size = {min_size}"
            )
    raise recipes.too_small(f"'{spec}'", clients, min_size, best, spec.attempts)


def _drawing(
    spec: Spec, class_sizes: np.ndarray, clients: int, random: np.random.Generator
) -> Callable[[], np.ndarray]:
    if isinstance(spec, FixedSize):
        return lambda: _fixed_size(class_sizes, clients, spec.alpha, spec.size, random)
    if isinstance(spec, Lda):
        return lambda: _lda(class_sizes, clients, spec.alpha, isinstance(spec, LdaFlat), random)
    if isinstance(spec, LongTail):
        return lambda: _long_tail(spec, class_sizes, clients, random)
    if isinstance(spec, Dirichlet):
        return _dirichlet(class_sizes, clients, spec.alpha, random)
    if isinstance(spec, Pathological):
        return _pathological(class_sizes, clients, spec.labels, random)
    raise TypeError(f"no sizes for a partition of kind {spec.kind!r}")


# ---- class by class over the clients -----------------------------------------------------------------------------------------


def _slices(shares: np.ndarray, total: int) -> np.ndarray:
    """Cut `total` samples at floor(cumsum(shares) total); the last share takes the rest."""
    cuts = np.floor(np.cumsum(shares)[:-1] * total).astype(np.int64)
    return np.diff(np.concatenate([[0], np.minimum(cuts, total), [total]]))


def _dirichlet(
    class_sizes: np.ndarray, clients: int, alpha: float, random: np.random.Generator
) -> Callable[[], np.ndarray]:
    """Class by class, shares ~ Dirichlet(alpha) over the clients that hold fewer than n/N samples so far.

    A Dirichlet draw restricted to some of its entries and renormalised is a Dirichlet draw over these, so this is the papers' rule
    (draw for all, set the full clients to zero, renormalise) without its division by zero. [LIB-era], [pFedFDA-code]
    """
    total = int(class_sizes.sum())

    def attempt() -> np.ndarray:
        sizes = np.zeros((clients, len(class_sizes)), dtype=np.int64)
        held = np.zeros(clients, dtype=np.int64)
        for label in np.flatnonzero(class_sizes):
            open_ = np.flatnonzero(held * clients < total)
            sizes[open_, label] = _slices(_shares(np.full(len(open_), alpha), random), int(class_sizes[label]))
            held += sizes[:, label]
        return sizes

    return attempt


def _shares(concentration: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """A Dirichlet draw; where it leaves the range of numbers, its limit for small concentrations: all of it in one place."""
    shares = random.dirichlet(concentration)
    if abs(shares.sum() - 1) < 1e-6:
        return shares
    shares = np.zeros(len(concentration))
    if np.ptp(concentration) == 0:
        shares[random.integers(len(shares))] = 1.0
    else:
        shares[random.choice(len(shares), p=concentration / concentration.sum())] = 1.0
    return shares


def _pathological(
    class_sizes: np.ndarray, clients: int, labels_a_client: int, random: np.random.Generator
) -> Callable[[], np.ndarray]:
    """Every client holds exactly `labels_a_client` classes, every class has an equal number of holders (up to one).

    The classes, in random order and repeated, are dealt to the clients in random order. A class is cut at uniformly random points
    (Dirichlet(1)), after each of its q holders got floor(n_k / (10 q)) samples, at least 1 (the papers' lower bound).
    """
    present = np.flatnonzero(class_sizes)
    if labels_a_client > len(present):
        raise UserError(f"K in pathological:K must be <= {len(present)}, the number of classes, not {labels_a_client}")
    if clients * labels_a_client < len(present):
        raise UserError(
            f"{clients} clients with {labels_a_client} classes each leave {len(present) - clients * labels_a_client} of "
            f"{len(present)} classes unassigned; use more clients or a larger K"
        )
    deck = random.permutation(present)[np.arange(clients * labels_a_client) % len(present)]
    hands = deck.reshape(clients, labels_a_client)[random.permutation(clients)]
    holders = {label: np.flatnonzero((hands == label).any(1)) for label in present}
    for label, who in holders.items():
        if class_sizes[label] < len(who):
            raise UserError(
                f"class {label} has {class_sizes[label]} samples, too few for the {len(who)} clients that must hold it"
            )

    def attempt() -> np.ndarray:
        sizes = np.zeros((clients, len(class_sizes)), dtype=np.int64)
        for label, who in holders.items():
            low = max(1, int(class_sizes[label]) // (10 * len(who)))
            rest = int(class_sizes[label]) - low * len(who)
            sizes[who, label] = low + _slices(_shares(np.ones(len(who)), random), rest)
        return sizes

    return attempt


# ---- client by client over the classes ---------------------------------------------------------------------------------------


def _lda(class_sizes: np.ndarray, clients: int, alpha: float, flat: bool, random: np.random.Generator) -> np.ndarray:
    """FedBR's split [FedBR-code]: floor(n/N) samples for client after client, q ~ Dirichlet over the classes that are left.

    Concentration: alpha times the distribution of the remaining samples, or alpha for every class (`flat`).
    """
    left = class_sizes.astype(np.int64)
    sizes = np.zeros((clients, len(left)), dtype=np.int64)
    for client in range(clients):
        open_ = np.flatnonzero(left)
        share = np.ones(len(open_)) if flat else left[open_] / left.sum()
        prior = np.zeros(len(left))
        prior[open_] = _shares(alpha * share, random)
        sizes[client] = _draw_classes(prior, int(class_sizes.sum()) // clients, left, alpha, flat, random)
        left -= sizes[client]
    return sizes


def _draw_classes(
    prior: np.ndarray, wanted: int, left: np.ndarray, alpha: float, flat: bool, random: np.random.Generator
) -> np.ndarray:
    """`wanted` samples drawn one by one, class ~ prior, without replacement; an exhausted class leaves the prior.

    Drawing many at once, keeping what there is and drawing the rest anew from the classes that are left is the same distribution.
    Where all of the prior's mass lies on exhausted classes, a new prior is drawn over the others.
    """
    taken = np.zeros_like(left)
    while (missing := wanted - int(taken.sum())) > 0:
        prior = np.where(taken < left, prior, 0.0)
        if not prior.sum() > 0:
            open_ = np.flatnonzero(taken < left)
            rest = (left - taken)[open_]
            prior[open_] = _shares(alpha * (np.ones(len(open_)) if flat else rest / rest.sum()), random)
        taken = np.minimum(taken + random.multinomial(missing, prior / prior.sum()), left)
    return taken


def _fixed_size(
    class_sizes: np.ndarray, clients: int, alpha: float, size: int, random: np.random.Generator
) -> np.ndarray:
    """`size` samples a client [pFedFDA-code]: one by one a random client that is not full draws a class from its prior.

    Exhausted classes are drawn again, which is a draw from the prior without them. A client whose whole prior lies on exhausted
    classes takes any other with equal chance (the code lowers the size for all instead, after 1,000 failures).
    """
    needed, present = clients * size, np.flatnonzero(class_sizes)
    if needed > class_sizes.sum():
        raise UserError(
            f"{clients} clients with {size} samples each need {needed:,} samples; there are {class_sizes.sum():,}"
        )
    left, sizes = class_sizes.astype(np.int64), np.zeros((clients, len(class_sizes)), dtype=np.int64)
    priors = np.zeros((clients, len(class_sizes)))
    priors[:, present] = [_shares(np.full(len(present), alpha), random) for _ in range(clients)]
    cumulative, unfilled, lacks = _cumulative(priors, left), list(range(clients)), [size] * clients
    for pick, place in random.random((needed, 2)):
        position = int(pick * len(unfilled))
        client = unfilled[position]
        label = int(np.searchsorted(cumulative[client], place * cumulative[client, -1], side="right"))
        sizes[client, label] += 1
        left[label] -= 1
        if not left[label]:
            cumulative = _cumulative(priors, left)
        lacks[client] -= 1
        if not lacks[client]:
            unfilled[position] = unfilled[-1]
            unfilled.pop()
    return sizes


def _cumulative(priors: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Cumulated priors [N, C] without exhausted classes; uniform over the rest where nothing is left of a prior."""
    masked = np.where(left > 0, priors, 0.0)
    masked = np.where(masked.sum(1, keepdims=True) > 0, masked, left > 0)
    return np.cumsum(masked, axis=1)


# ---- long-tailed clients -----------------------------------------------------------------------------------------------------


def _long_tail(spec: LongTail, class_sizes: np.ndarray, clients: int, random: np.random.Generator) -> np.ndarray:
    """GRP-FED's clients [?]: for client after client, classes in a random order, shares proportional to tau^position.

    A class that runs out passes its deficit to the client's next classes in its order, in circles; all samples are used.
    """
    total, left = int(class_sizes.sum()), class_sizes.astype(np.int64)
    if isinstance(spec, LongTailGeometric):
        wanted = _geometric(total, clients, spec.rho, spec.floor)
    else:
        wanted = _rounded(spec.rho ** (np.arange(clients) / max(clients - 1, 1)), total)
    sizes = np.zeros((clients, len(left)), dtype=np.int64)
    for client in range(clients):
        order = random.permutation(np.flatnonzero(class_sizes))
        profile = _rounded(spec.tau ** np.arange(len(order), dtype=float), int(wanted[client]))
        deficit = 0
        for label, share in [*zip(order, profile, strict=True), *((label, 0) for label in order)]:
            given = min(int(share) + deficit, int(left[label]))
            deficit += int(share) - given
            sizes[client, label] += given
            left[label] -= given
    return sizes


def _rounded(weights: np.ndarray, total: int) -> np.ndarray:
    """`total` shared out in proportion to the weights, in whole numbers that add up (largest remainders first)."""
    exact = weights / weights.sum() * total
    whole = np.floor(exact).astype(np.int64)
    whole[np.argsort(whole - exact, kind="stable")[: total - int(whole.sum())]] += 1
    return whole


def _geometric(total: int, clients: int, rho: float, floor: int) -> np.ndarray:
    """Sizes proportional to rho^m, but never below `floor`, that add up to `total`."""
    if clients * floor > total:
        raise UserError(
            f"{clients} clients with {floor} samples each need {clients * floor:,} samples; there are {total:,}"
        )
    weights = rho ** np.arange(clients, dtype=float)
    for above in range(clients, 0, -1):  # the first `above` clients lie above the floor
        rest = total - floor * (clients - above)
        if rest * weights[above - 1] >= floor * weights[:above].sum():
            break
    return np.concatenate([_rounded(weights[:above], rest), np.full(clients - above, floor, dtype=np.int64)])
