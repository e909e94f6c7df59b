"""Features of the clients' models: collected at any layer, embedded in a plane, and compared between clients, models and classes.

simulation = pflrepro.simulate(experiment)
before, after = collect(simulation), collect(simulation, after=True)
planes = tsne([before, after])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from pflrepro.errors import UserError, check_range, check_word
from pflrepro.markup import BriefArrays
from pflrepro.metrics.separation import class_separation
from pflrepro.metrics.sets import ROUNDING, LabelledSet, check_features
from pflrepro.models.layers import LOGITS, layer_outputs
from pflrepro.models.split import SplitModel
from pflrepro.randomness import generator
from pflrepro.simulation.inspection import ROWS, ClientModel, check_replica, client_models, samples
from pflrepro.simulation.simulation import Simulation

FEATURES, EMBEDDED = "features", "embedded"
POINTS = 5000  # of a picture, all clients together [inferred; DBE gives no number]


# ---- collecting ----------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False, repr=False)
class Features(BriefArrays):
    """What one layer gives for samples of all clients, each through its own client's model.

    Attributes:
        z: [n, K] on the simulation's device.
        labels, clients: int64 [n], class and client of each sample; clients ascend.
        layer: its name.
        round: rounds finished.
        after: whether after a further local training.
        count: N, the number of clients.
    """

    z: Tensor
    labels: np.ndarray
    clients: np.ndarray
    layer: str
    round: int
    after: bool
    count: int

    def sets(self, seed: int | None = None) -> list[LabelledSet]:
        """One (features, labels) pair a client, as `pflrepro.metrics.mdl.curves` takes them.

        Args:
            seed: of a random order of each client's samples. A probe is validated on the last tenth; partitions other than the
                platform's (`pfllib-*`, which draw an order) keep the data set's, and one that is stored class by class would have
                a class or two there.
        """
        bounds = np.searchsorted(self.clients, np.arange(self.count + 1))
        labels = torch.as_tensor(self.labels)
        found = [(self.z[first:last], labels[first:last]) for first, last in pairwise(bounds.tolist())]
        if seed is None:
            return found
        draws = (generator(seed, "order of a client's samples", client=client) for client in range(self.count))
        return [_shuffled(each, draw) for each, draw in zip(found, draws, strict=True)]

    def pooled(self, seed: int = 0) -> LabelledSet:
        """The features and labels of all clients, in a random order."""
        return _shuffled((self.z, torch.as_tensor(self.labels)), generator(seed, "order of all samples"))


def _shuffled(samples: LabelledSet, draw: np.random.Generator) -> LabelledSet:
    """The samples in a random order."""
    z, labels = samples
    rows = torch.as_tensor(draw.permutation(len(labels)))
    return z[rows.to(z.device)], labels[rows]


def collect(
    simulation: Simulation, layer: str = FEATURES, limit: int | None = POINTS, seed: int = 0, **options: object
) -> Features:
    """`collect_layers` for one layer."""
    return collect_layers(simulation, [layer], limit, seed, **options)[layer]


def collect_layers(
    simulation: Simulation,
    layers: Sequence[str],
    limit: int | None = None,
    seed: int = 0,
    *,
    index: int = 0,
    after: bool = False,
    split: str = "test",
    adapted: bool = True,
) -> dict[str, Features]:
    """What `layers` give for the clients' samples, each sample through its client's model; layer name -> `Features`.

    Args:
        layers: names of `layer_outputs` (behind the position of DBE's bias they contain it), and
            `features`, z^g, the output of the base; `embedded`, what the head is given (z^g + bias in DBE, f^P in GPFL);
            `logits`, the method's scores (FedRoD: the sum of both heads).
        limit: at most so many samples, drawn uniformly without replacement; the same ones at every round and layer. None: all.
        seed: of that draw.
        index: which of the simulation's seeds.
        split: `test` or `train`.
        after: False, as received (B in DBE's figures); True, after a further round's local training, run on copies (A).
        adapted: False leaves out what a method adapts before its tests (FedBABU's fine-tuning; DBE's MDL is taken without it).

    Raises `UserError` for an unknown layer or split, or if no client has samples.

    Example:
        >>> import pflrepro
        >>> experiment = pflrepro.Experiment.for_dataset("fedavg", "digits", clients=3, rounds=2)
        >>> simulation = pflrepro.simulate(experiment, rounds=1, workers=1)
        >>> found = collect_layers(simulation, ["features", "logits"], limit=20)
        >>> found["logits"].z.shape, found["features"].count, len(found["features"].sets())
        (torch.Size([20, 10]), 3, 3)
    """
    check_replica(simulation, index)
    check_word("split", split, ("test", "train"))
    rows = _rows(simulation, split, limit, seed)
    if not sum(map(len, rows)):
        raise UserError(f"no client has samples in its {split} part")
    found: dict[str, list[Tensor]] = {layer: [] for layer in layers}
    labels = []
    for model, chosen in zip(client_models(simulation, index, after, adapted), rows, strict=True):
        if not len(chosen):
            continue
        x, y = simulation.federation.batch(torch.as_tensor(chosen, device=simulation.device), simulation.dtype)
        labels.append(y.cpu().numpy())
        for layer, z in layer_features(model, x, layers).items():
            found[layer].append(z)
    clients = np.repeat(np.arange(len(rows)), [len(part) for part in rows])
    facts = (np.concatenate(labels), clients)
    return {
        layer: Features(torch.cat(parts), *facts, layer, simulation.round, after, len(rows))
        for layer, parts in found.items()
    }


def _rows(simulation: Simulation, split: str, limit: int | None, seed: int) -> list[np.ndarray]:
    """The rows of each client that are looked at, in the order of its split."""
    rows = simulation.federation.rows[split]
    total = sum(map(len, rows))
    if limit is None or total <= check_range("limit", limit, 1, integer=True):
        return list(rows)
    chosen = np.sort(generator(seed, f"representations/{split}").permutation(total)[:limit])
    ends = np.cumsum([len(part) for part in rows])
    parts = np.split(chosen, np.searchsorted(chosen, ends[:-1]))
    return [part[mine - (end - len(part))] for part, mine, end in zip(rows, parts, ends, strict=True)]


def layer_features(model: ClientModel, x: Tensor, layers: Sequence[str]) -> dict[str, Tensor]:
    """[n, ...] flattened to [n, K] of each of `layers` for the samples x, through one client's model; see `collect_layers`."""
    program, method, ctx = model.program, model.program.method, model.context
    params, task = model.params, program.task
    network = SplitModel(task.base.skeleton, task.head.skeleton, task.features)
    found: dict[str, list[Tensor]] = {layer: [] for layer in layers}
    with torch.no_grad():
        for part in x.split(ROWS):
            z = method.forward(params, part, ctx).z
            special = {FEATURES: z, EMBEDDED: method.embed(params, z, ctx), LOGITS: method.predict(params, part, ctx)}
            outputs = special
            if set(layers) - set(special):
                every = layer_outputs(
                    network, params, ctx.buffers, part, lambda z, params=params, ctx=ctx: method.embed(params, z, ctx)
                )
                outputs = every | special
            for layer in layers:
                check_word("layer", layer, outputs)
                found[layer].append(outputs[layer].flatten(1))
    return {layer: torch.cat(parts) for layer, parts in found.items()}


# ---- a plane -------------------------------------------------------------------------------------------------------------------
def tsne(snapshots: Sequence[Features | Tensor], perplexity: float = 30.0, seed: int = 0) -> list[np.ndarray]:
    """t-SNE of all snapshots in one projection: a float64 array [n, 2] for each, from scikit-learn.

    Starts from the first two principal components; `seed` fixes the rest. Raises `UserError` where there are not more samples than
    the perplexity, all samples are equal, or have one number only, and for a seed outside 0..2^32 - 1 (scikit-learn's).

    Args:
        perplexity: 30 [inferred; DBE gives none].

    Example:
        >>> plane = tsne([torch.eye(8), torch.eye(8) + 1.0], perplexity=4.0)
        >>> [each.shape for each in plane]
        [(8, 2), (8, 2)]
    """
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # scikit-learn brings it

    check_range("seed of t-SNE", seed, 0, 2**32 - 1, integer=True)
    parts = [check_features(part.z if isinstance(part, Features) else part) for part in snapshots]
    lengths = sorted({part.shape[1] for part in parts})
    if len(lengths) != 1:
        raise UserError(f"one projection needs features of one length, not {lengths or 'nothing'}")
    if lengths[0] < 2:
        raise UserError("a plane needs features of two numbers or more, not of 1: one number needs no projection")
    joint = torch.cat([part.cpu() for part in parts]).numpy()
    if len(joint) <= check_range("perplexity", perplexity, 1):
        raise UserError(f"t-SNE with perplexity {perplexity:g} needs more samples than that, not {len(joint)}")
    if (joint == joint[0]).all():
        raise UserError("all features are equal: there is nothing to embed")
    with threadpool_limits(1):  # sums in another order would make another plane
        plane = TSNE(2, perplexity=perplexity, init="pca", random_state=seed).fit_transform(joint).astype(np.float64)
    return np.split(plane, np.cumsum([len(part) for part in parts])[:-1])


# ---- between clients -----------------------------------------------------------------------------------------------------------
def fisher_ratio(features: Features) -> np.ndarray:
    """F_ik = (m_ik - m_k)^2 / (v_ik + v_k) of each client i and dimension k, float64 [N, K].

    m, v: mean and population variance over the client's samples, and over all samples pooled. DBE's proofs suggest that it is
    smaller for the z^g of FedAvg+DBE than for FedAvg's z [inferred, as the formula: Fisher's discriminant ratio].
    0 where numerator and denominator are both 0 (or within rounding of the numbers: a constant dimension), infinite where the
    denominator alone is; NaN for a client without samples. `UserError` unless each sample has one client in 0..N-1.

    Example, client means 1 and 5 against 3, variances 1 against 5: 4 / 6:
        >>> z = torch.tensor([[0.0], [2.0], [4.0], [6.0]])
        >>> clients = np.array([0, 0, 1, 1])
        >>> fisher_ratio(Features(z, clients, clients, "features", 0, False, 2)).round(4).tolist()
        [[0.6667], [0.6667]]
    """
    z = check_features(features.z).double().cpu().numpy()
    clients = np.asarray(features.clients)
    if clients.shape != z.shape[:1] or not ((clients >= 0) & (clients < features.count)).all():
        raise UserError(
            f"each of {len(z)} samples needs one client in 0..{features.count - 1}, not clients of shape {list(clients.shape)}"
            + (f" in {clients.min()}..{clients.max()}" if clients.size else "")
        )
    result = np.full((features.count, z.shape[1]), np.nan)
    if not len(z):
        return result
    least = (ROUNDING * np.finfo(z.dtype).eps * abs(z).max(0)) ** 2  # a smaller square is a rounded 0
    mean, variance = z.mean(0), z.var(0)
    for client in np.unique(clients):
        own = z[clients == client]
        squares = (own.mean(0) - mean) ** 2, own.var(0), variance
        above, *variances = (np.where(each > least, each, 0.0) for each in squares)
        below = sum(variances)
        ratio = np.divide(above, below, out=np.full_like(above, np.inf), where=below > 0)
        result[client] = np.where((below == 0) & (above == 0), 0.0, ratio)
    return result


# ---- between models ------------------------------------------------------------------------------------------------
def distance(local: Tensor, reference: Tensor) -> float:
    """mean ||a - b|| / mean ||b|| over samples, of local and global features [n, K] of the same ones; NaN without samples.

    FedBR's observation 3.2: features differ for the same input.

    Example:
        >>> distance(torch.tensor([[0.0, 3.0]]), torch.tensor([[0.0, 1.0]]))
        2.0
    """
    a, b = check_features(local).double(), check_features(reference).double()
    if a.shape != b.shape:
        raise UserError(f"features of the same samples have one shape, not {list(a.shape)} and {list(b.shape)}")
    if not len(a):
        return float("nan")
    apart = float((a - b).norm(dim=1).mean())
    size = float(b.norm(dim=1).mean())
    return apart / size if size > 0 else (0.0 if apart == 0 else float("inf"))


def similarity(one: Tensor, other: Tensor) -> float:
    """The mean cosine over all pairs of samples of two sets, in [-1, 1] (FedBR, observation 3.2: different inputs look too alike).

    = <mean of one's unit vectors, mean of the other's>; NaN if a set is empty. `UserError` for features of unequal length.

    Example:
        >>> similarity(torch.tensor([[2.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.0, 5.0]]))
        0.5
    """
    a, b = check_features(one).double(), check_features(other).double()
    if a.shape[1] != b.shape[1]:
        raise UserError(f"features that are compared have one length, not {a.shape[1]} and {b.shape[1]}")
    return float(_unit(a).mean(0) @ _unit(b).mean(0)) if len(a) and len(b) else float("nan")


def _unit(z: Tensor) -> Tensor:
    return torch.nn.functional.normalize(z, dim=1)


def prediction_shares(scores: Tensor, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """(share of samples predicted as each class, mean softmax output), float64 [C] each (FedBR, observation 3.3 and figure 3).

    scores [n, C], the largest wins; NaN without samples.

    Example:
        >>> shares, chances = prediction_shares(torch.tensor([[9.0, 9.0], [1.0, 1.0]]), classes=2)
        >>> shares.tolist(), chances.tolist()
        ([1.0, 0.0], [0.5, 0.5])
    """
    scores = check_features(scores, "scores").double()
    if scores.shape[1] != classes:
        raise UserError(f"scores of {classes} classes are [n, {classes}], not {list(scores.shape)}")
    if not len(scores):
        return np.full(classes, np.nan), np.full(classes, np.nan)
    counts = torch.bincount(scores.argmax(1), minlength=classes).double() / len(scores)
    return counts.cpu().numpy(), scores.softmax(1).mean(0).cpu().numpy()


@dataclass(frozen=True, eq=False, repr=False)
class LocalBias(BriefArrays):
    """What local training does to a client's model, on all clients' pooled test samples; float64 arrays, one entry a client.

    X_1 are the samples of classes in the client's training part, X_2 those of all others [inferred from BR Figures 2 and 3].

    Attributes:
        distance_own, distance_other: `distance` of local to received features on X_1 and on X_2.
        similarity_before, similarity_after: mean cosine between features of X_1 and X_2, received and local model.
        separation_before, separation_after: `class_separation` of all samples.
        predicted_before, predicted_after: [N, C] shares of predictions over X_2.
        seen_before, seen_after: [N] of these, the share that falls on the client's training classes (FedBR expects all after local
            training).
    """

    distance_own: np.ndarray
    distance_other: np.ndarray
    similarity_before: np.ndarray
    similarity_after: np.ndarray
    separation_before: np.ndarray
    separation_after: np.ndarray
    predicted_before: np.ndarray
    predicted_after: np.ndarray
    seen_before: np.ndarray
    seen_after: np.ndarray


def local_bias(simulation: Simulation, index: int = 0) -> LocalBias:
    """Every client's received model against the same after a further local training; NaN where X_1 or X_2 is empty.

    Example:
        >>> import pflrepro
        >>> experiment = pflrepro.Experiment.for_dataset("fedavg", "digits", clients=3, rounds=2)
        >>> simulation = pflrepro.simulate(experiment, rounds=1, workers=1)
        >>> found = local_bias(simulation)
        >>> found.seen_after.shape, found.predicted_after.shape
        ((3,), (3, 10))
    """
    check_replica(simulation, index)
    x, y = samples(simulation)
    if not len(y):
        raise UserError("no client has samples in its test part")
    held = torch.as_tensor(simulation.federation.counts("train") > 0, device=y.device)
    pairs = zip(client_models(simulation, index), client_models(simulation, index, True), strict=True)
    rows = [_bias_of(before, after, x, y, held[before.client]) for before, after in pairs]
    return LocalBias(**{name: np.array([row[name] for row in rows]) for name in rows[0]})


def _bias_of(before: ClientModel, after: ClientModel, x: Tensor, y: Tensor, held: Tensor) -> dict[str, object]:
    own = held[y]
    row: dict[str, object] = {}
    z = {}
    for when, model in (("before", before), ("after", after)):
        found = layer_features(model, x, [FEATURES, LOGITS])
        z[when] = found[FEATURES]
        row[f"similarity_{when}"] = similarity(z[when][own], z[when][~own])
        row[f"separation_{when}"] = class_separation(z[when], y)
        shares = prediction_shares(found[LOGITS][~own], len(held))[0]
        row[f"predicted_{when}"], row[f"seen_{when}"] = shares, float(shares[held.cpu().numpy()].sum())
    for name, chosen in (("own", own), ("other", ~own)):
        row[f"distance_{name}"] = distance(z["after"][chosen], z["before"][chosen])
    return row
