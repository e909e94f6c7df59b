"""The state of one seed: the server, the clients' stores, the scores so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.task import Setup
from pflrepro.simulation.failing import tree_of
from pflrepro.simulation.memory import Place
from pflrepro.simulation.program import LOSSES, buffer_places
from pflrepro.trees import Tree, stack

TIMES = ("seconds", "seconds_aggregation", "seconds_evaluation")
HISTORY = ("round", "correct", "loss", "correct_after", "train_loss", "objective", "participated", *TIMES)
BLOCK = 256  # clients whose first states are stacked at once
# name in a state -> field of a replica; states are kept on disk, so that a name stays what it was
TREES = {"server": "server", "clients": "clients", "averaged": "averaged", "kept": "kept", "held": "absent"}
STORED = ("clients", "kept")  # of these: what lies at a replica's `place`


class Rows:
    """Arrays of one shape, one after the other, in one array that has room for more: what there is is never copied to be looked at."""

    def __init__(self, first: Sequence[np.ndarray] | np.ndarray = ()) -> None:
        self._array, self._count = np.asarray(first), len(first)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[np.ndarray]:
        return iter(self.array)

    def __getitem__(self, place: int | slice) -> np.ndarray:
        return self.array[place]

    def append(self, row: np.ndarray) -> None:
        row = np.asarray(row)
        if self._count == 0:
            self._array = np.empty((0, *row.shape), row.dtype)
        if self._count == len(self._array):
            roomier = np.empty((self._count + self._count // 4 + 8, *row.shape), row.dtype)
            roomier[: self._count] = self._array
            self._array = roomier
        self._array[self._count] = row
        self._count += 1

    @property
    def array(self) -> np.ndarray:
        """All rows [E, ...], to be read; what is appended later does not change it."""
        found = self._array[: self._count]
        found.flags.writeable = False
        return found


@dataclass
class Replica:
    """One seed of a run.

    Attributes:
        server: the server's state.
        clients: every client's persistent state, stacked [N, ...]; its entry `slot` belongs to the places in the cohort instead,
            row k to place k.
        averaged: running statistics that the server averages, by group.
        kept: those that clients keep, role -> group, [N, ...].
        absent: `correct` and `loss` [N] of the model that an absent client last had (with receivers = selected).
        after: correct predictions [N] after each client's last local training, -1 before its first.
        losses: `train_loss` and `objective` [N] of each client's last local training, NaN before its first.
        place: where `clients` and `kept` lie.
        history: the tests so far, by a name of `HISTORY`.
    """

    seed: int
    server: Tree
    clients: Tree
    averaged: Tree
    kept: Tree
    absent: Tree
    after: np.ndarray
    losses: dict[str, np.ndarray]
    place: Place
    history: dict[str, Rows] = field(default_factory=lambda: {name: Rows() for name in HISTORY})

    @classmethod
    def start(cls, method: Method, setup: Setup, statistics: str, place: Place | None = None) -> Replica:
        """The state before round 0; `setup.parts` is the method's layout, `place` (default: the device) where clients' state lies."""
        averaged, kept = buffer_places(method, dict(setup.parts), statistics)
        place = Place(setup.device) if place is None else place
        unknown = torch.full((setup.clients,), -1.0, dtype=setup.dtype, device=setup.device)
        return cls(
            seed=setup.seed,
            server=tree_of(method.init_server(setup), method, "init_server"),
            clients=_filled(
                place,
                setup.clients,
                lambda i: tree_of(method.init_client(setup, setup.info[i]), method, "init_client"),
            ),
            averaged=averaged,
            kept=_filled(place, setup.clients, lambda i: kept),
            absent=Tree(correct=unknown, loss=unknown.clone()),
            after=np.full(setup.clients, -1, dtype=np.int64),
            losses={name: np.full(setup.clients, np.nan) for name in LOSSES},
            place=place,
        )

    def states(self, cohort: Tree, reading: bool = False) -> tuple[Tree, Tree]:
        """The state of each client of `cohort`, with that of the place it has in this round as `slot`, and its running statistics.

        `reading`: they are used before anything is put into the stores, which are not copied then where `cohort` is everyone.
        """
        ids, device = cohort.id, cohort.id.device
        everyone = (
            reading and len(ids) == len(self.after) and bool((ids == torch.arange(len(ids), device=device)).all())
        )

        def of_rows(store: Tree, rows: torch.Tensor, whole: bool = False) -> Tree:
            return store.to(device) if whole else store[rows.to(self.place.device)].to(device)

        own = of_rows(self.clients.without(["slot"]), ids, everyone)
        if "slot" in self.clients:
            own = own | Tree(slot=of_rows(self.clients.slot, cohort.slot))
        return own, of_rows(self.kept, ids, everyone)

    def keep(self, cohort: Tree, changed: Tree, statistics: Tree, absent: Tree) -> None:
        """Put what changed at the clients of `cohort`, their running statistics, and their scores while absent, into their stores.

        In place: a round takes no longer, and no more memory, the more clients are absent from it.
        """
        _put(self.clients, cohort.id, changed.without(["slot"]))
        if "slot" in changed:
            _put(self.clients.slot, cohort.slot, changed.slot)
        _put(self.kept, cohort.id, statistics)
        _put(self.absent, cohort.id, absent)

    @property
    def trees(self) -> dict[str, Tree]:
        """All device state that fixes the future, by its name in a state."""
        return {name: getattr(self, field) for name, field in TREES.items()}

    def state(self) -> dict[str, np.ndarray]:
        """Everything that fixes the future and the history so far, as arrays that the next round does not change."""
        arrays = {"after": self.after.copy()} | {
            f"losses/{name}": values.copy() for name, values in self.losses.items()
        }
        for name, tree in self.trees.items():
            place = self.place if name in STORED else Place(torch.device("cpu"))
            arrays |= {f"{name}/{path}": place.copied(leaf) for path, leaf in tree.flat().items()}
        return arrays | {f"history/{name}": rows.array for name, rows in self.history.items() if rows}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Load what `state` gave over a freshly started replica; `KeyError` or `ValueError` if it does not fit."""
        for name, tree in self.trees.items():
            in_place = name in STORED and self.place.folder is not None
            setattr(self, TREES[name], _loaded(tree, arrays, f"{name}/", in_place))
        self.after = np.array(arrays["after"])
        self.losses = {name: np.array(arrays[f"losses/{name}"]) for name in LOSSES}
        self.history = {name: Rows(arrays.get(f"history/{name}", ())) for name in HISTORY}


@torch.no_grad()
def _put(store: Tree, rows: torch.Tensor, changed: Tree) -> None:
    """Replace `rows` of the entries of a store that changed."""
    for name, value in changed.items():
        if isinstance(value, Tree):
            _put(store[name], rows, value)
        else:
            kept = store[name]
            kept.index_copy_(0, rows.to(kept.device), value.to(kept))


def _filled(place: Place, count: int, row: Callable[[int], Tree]) -> Tree:
    """The trees `row(0)`, `row(1)` ... stacked at `place`: never all of them apart."""
    stacked = place.rows(row(0), count)
    for start in range(0, count, BLOCK):
        block = stack([row(i) for i in range(start, min(start + BLOCK, count))])
        stacked.map(lambda store, rows, start=start: store[start : start + len(rows)].copy_(rows), block)
    return stacked


def _loaded(tree: Tree, arrays: dict[str, np.ndarray], prefix: str, in_place: bool) -> Tree:
    """The leaves of `tree` from `arrays`: new ones, or the old ones with other numbers."""
    result = Tree()
    for name, value in tree.items():
        if isinstance(value, Tree):
            result[name] = _loaded(value, arrays, f"{prefix}{name}/", in_place)
            continue
        given = arrays[f"{prefix}{name}"]
        loaded = torch.as_tensor(given if in_place else np.array(given))
        if loaded.shape != value.shape or loaded.dtype != value.dtype:
            raise ValueError(
                f"{prefix}{name} is {loaded.dtype}{list(loaded.shape)}, not {value.dtype}{list(value.shape)}"
            )
        if in_place:
            np.copyto(value.numpy(), given)  # which may be mapped from any byte of a file on
        result[name] = value if in_place else loaded.to(value.device)
    return result
