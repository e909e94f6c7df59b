"""What a method may know: the problem (`Task`), its seeded start (`Setup`), and the moment (`Context`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from pflrepro.algorithms.phases import KINDS, Clock, Part, Phase
from pflrepro.errors import UserError, unknown
from pflrepro.models.initialise import seeded
from pflrepro.models.split import FunctionalModule, parameters_of
from pflrepro.randomness import generator
from pflrepro.trees import Tree


@dataclass(frozen=True)
class Task:
    """The problem without seed and without weights.

    Attributes:
        clients: N.
        classes: C.
        features: K, the length of z.
        largest: training samples of the largest client, on the host.
        info: one row a client: `id` [N], `n` [N] training samples (without the validation share), `counts` [N, C] of the same.
        base, head: the network as functions (params, buffers, x, training) -> (output, buffers).
        local_epochs, local_steps, batch_size, momentum, rounds, participation: the run's settings that a method's formulas may need.
    """

    clients: int
    classes: int
    features: int
    info: Tree
    base: FunctionalModule
    head: FunctionalModule
    largest: int
    local_epochs: int = 1
    batch_size: int = 10
    momentum: float = 0.0
    rounds: int = 1
    participation: float = 1.0
    local_steps: int = 0


@dataclass(frozen=True)
class Setup(Task):
    """A task with one seed's initial weights.

    `parts` holds the network's `base` and `head` in `layout`, and all groups that `layout` named in `init_server`, `init_client`.
    `stream` begins the names of the seed's streams that initial weights are drawn from.
    """

    parts: Mapping[str, Part] = field(default_factory=dict)
    seed: int = 0
    dtype: torch.dtype = torch.float32
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    stream: str = "weights"

    def pick(self, *kinds: str) -> Tree:
        """The initial parameters of the groups that are of one of `kinds`."""
        if not KINDS.issuperset(kinds):
            raise _no_kind(kinds)
        return Tree({group: part.params for group, part in self.parts.items() if part.kind in kinds})

    def module(self, purpose: str, build: Callable[[], nn.Module]) -> Tree:
        """The initial parameters of an extra module, drawn from this seed's stream `purpose`."""
        return parameters_of(seeded(self.seed, f"{self.stream}/{purpose}", build)).to(self.device, self.dtype)

    def perceptron(self, purpose: str, sizes: Sequence[int]) -> Tree:
        """The initial parameters of two or three linear layers between `sizes`, for `models.layers.perceptron`; a stream a layer."""
        pairs = zip(("first", "second", "third"), pairwise(sizes), strict=False)
        return Tree({name: self.module(f"{purpose}/{name}", partial(nn.Linear, *pair)) for name, pair in pairs})

    def normal(self, purpose: str, *shape: int) -> Tensor:
        """Standard normal numbers from this seed's stream `purpose`."""
        values = generator(self.seed, f"{self.stream}/{purpose}").standard_normal(shape)
        return torch.as_tensor(np.asarray(values), dtype=self.dtype, device=self.device)

    def zeros(self, *shape: int) -> Tensor:
        """Zeros of the run's number type, on its device."""
        return torch.zeros(shape, dtype=self.dtype, device=self.device)


class Source(Protocol):
    """What `Method.supply` may draw from: the clients' training samples, and the proxy data of the run where it has some.

    Attributes:
        shape: of one sample as it is trained on.
        classes: C.
        clients: N.
        batch_size: the run's.
        rows: one int64 array of training rows a client.
        labels: the label of every row, on the host.
        proxy_rows: number of proxy samples, 0 without.
    """

    shape: tuple[int, ...]
    classes: int
    clients: int
    batch_size: int
    rows: list[np.ndarray]
    labels: np.ndarray
    proxy_rows: int

    def generator(self, purpose: str, t: int = 0, client: int = 0) -> np.random.Generator:
        """This seed's stream `purpose`."""
        ...

    def tensor(self, values: np.ndarray | Tensor) -> Tensor:
        """Numbers in the run's number type, on its device."""
        ...

    def integers(self, **values: np.ndarray) -> Tree:
        """Whole numbers (row numbers, counts) as a tree on the run's device."""
        ...

    def means(self, rows: np.ndarray) -> Tree:
        """Means of the samples in each line of `rows` [P, M]: `x` [P, ...], and of their one-hot labels: `y` [P, C]."""
        ...

    def proxy_means(self, rows: np.ndarray) -> Tensor:
        """Means of the proxy samples in each line of `rows` [P, M]: [P, ...]."""
        ...


Differentiate = Callable[[Callable[[Tree], tuple[Tensor, Tree]], Tree], tuple[Tree, Tree]]
Settled = Callable[[Tensor], bool]
Each = Callable[[Callable[[Tree, Tensor], Tensor], Tree, Tensor], Tensor]
Samples = Callable[[Tensor], tuple[Tensor, Tensor]]


def never(flag: Tensor) -> bool:
    """The `settled` of a backend that cannot look at one client's numbers."""
    return False


@dataclass(frozen=True)
class Context:
    """The moment in which a function of a method is called, for ONE client.

    Attributes:
        task: the problem.
        kinds: group -> kind, from `layout`.
        common, own: what `send` gave: one copy for all, and this client's row.
        client, info: this client's persistent state and its row of `task.info`, with its `slot` (see `Method.send`).
        steps: phase name -> the number of steps that this client takes in it this round.
        scalars: device scalars: `rate` (the run's learning rate), `t` (the round), `rates` and `decays` of the phase's groups.
        phase: the running phase.
        role: whose gradient is taken (`shared`, `personal`).
        clock: on the host only, else None.
        buffers: group -> running statistics that `forward` reads.
        training: whether batch statistics are used.
        differentiate: (function, params) -> (gradients, out); the backend's way to take a gradient.
            It detaches `params`; for derivatives of derivatives use `torch.func` inside the function.
        key: [2] numbers in [0, 1) that the network's own random draws of this batch follow from; None for a network without any.
        samples: row numbers -> (x, y), training samples of any client as they are trained on (not augmented), by `Source.rows`.
        settled: whether an iteration that would only repeat its result from here on (`flag`) may stop. True only where the backend
            works through one client at a time on the host; elsewhere all steps are taken, with the same result.
        each: (function, rows, shared) -> the function of every row and of `shared`, stacked; the backend's way, at once or one after
            another, for a server that asks all uploads. Its derivative is by `shared` alone, on which the answers depend.
    """

    task: Task
    kinds: Mapping[str, str]
    scalars: Tree
    common: Tree = field(default_factory=Tree)
    own: Tree = field(default_factory=Tree)
    client: Tree = field(default_factory=Tree)
    info: Tree = field(default_factory=Tree)
    steps: Tree = field(default_factory=Tree)
    phase: Phase | None = None
    role: str = "shared"
    clock: Clock | None = None
    buffers: Tree = field(default_factory=Tree)
    training: bool = False
    differentiate: Differentiate | None = None
    samples: Samples | None = None
    settled: Settled = never
    each: Each | None = None
    momentum: Any = None
    key: Tensor | None = None

    def at(self, **changes: Any) -> Context:
        """The same context with some entries changed (`dataclasses.replace`, ten times faster: it is called every step)."""
        other = object.__new__(Context)
        other.__dict__.update(self.__dict__, **changes)
        return other

    def pick(self, params: Tree, *kinds: str) -> Tree:
        """The groups of `params` that are of one of `kinds`."""
        if not KINDS.issuperset(kinds):
            raise _no_kind(kinds)
        return Tree({group: value for group, value in params.items() if self.kinds[group] in kinds})

    def trains(self, group: str) -> bool:
        """Whether `group` trains in this phase."""
        named = self.phase.train if self.phase is not None else None
        return group in named if named is not None else self.kinds[group] in ("shared", "personal")

    def trainable(self, params: Tree) -> Tree:
        """The groups of `params` that train in this phase."""
        return Tree({group: value for group, value in params.items() if self.trains(group)})

    def rate(self, group: str) -> Tensor:
        """The learning rate of `group` in this phase, a device scalar."""
        return self.scalars.rates.get(group, self.scalars.rate)

    def descend(self, local: Tree, grads: Tree, tree: str = "params") -> Tree:
        """One optimiser step on `local[tree]`; what changes in `local`.

        d = g + decay * w;  with momentum m: v <- m v + d, d = v (as torch.optim.SGD);  w <- w - rate * d.
        """
        params, changed = local[tree], Tree()
        decays = self.scalars.decays
        steps = Tree({g: _plus(v, decays[g], params[g]) if g in decays else v for g, v in grads.items()})
        if self.momentum is not None:
            steps = _plus(steps, self.momentum, local.optimiser[tree].only(steps))
            changed = Tree(optimiser=Tree({tree: steps}))
        moved = Tree()
        for group, step in steps.items():
            rate = self.rate(group)
            moved[group] = _plus(params[group], rate, step, sign=-1)
        return changed | Tree({tree: moved})


def _no_kind(kinds: Iterable[str]) -> UserError:
    return next(unknown("kind of group", kind, KINDS) for kind in kinds if kind not in KINDS)


def _plus(tree: Tree, factor: Tensor, other: Tree, sign: int = 1) -> Tree:
    """`tree` + sign * `factor` * `other` in one operation a leaf, in the memory order of `tree`."""
    return tree.map(lambda a, b: torch.addcmul(a, b, factor, value=sign), other)
