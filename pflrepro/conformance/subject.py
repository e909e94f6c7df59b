"""What the checks look at: a method on a made-up federation, and its runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any
from unittest import mock

import numpy as np
import torch

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.registry import build_method
from pflrepro.checked import domains
from pflrepro.data import federation as federation_module
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.models import build_model
from pflrepro.models.split import buffers_of
from pflrepro.randomness import generator
from pflrepro.settings import Settings
from pflrepro.simulation import participants, schedule
from pflrepro.simulation.dispatch import Dispatcher
from pflrepro.simulation.replica import Replica
from pflrepro.simulation.simulation import Simulation
from pflrepro.simulation.source import DataSource, Supplies

SEEDS = (0, 1)
ROUNDS = 3
CLASSES = 6
BATCH = 5
# Five clients: no other axis of the networks and methods has that length, so an axis of length 5 is an axis of clients.
# Labels of each client's training samples; class 5 is in no training part, client 1 has less than a batch, client 2 one class.
TRAIN_LABELS = ("00112233" * 3, "122", "2" * 14, "334444100", "01234" * 6)
TEST_LABELS = ("0123", "1225", "2222", "34410", "")  # the last client has nothing to be tested on
STATE = (
    "server",
    "clients",
    "averaged",
    "kept",
)  # what training leaves behind; the rest of a state is scores and progress

State = dict[str, np.ndarray]


@cache
def federation(order: tuple[int, ...] = tuple(range(len(TRAIN_LABELS)))) -> Federation:
    """The made-up federation: 8x8 images around a centre a class, clients in the given order."""
    return _made_up(TRAIN_LABELS, TEST_LABELS, order)


@cache
def sparse_federation() -> Federation:
    """The same with a client that has nothing to train on, and one that has a single sample and nothing to be tested on."""
    return _made_up((*TRAIN_LABELS, "", "3"), (*TEST_LABELS, "01", ""), tuple(range(len(TRAIN_LABELS) + 2)))


def _made_up(train_labels: Sequence[str], test_labels: Sequence[str], order: Sequence[int]) -> Federation:
    train, test, labels = [], [], []
    for texts, parts in ((train_labels, train), (test_labels, test)):
        for text in texts:
            parts.append(np.arange(len(labels), len(labels) + len(text)))
            labels += [int(label) for label in text]
    draw, y = generator(0, "conformance/data"), np.array(labels)
    centres = draw.standard_normal((CLASSES, 8, 8))
    x = (centres[y] + 0.7 * draw.standard_normal((len(y), 8, 8))).astype(np.float32)
    pick = [train[i] for i in order], [test[i] for i in order]
    return Federation(torch.from_numpy(x), torch.from_numpy(y), *pick, classes=CLASSES, name="conformance")


@dataclasses.dataclass(frozen=True)
class Trace:
    """A run: `states[k][t]` is the state of seed number k after t rounds, `histories[k]` its history."""

    states: list[list[State]]
    histories: list[dict[str, np.ndarray]]
    cohorts: list[list[np.ndarray]]


def _rates(kind: type[Method]) -> list[str]:
    """The options of a method that are learning rates, by their names, and may be 0 (a factor that may not multiplies the run's)."""
    allowed = {name: domain.bounds for name, domain in domains(kind).items() if name.endswith("_rate")}
    return [name for name, bounds in allowed.items() if bounds.low == 0 and not bounds.open_low]


class Subject:
    """A method on one network, and the runs that its checks share.

    Args:
        method: a registered name or `module:Class`, a class, or an instance.
        options: its hyper-parameters.
        model: a name in `pflrepro.models.MODELS`; with batch norm, incomplete batches are dropped.
        zero_rate: options that stop all learning of the method's own, beside the run's rate of 0 and those named `..._rate`.
        moves: entries of the state that a rate of 0 does not hold still, beside those that the method `gathers`: the start of their
            path -> why.
        without: checks that do not apply -> why.

    Raises `UserError` for what is no method, no options or no model.
    """

    def __init__(
        self,
        method: str | type[Method] | Method,
        options: Mapping[str, Any] | None = None,
        model: str = "mlp",
        *,
        zero_rate: Mapping[str, Any] | None = None,
        moves: Mapping[str, str] | None = None,
        without: Mapping[str, str] | None = None,
    ) -> None:
        if not isinstance(method, (str, Method)) and not (isinstance(method, type) and issubclass(method, Method)):
            raise UserError(
                f"a method is a registered name, module:Class, or a Method or a class of it, not {method!r}"
            )
        if not isinstance(options, Mapping | None):
            raise UserError(f"options are a mapping of names to values, not {options!r}")
        self.source, self.options, self.model = method, dict(options or {}), model
        self.without = dict(without or {})
        kind = type(self.method())
        gathered = {path: why for base in kind.__mro__ for path, why in getattr(base, "gathers", {}).items()}
        self.moves = gathered | dict(moves or {})
        self.zero_rate = dict.fromkeys(_rates(kind), 0.0) | dict(zero_rate or {})
        network = build_model(model, (8, 8), CLASSES, 0)
        self.norm = any(buffers_of(part).has_leaves() for part in (network.base, network.head))
        self._traces: dict[Any, Trace] = {}

    def __str__(self) -> str:
        name = (
            self.source
            if isinstance(self.source, str)
            else getattr(self.source, "__name__", type(self.source).__name__)
        )
        options = ",".join(f"{key}={value}" for key, value in self.options.items())
        return f"{name}{f'({options})' if options else ''} on {self.model}"

    def method(self, **changes: Any) -> Method:
        """A fresh instance, with some hyper-parameters changed."""
        options = self.options | changes
        if isinstance(self.source, str):
            return build_method(self.source, options)
        return self.source(**options) if isinstance(self.source, type) else dataclasses.replace(self.source, **options)

    def simulation(self, backend: str = "loop", seeds: Sequence[int] = SEEDS, **changes: Any) -> Simulation:
        """A simulation at its start; `changes` go to the settings, or to the simulation (dtype, chunk, device) or method (options)."""
        given = {name: changes.pop(name) for name in ("chunk", "device", "federation", "kind") if name in changes}
        dtype, options = changes.pop("dtype", "float64"), changes.pop("options", {})
        base = {"participation": 0.6, "batch_size": BATCH, "lr": 0.05, "drop_last": self.norm}
        settings = Settings(ROUNDS, **(base | changes))
        kind, data = given.pop("kind", Simulation), given.pop("federation", None) or federation()
        extra = {"backend": backend, "workers": 1, "dtype": dtype} | given
        return kind(self.method(**options), data, self.model, settings, list(seeds), **extra)

    def trace(self, backend: str = "loop", seeds: Sequence[int] = SEEDS, rounds: int = ROUNDS, **changes: Any) -> Trace:
        """The run with these settings, made once and shared by all checks."""
        key = (backend, tuple(seeds), rounds, tuple(sorted((name, repr(value)) for name, value in changes.items())))
        if key not in self._traces:
            self._traces[key] = run(self.simulation(backend, seeds, **changes), rounds)
        return self._traces[key]

    def forget(self) -> None:
        """Drop the runs made so far."""
        self._traces.clear()


def run(simulation: Simulation, rounds: int) -> Trace:
    """`rounds` rounds, and what there was before, between and after them."""
    count = range(len(simulation.seeds))
    states = [[simulation.state_of(k)] for k in count]
    cohorts = [[simulation.dispatcher.cohort(simulation.replicas[k], t) for t in range(rounds)] for k in count]
    for _ in range(rounds):
        simulation.step()
        for k in count:
            states[k].append(simulation.state_of(k))
    return Trace(states, [simulation.history(k) for k in count], cohorts)


# ---- renumbered clients
@contextmanager
def streams_of(order: Sequence[int]) -> Iterator[None]:
    """Within it, client j draws from the streams of client `order[j]`."""

    @wraps(generator)
    def renumbered(seed: int, purpose: str, round: int = 0, client: int = 0) -> np.random.Generator:
        return generator(seed, purpose, round, order[client])

    with (
        mock.patch.object(schedule, "generator", renumbered),
        mock.patch.object(participants, "generator", renumbered),
        mock.patch.object(federation_module, "generator", renumbered),
    ):
        yield


def renumbered_simulation(order: Sequence[int]) -> type[Simulation]:
    """A simulation whose cohorts are those of the old numbers, and whose supplies are made from the old numbers' data."""

    class RenumberedDispatcher(Dispatcher):
        def cohort(self, replica: Replica, t: int) -> np.ndarray:
            return np.flatnonzero(np.isin(order, super().cohort(replica, t)))

    class Renumbered(Simulation):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            before = federation().hold_out(self.method.holdout)
            source = (before, self.seeds[0], self.dtype, self.settings.batch_size)
            parts = {field.name: getattr(self.dispatcher, field.name) for field in dataclasses.fields(Dispatcher)}
            parts["supplies"] = {self.seeds[0]: Supplies(self.method, DataSource(*source))}
            self.dispatcher = RenumberedDispatcher(**parts)

    return Renumbered


def reordered(value: np.ndarray, order: Sequence[int], name: str) -> np.ndarray:
    """`value` with every axis of clients (all axes of length N) in another order; a history's first axis is its rounds.

    What belongs to the places in the cohort stays: places are assigned by the clients' draws.
    """
    if "/slot/" in name:
        return value
    for axis, length in enumerate(value.shape):
        if length == len(order) and not (name.startswith("history/") and axis == 0):
            value = np.take(value, order, axis=axis)
    return value
