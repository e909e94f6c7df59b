"""The checks that every method passes, callable on a method of one's own.

    from pflrepro import conformance
    conformance.check("my_module:MyMethod", {"strength": 0.5})

A check is a small function of a `Subject` (a method on one network, with its runs so far) that raises `AssertionError`; `CHECKS`
names them all. The federation is made up, five clients of 3 to 30 samples with absent classes, so that a whole suite takes about
a second on the small network. What a check demands is exact unless its docstring states a tolerance.
"""

from __future__ import annotations

import dataclasses
import io
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import cache, wraps
from typing import Any
from unittest import mock

import numpy as np
import torch

from pflrepro.algorithms.contract import Method
from pflrepro.algorithms.registry import build_method
from pflrepro.data import federation as federation_module
from pflrepro.data.federation import Federation
from pflrepro.errors import UserError
from pflrepro.models import build_model
from pflrepro.models.split import buffers_of
from pflrepro.randomness import generator
from pflrepro.simulation import schedule
from pflrepro.simulation.settings import Settings
from pflrepro.simulation.simulation import Simulation

SEEDS = (0, 1)
ROUNDS = 3
CLASSES = 6
BATCH = 5
# Five clients: no other axis of the networks and methods has that length, so an axis of length 5 is an axis of clients.
# Labels of each client's training samples; class 5 is in no training part, client 1 has less than a batch, client 2 one class.
TRAIN_LABELS = ("00112233" * 3, "122", "2" * 14, "334444100", "01234" * 6)
TEST_LABELS = ("0123", "1225", "2222", "34410", "")  # the last client has nothing to be tested on
STATE = ("server", "clients", "averaged", "kept")  # what training leaves behind; the rest of a state is scores and progress
BACKENDS = ("loop", "batched", "graph")
TOLERANCES = {"float64": 1e-8, "float32": 1e-3}

State = dict[str, np.ndarray]


@cache
def federation(order: tuple[int, ...] = tuple(range(len(TRAIN_LABELS)))) -> Federation:
    """The made-up federation: 8x8 images around a centre a class, clients in the given order."""
    train, test, labels = [], [], []
    for texts, parts in ((TRAIN_LABELS, train), (TEST_LABELS, test)):
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


class Subject:
    """A method on one network, and the runs that its checks share.

    Args:
        method: a registered name or `module:Class`, a class, or an instance. options: its hyper-parameters.
        model: a name in `pflrepro.models.MODELS`; with batch norm, incomplete batches are dropped.
        zero_rate: options that stop all learning of the method's own, beside the run's rate of 0.
        moves: entries of the state that a rate of 0 does not hold still, by the start of their path -> why.
        without: checks that do not apply -> why.
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
        self.source, self.options, self.model = method, dict(options or {}), model
        self.zero_rate, self.moves, self.without = dict(zero_rate or {}), dict(moves or {}), dict(without or {})
        network = build_model(model, (8, 8), CLASSES, 0)
        self.norm = any(buffers_of(part).has_leaves() for part in (network.base, network.head))
        self._traces: dict[Any, Trace] = {}

    def __str__(self) -> str:
        name = self.source if isinstance(self.source, str) else getattr(self.source, "__name__", type(self.source).__name__)
        options = ",".join(f"{key}={value}" for key, value in self.options.items())
        return f"{name}{f'({options})' if options else ''} on {self.model}"

    def method(self, **changes: Any) -> Method:
        """A fresh instance, with some hyper-parameters changed."""
        options = self.options | changes
        if isinstance(self.source, str):
            return build_method(self.source, options)
        return self.source(**options) if isinstance(self.source, type) else dataclasses.replace(self.source, **options)

    def simulation(self, backend: str = "loop", seeds: Sequence[int] = SEEDS, **changes: Any) -> Simulation:
        """A simulation at its start; `changes` go to the settings, or to the simulation (dtype, chunk) or method (options)."""
        given = {name: changes.pop(name) for name in ("chunk", "federation", "kind") if name in changes}
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
    cohorts = [[simulation.cohort(simulation.replicas[k], t) for t in range(rounds)] for k in count]
    for _ in range(rounds):
        simulation.step()
        for k in count:
            states[k].append(simulation.state_of(k))
    return Trace(states, [simulation.history(k) for k in count], cohorts)


# ---- comparisons ---------------------------------------------------------------------------------------------------------------
def same(a: State, b: State, what: str, tolerance: float = 0.0, only: Sequence[str] = ()) -> None:
    """Two states agree, seconds and the backend's name aside: exactly, or |a - b| <= tolerance * (1 + max |b|) in each entry."""

    def chosen(name: str) -> bool:
        recorded = "seconds" in name or name in ("progress/backend", "progress/chunk")
        return not recorded and (not only or name.partition("/")[0] in only)

    names = sorted(filter(chosen, a))
    assert names == sorted(filter(chosen, b)), f"{what}: the entries differ: {sorted(set(names) ^ set(filter(chosen, b)))}"
    for name in names:
        x, y = a[name], b[name]
        assert x.shape == y.shape and x.dtype == y.dtype, f"{what}: {name} is {x.dtype}{x.shape}, not {y.dtype}{y.shape}"
        if not x.size or np.array_equal(x, y):
            continue
        assert np.isfinite(y).all() and np.isfinite(x).all(), f"{what}: {name} is not finite"
        worst, allowed = np.abs(x - y).max(), tolerance * (1 + np.abs(y).max())
        assert worst <= allowed, f"{what}: {name} differs by {worst:.3g} (allowed: {allowed:.3g})"


def same_runs(a: Trace, b: Trace, what: str, tolerance: float = 0.0, rounds: int | None = None) -> None:
    """Two runs agree in the state after `rounds` rounds (default: the last) and in all scores."""
    for k, (mine, other) in enumerate(zip(a.states, b.states, strict=True)):
        t = len(mine) - 1 if rounds is None else rounds
        same(mine[t], other[t], f"{what}, seed number {k}, after round {t}", tolerance)


def finite(trace: Trace, what: str) -> None:
    """Every number of the final states is finite."""
    for states in trace.states:
        for name, value in states[-1].items():
            if value.dtype.kind == "U":
                continue  # the backend's name
            assert np.isfinite(value).all(), f"{what}: {name} is not finite"


# ---- the checks ----------------------------------------------------------------------------------------------------------------
def check_backends_agree(subject: Subject) -> None:
    """loop, batched and graph give the same states and scores after every round (float64, 1e-8)."""
    oracle = subject.trace("loop")
    for backend in BACKENDS[1:]:
        other = subject.trace(backend)
        for t in range(ROUNDS + 1):
            same_runs(other, oracle, f"{backend} is not loop", TOLERANCES["float64"], rounds=t)


def check_single_precision(subject: Subject) -> None:
    """In float32, loop and batched leave the same parameters after two rounds (1e-3 of the largest entry)."""
    runs = [subject.trace(backend, seeds=(0,), rounds=2, dtype="float32") for backend in ("loop", "batched")]
    same(runs[1].states[0][-1], runs[0].states[0][-1], "float32: batched is not loop", TOLERANCES["float32"], STATE)


def check_other_settings_agree(subject: Subject) -> None:
    """loop == batched (1e-8) with momentum, weight decay, two local epochs, dropped incomplete batches, averaged statistics."""
    changed = {"momentum": 0.5, "weight_decay": 0.01, "local_epochs": 2, "drop_last": True, "statistics": "averaged"}
    runs = [subject.trace(backend, seeds=(1,), rounds=2, **changed) for backend in ("batched", "loop")]
    same_runs(*runs, "batched is not loop", TOLERANCES["float64"])


def check_history(subject: Subject) -> None:
    """The history has its schema: names, types, shapes; scores lie within the test samples; participants are the cohorts."""
    trace = subject.trace()
    n, rows = federation().clients, ROUNDS + 1
    schema = {
        **dict.fromkeys(("correct", "correct_after"), ("int64", (rows, n))),
        **dict.fromkeys(("seconds", "seconds_evaluation"), ("float64", (rows,))),
        **dict.fromkeys(("test_samples", "train_samples"), ("int64", (n,))),
        **{"round": ("int64", (rows,)), "loss": ("float64", (rows, n)), "participated": ("bool", (rows, n))},
    }
    for history, cohorts in zip(trace.histories, trace.cohorts, strict=True):
        found = {name: (str(value.dtype), value.shape) for name, value in history.items()}
        assert found == schema, f"the history has another schema: {set(found.items()) ^ set(schema.items())}"
        assert history["round"].tolist() == list(range(rows)), "one record a round, from 0"
        within = all((history[name] <= history["test_samples"]).all() for name in ("correct", "correct_after"))
        assert within and (history["correct"] >= 0).all(), "correct predictions lie between 0 and the test samples"
        trained = np.cumsum(history["participated"], axis=0) > 0
        assert ((history["correct_after"] >= 0) == trained).all(), "correct_after is -1 exactly where a client never trained"
        for t, cohort in enumerate(cohorts):
            assert np.flatnonzero(history["participated"][t + 1]).tolist() == cohort.tolist(), "participants are not the cohort"


def check_state_keeps_its_form(subject: Subject) -> None:
    """Names, shapes and number types of the state are the same before the first and after every round."""
    for states in subject.trace().states:
        forms = [{n: (v.shape, v.dtype) for n, v in s.items() if n.partition("/")[0] in STATE} for s in states]
        for t, form in enumerate(forms):
            assert form == forms[0], f"after round {t} the state has another form: {sorted(set(form.items()) ^ set(forms[0].items()))}"


def check_absent_clients_untouched(subject: Subject) -> None:
    """A round leaves the stored state of clients outside its cohort exactly as it was."""
    trace, clients = subject.trace(), np.arange(federation().clients)
    first = 0 if subject.method().prologue() is None else 1  # a prologue runs before round 0 and may touch everyone
    for states, cohorts in zip(trace.states, trace.cohorts, strict=True):
        for t in range(first, ROUNDS):
            absent = np.setdiff1d(clients, cohorts[t])
            before, after = ({n: v[absent] for n, v in states[s].items() if n.startswith(("clients/", "kept/"))} for s in (t, t + 1))
            same(after, before, f"round {t} changed absent clients {absent.tolist()}")


def check_client_permutation(subject: Subject) -> None:
    """Renumbered clients give renumbered results (1e-9, as sums are taken in another order).

    Cohorts, batch orders and draws are keyed by client number, so a renumbered client keeps its old number's streams here.
    Client 0 stays client 0: the draws of server phases are keyed by that number.
    """
    order = (0, 3, 1, 4, 2)
    with _streams_of(order):
        simulation = subject.simulation(seeds=(0,), federation=federation(order), kind=_renumbered(order))
        other = run(simulation, ROUNDS)
    for t in range(ROUNDS + 1):
        expected = {name: _reordered(value, order, name) for name, value in subject.trace().states[0][t].items()}
        same(other.states[0][t], expected, f"after round {t}, clients in order {list(order)}", 1e-9)


def check_zero_rate(subject: Subject) -> None:
    """With all learning rates 0, parameters stay as they are (1e-12, for the rounding of averages)."""
    trace = subject.trace("loop", seeds=(0,), rounds=2, lr=0.0, options=subject.zero_rate)
    finite(trace, "at rate 0")
    before, after = (
        {n: v for n, v in state.items() if "/params/" in n and n.partition("/")[0] in STATE and not n.startswith(tuple(subject.moves))}
        for state in (trace.states[0][0], trace.states[0][-1])
    )
    same(after, before, "at rate 0 parameters changed", 1e-12)


def check_small_clients(subject: Subject) -> None:
    """Clients with fewer samples than a batch: finite, loop == batched (1e-8), with and without the incomplete batches.

    With incomplete batches dropped, client 1 takes no step at all; with a batch of 64, nobody does.
    """
    cases = [{"drop_last": True}, {"drop_last": True, "batch_size": 64}] + ([] if subject.norm else [{"drop_last": False}])
    for case in cases:
        runs = [subject.trace(backend, seeds=(0,), rounds=2, participation=1.0, **case) for backend in ("batched", "loop")]
        finite(runs[1], f"with {case}")
        same_runs(*runs, f"with {case}, batched is not loop", TOLERANCES["float64"])


def check_absent_classes(subject: Subject) -> None:
    """Classes that a client, or everybody, lacks leave every number finite."""
    assert (federation().counts().sum(0) == 0).any() and (federation().counts() == 0).any(1).all()
    finite(subject.trace(), "with absent classes")
    finite(subject.trace("batched"), "with absent classes, batched")


def check_evaluation_is_pure(subject: Subject) -> None:
    """Tests every round, or only after the last and never after local training: the same parameters."""
    seldom = subject.trace(seeds=(0,), every=ROUNDS, evaluate_after=False)
    often = subject.trace()
    same(seldom.states[0][-1], often.states[0][-1], "tested seldom", only=STATE)
    last, rows = seldom.histories[0], often.histories[0]
    assert last["round"].tolist() == [0, ROUNDS] and (last["correct"][-1] == rows["correct"][-1]).all()


def check_resume(subject: Subject) -> None:
    """A run saved after round 2 and taken up by a new simulation ends bit for bit as the uninterrupted one."""
    for backend in ("loop", "batched"):
        whole = subject.trace(backend)
        resumed = subject.simulation(backend)
        for k, states in enumerate(whole.states):
            resumed.restore_seed(k, _through_npz(states[2]))
        resumed.step()
        for k, states in enumerate(whole.states):
            same(resumed.state_of(k), states[-1], f"{backend}, resumed after round 2")


def check_round_is_pure(subject: Subject) -> None:
    """The same round twice from one saved state has the same outcome."""
    whole, simulation = subject.trace(), subject.simulation()
    for attempt in ("first", "second"):
        for k, states in enumerate(whole.states):
            simulation.restore_seed(k, states[1])
        simulation.step()
        for k, states in enumerate(whole.states):
            same(simulation.state_of(k), states[2], f"round 1 from its saved state, {attempt} time")


def check_deterministic(subject: Subject) -> None:
    """The same seed gives the same run, another seed another one."""
    again = run(subject.simulation(), 2)
    same_runs(again, subject.trace(), "run twice", rounds=2)
    first, second = (states[2] for states in subject.trace().states)
    assert any(not np.array_equal(first[n], second[n]) for n in first if n.partition("/")[0] in STATE), "two seeds, one outcome"


def check_seeds_side_by_side(subject: Subject) -> None:
    """Several seeds in one launch are each seed alone: exactly with loop, 1e-10 with batched."""
    for backend, tolerance in (("loop", 0.0), ("batched", 1e-10)):
        together, alone = subject.trace(backend), subject.trace(backend, seeds=(SEEDS[1],))
        same(together.states[1][-1], alone.states[0][-1], f"{backend}, two seeds side by side", tolerance)


def check_chunks(subject: Subject) -> None:
    """A launch in chunks of four rows (which mix the seeds) is the whole launch: exactly with loop, 1e-10 with batched."""
    for backend, tolerance in (("loop", 0.0), ("batched", 1e-10)):
        same_runs(subject.trace(backend, chunk=4), subject.trace(backend), f"{backend} in chunks", tolerance)


def check_selected_receivers(subject: Subject) -> None:
    """With receivers = selected, training is the same, loop == batched, and the tests are of what each client holds.

    After round t the cohort of round t + 1 has received and is tested as with receivers = all; a client outside both cohorts
    keeps its scores.
    """
    everyone = subject.trace()
    selected, batched = (subject.trace(backend, seeds=(0,), receivers="selected") for backend in ("loop", "batched"))
    same_runs(batched, selected, "batched is not loop", TOLERANCES["float64"])
    same(selected.states[0][-1], everyone.states[0][-1], "receivers = selected changed the training", only=STATE)
    cohorts, scores, reference = selected.cohorts[0], selected.histories[0], everyone.histories[0]
    for t in range(1, ROUNDS):
        outside = np.setdiff1d(np.arange(federation().clients), np.union1d(cohorts[t - 1], cohorts[t]))
        for name in ("correct", "loss"):
            same({name: scores[name][t][cohorts[t]]}, {name: reference[name][t][cohorts[t]]}, "the next cohort has received")
            same({name: scores[name][t][outside]}, {name: scores[name][t - 1][outside]}, "an absent client holds what it held")


CHECKS: dict[str, Callable[[Subject], None]] = {
    name.removeprefix("check_"): function for name, function in list(globals().items()) if name.startswith("check_")
}


# ---- the suite -----------------------------------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Result:
    """One check's outcome: `passed`, or `not applicable` with the reason given."""

    check: str
    outcome: str
    seconds: float
    reason: str = ""


def check(
    method: str | type[Method] | Method, options: Mapping[str, Any] | None = None, model: str = "mlp", **declared: Any
) -> list[Result]:
    """Run every check on a method; `declared` are the exceptions that `Subject` takes (zero_rate, moves, without).

    Raises `AssertionError` that names each failed check, the entry and the size of the difference.

    Example:
        >>> {result.outcome for result in check("fedavg")}
        {'passed'}
    """
    subject = Subject(method, options, model, **declared)
    results, failures = [], []
    for name, function in CHECKS.items():
        if name in subject.without:
            results.append(Result(name, "not applicable", 0.0, subject.without[name]))
            continue
        started = time.perf_counter()
        try:
            function(subject)
        except UserError:
            raise
        except AssertionError as error:
            failures.append(f"{name}: {error}")
        except Exception as error:  # a method that breaks fails the check, and the next one may tell more
            failures.append(f"{name}: {type(error).__name__}: {error}")
        results.append(Result(name, "passed", time.perf_counter() - started))
    if failures:
        raise AssertionError(f"{subject} fails {len(failures)} of {len(CHECKS)} checks: " + "; ".join(failures))
    return results


# ---- renumbering, saving -------------------------------------------------------------------------------------------------------
def _streams_of(order: Sequence[int]) -> AbstractContextManager[Any]:
    """Within it, client j draws from the streams of client `order[j]`."""

    @wraps(generator)
    def renumbered(seed: int, purpose: str, round: int = 0, client: int = 0) -> np.random.Generator:
        return generator(seed, purpose, round, order[client])

    stack = ExitStack()
    for module in (schedule, federation_module):
        stack.enter_context(mock.patch.object(module, "generator", renumbered))
    return stack


def _renumbered(order: Sequence[int]) -> type[Simulation]:
    class Renumbered(Simulation):
        def cohort(self, replica: Any, t: int) -> np.ndarray:
            return np.flatnonzero(np.isin(order, super().cohort(replica, t)))

    return Renumbered


def _reordered(value: np.ndarray, order: Sequence[int], name: str) -> np.ndarray:
    """`value` with every axis of clients (all axes of length N) in another order; a history's first axis is its rounds."""
    for axis, length in enumerate(value.shape):
        if length == len(order) and not (name.startswith("history/") and axis == 0):
            value = np.take(value, order, axis=axis)
    return value


def _through_npz(state: State) -> State:
    """The state written to and read from an npz file in memory, as a checkpoint is."""
    file = io.BytesIO()
    np.savez(file, **state)
    file.seek(0)
    with np.load(file, allow_pickle=False) as saved:
        return {name: saved[name] for name in saved.files}
