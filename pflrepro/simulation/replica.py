"""The state of one seed: the server, the clients' stores, the scores so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.task import Setup
from pflrepro.simulation.program import LOSSES, buffer_places
from pflrepro.trees import Tree, repeat, stack

TIMES = ("seconds", "seconds_aggregation", "seconds_evaluation")
HISTORY = ("round", "correct", "loss", "correct_after", "train_loss", "objective", "participated", *TIMES)
# name in a state -> field of a replica; states are kept on disk, so that a name stays what it was
TREES = {"server": "server", "clients": "clients", "averaged": "averaged", "kept": "kept", "held": "absent"}


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
    history: dict[str, Rows] = field(default_factory=lambda: {name: Rows() for name in HISTORY})

    @classmethod
    def start(cls, method: Method, setup: Setup, statistics: str) -> Replica:
        """The state before round 0; `setup.parts` is the method's layout."""
        averaged, kept = buffer_places(method, dict(setup.parts), statistics)
        clients = stack([method.init_client(setup, setup.info[i]) for i in range(setup.clients)])
        unknown = torch.full((setup.clients,), -1.0, dtype=setup.dtype, device=setup.device)
        return cls(
            seed=setup.seed,
            server=method.init_server(setup),
            clients=clients,
            averaged=averaged,
            kept=repeat(kept, setup.clients),
            absent=Tree(correct=unknown, loss=unknown.clone()),
            after=np.full(setup.clients, -1, dtype=np.int64),
            losses={name: np.full(setup.clients, np.nan) for name in LOSSES},
        )

    def states(self, cohort: Tree) -> Tree:
        """The state of each client of `cohort`, with that of the place it has in this round as `slot`."""
        own = self.clients.without(["slot"])[cohort.id]
        return own | Tree(slot=self.clients.slot[cohort.slot]) if "slot" in self.clients else own

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
            arrays |= {f"{name}/{path}": np.array(leaf.detach().cpu().numpy()) for path, leaf in tree.flat().items()}
        return arrays | {f"history/{name}": rows.array for name, rows in self.history.items() if rows}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Load what `state` gave over a freshly started replica; `KeyError` or `ValueError` if it does not fit."""
        for name, tree in self.trees.items():
            setattr(self, TREES[name], _loaded(tree, arrays, f"{name}/"))
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
            store[name].index_copy_(0, rows, value.to(store[name].dtype))


def _loaded(tree: Tree, arrays: dict[str, np.ndarray], prefix: str) -> Tree:
    result = Tree()
    for name, value in tree.items():
        if isinstance(value, Tree):
            result[name] = _loaded(value, arrays, f"{prefix}{name}/")
            continue
        loaded = torch.as_tensor(np.array(arrays[f"{prefix}{name}"]))
        if loaded.shape != value.shape or loaded.dtype != value.dtype:
            raise ValueError(
                f"{prefix}{name} is {loaded.dtype}{list(loaded.shape)}, not {value.dtype}{list(value.shape)}"
            )
        result[name] = loaded.to(value.device)
    return result
