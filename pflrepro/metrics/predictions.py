"""What the models of a simulation predict: every client's model on its own test part and on all clients' together.

    simulation = pflrepro.simulate(experiment)
    before, after = predict(simulation), predict(simulation, after=True)

One pass of all N models over the pooled test set gives everything; a client's own part is a slice of it. What is the same for all
clients (FedAvg's model, FedPer's base) goes through once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from pflrepro.errors import UserError
from pflrepro.markup import BriefArrays
from pflrepro.metrics.classification import predicted_labels
from pflrepro.simulation.inspection import ROWS, ClientModel, check_replica, client_models, samples
from pflrepro.simulation.memory_order import fast_layout
from pflrepro.simulation.simulation import Simulation
from pflrepro.trees import Tree

MEMORY = 1 << 30  # bytes of activations that one pass of all models at once may take
GLOBAL = -1  # the "client" whose model is the server's


@dataclass(frozen=True, eq=False, repr=False)
class Predictions(BriefArrays):
    """What the models of N clients give on n pooled test samples of C classes; arrays on the host, in the clients' order.

    Attributes:
        classes: C.
        after: whether the clients' models are those after a further local training.
        labels: [n] of the pooled test set: the clients' test parts one after the other (a sample that two clients are tested on is
            there twice).
        owner: [n] whose test part a sample is of.
        own_scores: [n, C] each sample's scores by its owner's model.
        pooled: int32 [N, n], what every client's model predicts for every sample.
        ensemble: [n, C] the mean over all N models of their softmax outputs (GRP-FED only says that outputs are ensembled [?]).
        global_scores: [n, C] of the server's model, as received before the training; None where the method has none.
        clients: N.
    """

    classes: int
    after: bool
    labels: np.ndarray
    owner: np.ndarray
    own_scores: np.ndarray
    pooled: np.ndarray
    ensemble: np.ndarray
    global_scores: np.ndarray | None
    clients: int

    @cached_property
    def parts(self) -> tuple[slice, ...]:
        """Where each client's own test part lies in the pooled arrays; empty for a client without test samples."""
        bounds = np.searchsorted(self.owner, np.arange(self.clients + 1))
        return tuple(slice(int(a), int(b)) for a, b in pairwise(bounds))

    @property
    def own_predicted(self) -> np.ndarray:
        """[n] what each sample's owner predicts."""
        return predicted_labels(self.own_scores)


def predict(simulation: Simulation, index: int = 0, *, after: bool = False) -> Predictions:
    """The predictions of the clients' models of seed number `index`, as the method tests them (see `client_models`).

    Raises `UserError` if no client has test samples.

    Args:
        after: False, before local training (adapted where the method adapts); True, after a further round's local training, run on
            copies.

    Example:
        >>> import pflrepro
        >>> experiment = pflrepro.Experiment.for_dataset("fedavg", "digits", clients=3, rounds=2)
        >>> simulation = pflrepro.simulate(experiment, rounds=1, workers=1)
        >>> found = predict(simulation)
        >>> found.own_scores.shape == (len(found.labels), 10), found.pooled.shape == (3, len(found.labels))
        (True, True)
        >>> int((found.own_predicted == found.labels).sum() - simulation.history(0)["correct"][-1].sum())
        0
    """
    check_replica(simulation, index)
    sizes = simulation.federation.sizes("test")
    if not sizes.sum():
        raise UserError("no client has test samples: there is nothing to predict")
    models = client_models(simulation, index, after)
    x, y = samples(simulation)
    owner = np.repeat(np.arange(len(models)), sizes)
    with torch.no_grad():
        own, pooled, mean = _pooled(models, x, owner, simulation.activations)
        server = global_model(models)
        whole = None if server is None else server.scores(x).cpu().numpy()
    return Predictions(
        classes=simulation.task.classes,
        after=after,
        labels=y.cpu().numpy(),
        owner=owner,
        own_scores=own,
        pooled=pooled,
        ensemble=mean,
        global_scores=whole,
        clients=len(models),
    )


def global_model(models: Sequence[ClientModel]) -> ClientModel | None:
    """The server's model among what the clients received; None where the method has none.

    That is base and head where the server holds both; personal additions to them (FedRoD's second head, DBE's bias) are zero, as a
    new client's [DBE, new participants]. None too where the network's running statistics are kept by clients, who then share no model.
    """
    first = models[0]
    program, received = first.program, first.received
    held = first.context.pick(received.common.get("params", Tree()), "shared", "frozen")
    network = (program.task.base, program.task.head)
    if not {"base", "head"} <= set(held) or (any(p.has_buffers for p in network) and not received.buffers.has_leaves()):
        return None
    personal = first.context.pick(first.params.only(program.kinds), "personal").map(torch.zeros_like)
    role = program.method.roles[-1]
    return replace(
        first,
        client=GLOBAL,
        params=fast_layout(personal | held),
        statistics=Tree({role: received.buffers}) if received.buffers.has_leaves() else Tree(),
        row=first.row | Tree(info=first.row.info.map(torch.zeros_like)),
    )


def _pooled(
    models: Sequence[ClientModel], x: Tensor, owner: np.ndarray, activations: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(the owners' scores [n, C], all models' predictions [N, n], the ensemble [n, C]), gathered chunk by chunk."""
    whose = torch.as_tensor(owner, device=x.device)
    gathered: list[tuple[np.ndarray, ...]] = []
    start = 0
    for scores in _chunks(models, x, activations):  # [N, b, C]
        part = whose[start : start + scores.shape[1]]
        start += scores.shape[1]
        own = scores[part, torch.arange(len(part), device=x.device)]
        found = (own, scores.argmax(-1).to(torch.int32), scores.softmax(-1).mean(0))
        gathered.append(tuple(each.cpu().numpy() for each in found))
    own, predicted, mean = zip(*gathered, strict=True)
    return np.concatenate(own), np.concatenate(predicted, 1), np.concatenate(mean)


def _chunks(models: Sequence[ClientModel], x: Tensor, activations: int) -> Iterator[Tensor]:
    together, shared = stacked_scores(models)
    if x.device.type == "cpu" and not shared:
        # Convolutions with a weight a client take three times as long as one model after the other (measured, cnn4).
        fast = [_fast(model) for model in models]
        for part in x.split(ROWS):
            yield torch.stack([model.scores(part) for model in fast])
        return
    copies = 1 if shared else len(models)
    rows = max(1, min(ROWS, MEMORY // max(1, copies * activations * x.element_size())))
    for part in x.split(rows):
        yield together(part)


def stacked_scores(models: Sequence[ClientModel]) -> tuple[Callable[[Tensor], Tensor], bool]:
    """(a function x [b, ...] -> scores [N, b, C] of all models in one call, whether the base is one copy for all of them).

    Parameters and statistics that are the same tensors in all models are not stacked, so that what only depends on them is
    computed once.
    """
    first = models[0]
    trees = [Tree(params=model.params, statistics=model.statistics, info=model.row.info).flat() for model in models]
    same = {path for path, leaf in trees[0].items() if all(_is(tree[path], leaf) for tree in trees)}
    shared = fast_layout(Tree.of_paths({path: trees[0][path] for path in same}))
    index = torch.arange(len(models), device=next(iter(trees[0].values())).device)

    def one(leaves: dict[str, Tensor], _: Tensor, x: Tensor) -> Tensor:
        tree = Tree(params=Tree(), statistics=Tree(), info=Tree()) | shared | Tree.of_paths(leaves)
        model = replace(
            first, params=tree.params, statistics=tree.statistics, row=first.row | Tree(info=tree.info), client=GLOBAL
        )
        return first.program.method.predict(model.params, x, model.context)

    @cache  # stacked when it is first called: a CPU takes one model after the other
    def own() -> dict[str, Tensor]:
        return {path: torch.stack([tree[path] for tree in trees]) for path in trees[0] if path not in same}

    def together(x: Tensor) -> Tensor:
        return vmap(one, in_dims=(0, 0, None))(own(), index, x)

    base = {path for path in trees[0] if path.startswith(("params/base/", "statistics/"))}
    return together, base <= same


def _is(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors are the same numbers in memory."""
    return a is b or (
        a.numel() > 0 and a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride()
    )


def _fast(model: ClientModel) -> ClientModel:
    return replace(model, params=fast_layout(model.params))
