"""The checks. Each is a function of a `Subject` that raises `AssertionError`; `CHECKS` names them all."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

import numpy as np

from pflrepro import device
from pflrepro.conformance.meta import run_on_meta
from pflrepro.conformance.subject import (
    ROUNDS,
    SEEDS,
    STATE,
    State,
    Subject,
    Trace,
    federation,
    renumbered_simulation,
    reordered,
    run,
    sparse_federation,
    streams_of,
)
from pflrepro.errors import UserError
from pflrepro.experiments.history import SCHEMA
from pflrepro.simulation.program import LOSSES

BACKENDS = device.BACKENDS[1:]  # `auto` is one of them
TOLERANCES = {"float64": 1e-8, "float32": 1e-3}


# ---- comparisons ---------------------------------------------------------------------------------------------------------------
def same(a: State, b: State, what: str, tolerance: float = 0.0, only: Sequence[str] = ()) -> None:
    """Two states agree, seconds, backend and device aside: exactly, or |a - b| <= tolerance * (1 + max |b|) in each entry."""

    def chosen(name: str) -> bool:
        recorded = "seconds" in name or name in ("progress/backend", "progress/chunk", "progress/device")
        return not recorded and (not only or name.partition("/")[0] in only)

    names = sorted(filter(chosen, a))
    assert names == sorted(filter(chosen, b)), (
        f"{what}: the entries differ: {sorted(set(names) ^ set(filter(chosen, b)))}"
    )
    for name in names:
        x, y = a[name], b[name]
        assert x.shape == y.shape and x.dtype == y.dtype, (
            f"{what}: {name} is {x.dtype}{x.shape}, not {y.dtype}{y.shape}"
        )
        if name.partition("/")[0] == "losses" or name.startswith("history/"):
            known = ~np.isnan(x)
            assert (known == ~np.isnan(y)).all(), f"{what}: {name} is known for others"
            x, y = x[known], y[known]
        if not x.size or np.array_equal(x, y):
            continue
        assert np.isfinite(y).all() and np.isfinite(x).all(), f"{what}: {name} is not finite"
        worst, allowed = np.abs(x.astype(float) - y.astype(float)).max(), tolerance * (1 + np.abs(y).max())
        assert worst <= allowed, f"{what}: {name} differs by {worst:.3g} (allowed: {allowed:.3g})"


def same_runs(a: Trace, b: Trace, what: str, tolerance: float = 0.0, rounds: int | None = None) -> None:
    """Two runs agree in the state after `rounds` rounds (default: the last) and in all scores."""
    for k, (mine, other) in enumerate(zip(a.states, b.states, strict=True)):
        t = len(mine) - 1 if rounds is None else rounds
        same(mine[t], other[t], f"{what}, seed number {k}, after round {t}", tolerance)


def finite(trace: Trace, what: str) -> None:
    """Every number of the final states is finite; losses of clients that took no step are not known."""
    for states in trace.states:
        for name, value in states[-1].items():
            if value.dtype.kind == "U":
                continue  # the backend's name
            known = value[~np.isnan(value)] if name.rpartition("/")[2] in LOSSES else value
            assert np.isfinite(known).all(), f"{what}: {name} is not finite"


def through_npz(state: State) -> State:
    """The state written to and read from an npz file in memory, as a checkpoint is."""
    file = io.BytesIO()
    np.savez(file, **state)
    file.seek(0)
    with np.load(file, allow_pickle=False) as saved:
        return {name: saved[name] for name in saved.files}


# ---- the checks
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


def check_no_host(subject: Subject) -> None:
    """A round's device functions run on PyTorch's `meta` device, whose tensors have no numbers: training, tests, adaptation.

    Fails where one of them looks at a number (`.item()`, `if tensor`), has a shape that depends on one, or makes a tensor on the
    CPU or from the host's numbers: all would break a captured graph, or make a GPU wait. Functions of the host (`phases`, `send`,
    `serve`, `aggregate`, `init_*`) may look. It is no substitute for a GPU: it computes nothing, and knows nothing of kernels.
    """
    run_on_meta(subject.simulation(seeds=(0,), momentum=0.5, weight_decay=0.01, receivers="selected"))


def check_history(subject: Subject) -> None:
    """The history has its schema: names, types, shapes; scores lie within the test samples; participants are the cohorts."""
    trace = subject.trace()
    sizes = {"E": ROUNDS + 1, "N": federation().clients}
    schema = {name: (str(np.dtype(kind)), tuple(sizes[axis] for axis in axes)) for name, (kind, axes) in SCHEMA.items()}
    for history, cohorts in zip(trace.histories, trace.cohorts, strict=True):
        found = {name: (str(value.dtype), value.shape) for name, value in history.items()}
        assert found == schema, f"the history has another schema: {set(found.items()) ^ set(schema.items())}"
        assert history["round"].tolist() == list(range(ROUNDS + 1)), "one record a round, from 0"
        within = all((history[name] <= history["test_samples"]).all() for name in ("correct", "correct_after"))
        assert within and (history["correct"] >= 0).all(), "correct predictions lie between 0 and the test samples"
        trained = np.cumsum(history["participated"], axis=0) > 0
        assert ((history["correct_after"] >= 0) == trained).all(), (
            "correct_after is -1 exactly where a client never trained"
        )
        for t, cohort in enumerate(cohorts):
            assert np.flatnonzero(history["participated"][t + 1]).tolist() == cohort.tolist(), (
                "participants are not the cohort"
            )


def check_state_keeps_its_form(subject: Subject) -> None:
    """Names, shapes and number types of the state are the same before the first and after every round."""
    for states in subject.trace().states:
        forms = [{n: (v.shape, v.dtype) for n, v in s.items() if n.partition("/")[0] in STATE} for s in states]
        for t, form in enumerate(forms):
            assert form == forms[0], (
                f"after round {t} the state has another form: {sorted(set(form.items()) ^ set(forms[0].items()))}"
            )


def check_absent_clients_untouched(subject: Subject) -> None:
    """A round leaves the stored state of clients outside its cohort exactly as it was."""
    trace, clients = subject.trace(), np.arange(federation().clients)
    first = 0 if subject.method().prologue() is None else 1  # a prologue runs before round 0 and may touch everyone
    for states, cohorts in zip(trace.states, trace.cohorts, strict=True):
        for t in range(first, ROUNDS):
            absent = np.setdiff1d(clients, cohorts[t])
            before, after = (
                {
                    n: v[absent]
                    for n, v in states[s].items()
                    if n.startswith(("clients/", "kept/"))
                    and not n.startswith("clients/slot/")  # of places, not clients
                }
                for s in (t, t + 1)
            )
            same(after, before, f"round {t} changed absent clients {absent.tolist()}")


def check_client_permutation(subject: Subject) -> None:
    """Renumbered clients give renumbered results (1e-9, as sums are taken in another order).

    Cohorts, batch orders and draws are keyed by client number, so a renumbered client keeps its old number's streams here.
    Client 0 stays client 0: the draws of server phases are keyed by that number.
    """
    order = (0, 3, 1, 4, 2)
    with streams_of(order):
        simulation = subject.simulation(seeds=(0,), federation=federation(order), kind=renumbered_simulation(order))
        other = run(simulation, ROUNDS)
    for t in range(ROUNDS + 1):
        expected = {name: reordered(value, order, name) for name, value in subject.trace().states[0][t].items()}
        same(other.states[0][t], expected, f"after round {t}, clients in order {list(order)}", 1e-9)


def check_zero_rate(subject: Subject) -> None:
    """With all learning rates 0 (`zero_rate`), what server and clients hold stays as it is (1e-12, for the rounding of averages).

    Entries that gather what was seen, and do not learn, are named by the method's `gathers`. Running statistics are left out.
    """
    trace = subject.trace("loop", seeds=(0,), rounds=2, lr=0.0, options=subject.zero_rate)
    finite(trace, "at rate 0")
    before, after = (
        {name: value for name, value in states.items() if not name.startswith(tuple(subject.moves))}
        for states in (trace.states[0][0], trace.states[0][-1])
    )
    try:
        same(after, before, "at rate 0", 1e-12, only=("server", "clients"))
    except AssertionError as error:
        raise AssertionError(f"{error} (what is gathered and not learnt is named in the method's `gathers`)") from None


def check_small_clients(subject: Subject) -> None:
    """Clients with fewer samples than a batch: finite, loop == batched (1e-8), with and without the incomplete batches.

    With incomplete batches dropped, client 1 takes no step at all; with a batch of 64, nobody does.
    """
    cases = [{"drop_last": True}, {"drop_last": True, "batch_size": 64}] + (
        [] if subject.norm else [{"drop_last": False}]
    )
    for case in cases:
        runs = [
            subject.trace(backend, seeds=(0,), rounds=2, participation=1.0, **case) for backend in ("batched", "loop")
        ]
        finite(runs[1], f"with {case}")
        same_runs(*runs, f"with {case}, batched is not loop", TOLERANCES["float64"])


def check_clients_without_data(subject: Subject) -> None:
    """A client with nothing to train on and one with a single sample: refused in one line, or finite with loop == batched (1e-8)."""
    try:
        runs = [
            subject.trace(backend, seeds=(0,), rounds=2, participation=1.0, federation=sparse_federation())
            for backend in ("batched", "loop")
        ]
    except UserError:
        return
    finite(runs[1], "with clients without data")
    same_runs(*runs, "with clients without data, batched is not loop", TOLERANCES["float64"])


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
            resumed.restore_seed(k, through_npz(states[2]))
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
    assert any(not np.array_equal(first[n], second[n]) for n in first if n.partition("/")[0] in STATE), (
        "two seeds, one outcome"
    )


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
            same(
                {name: scores[name][t][cohorts[t]]},
                {name: reference[name][t][cohorts[t]]},
                "the next cohort has received",
            )
            same(
                {name: scores[name][t][outside]},
                {name: scores[name][t - 1][outside]},
                "an absent client keeps what it had",
            )


CHECKS: dict[str, Callable[[Subject], None]] = {
    name.removeprefix("check_"): function for name, function in list(globals().items()) if name.startswith("check_")
}
