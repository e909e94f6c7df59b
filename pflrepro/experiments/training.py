"""Training runs that differ in nothing but the seed side by side, from wherever they are, to the end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pflrepro.device import BACKENDS, resolve_device
from pflrepro.errors import CorruptFile, Paused, RunFailed, UserError, check_range, check_word
from pflrepro.experiments import environment, version
from pflrepro.experiments.callbacks import Watching
from pflrepro.experiments.checkpoint import Checkpoint
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.failures import Failures, name_of
from pflrepro.experiments.history import agree, best_of, check_history, joined, rounds_to_test, shared_tests, stops_at
from pflrepro.experiments.identity import Job
from pflrepro.experiments.keeper import SAVED, Keeper, States
from pflrepro.experiments.loading import load_federation
from pflrepro.experiments.result import Moment, Run
from pflrepro.experiments.stopping import GOES_ON, stopping
from pflrepro.experiments.store import Store
from pflrepro.metrics.accuracy import pooled
from pflrepro.metrics.divergence import divergence
from pflrepro.settings import RUN_LENGTH
from pflrepro.simulation.backends import check_share_of_machine
from pflrepro.simulation.heap import give_back_freed_memory
from pflrepro.simulation.simulation import Simulation
from pflrepro.simulation.start import refuse_idle_clients

log = logging.getLogger("pflrepro.run")
# seconds between looks at the curves: stacking a long history each round would cost more than a fast round
LOOK_EVERY = 0.5
# of a run's record, what decides how its numbers are rounded
MADE_ALIKE = ("backend", "device", "workers", "chunk", "threads", "seeds_together", "processor")
CHECKPOINT_SHARE = 0.05  # checkpoints may take this share of the time, whatever interval was asked for


@dataclass(frozen=True)
class Machine:
    """How runs are computed, which changes their numbers by rounding at most.

    Attributes:
        checkpoint_every: seconds between checkpoints, 0 = after every round.
        simulate: what makes the engine; None: `Simulation`.
        keep: the moments whose states are kept besides the last (`best`, rounds).
    """

    backend: str = "auto"
    device: str = "cpu"
    workers: int | None = None
    memory: int | None = None
    checkpoint_every: float = 20.0
    simulate: Callable[..., Any] | None = None
    data_root: str | Path | None = None
    keep: tuple[Moment, ...] = ()

    def __post_init__(self) -> None:
        check_word("backend", self.backend, BACKENDS)
        check_range("checkpoint_every", self.checkpoint_every, 0)
        check_share_of_machine(self.workers, self.memory)
        object.__setattr__(self, "device", resolve_device(self.device))

    def simulation(self, experiments: Sequence[Experiment], backend: str, workers: int | None) -> Any:
        """The engine for these experiments, which differ in nothing but the seed, before its first round."""
        simulate = self.simulate or Simulation
        experiment = experiments[0]
        method, federation = experiment.method(), load_federation(experiment.data, self.data_root, self.device)
        refuse_idle_clients(method, federation, experiment.settings)
        return simulate(
            method,
            federation,
            experiment.model,
            experiment.settings,
            [each.seed for each in experiments],
            backend=backend,
            device=self.device,
            workers=workers,
            memory=self.memory,
            dtype=experiment.dtype,
        )


@dataclass
class Group:
    """Jobs at the same round, to be continued with the same backend."""

    round: int
    backend: str
    workers: int | None
    jobs: list[Job] = field(default_factory=list)
    checkpoints: list[Checkpoint | None] = field(default_factory=list)


def train(jobs: Sequence[Job], store: Store, machine: Machine, watching: Watching) -> list[Job]:
    """Make the runs of one pack that nobody else is making; gives back those that another process has its lock on.

    Raises `RunFailed` if the engine fails; checkpoints written until then stay.
    """
    with ExitStack() as held:
        held.callback(give_back_freed_memory)
        mine, busy = [], []
        for job in sorted(jobs, key=lambda job: job.experiment.seed):
            lock = store.lock(job.id)
            if lock.acquire():
                held.callback(lock.release)
                mine.append(job)
            else:
                busy.append(job)
        # Another process may have finished one between the caller's look and the lock.
        lacking = [job for job in mine if not done(job, store, machine.keep, locked=True)]
        try:
            for group in _groups(lacking, store, machine):
                _train_group(group, store, machine, watching)
        except (UserError, RunFailed):  # what is refused, or broke before anything was saved, is not begun
            for job in lacking:
                store.withdraw(job.id)
            raise
    return busy


def _groups(jobs: Sequence[Job], store: Store, machine: Machine) -> list[Group]:
    """Jobs by the round they are at and the backend they were begun with, furthest first."""
    groups: dict[tuple, Group] = {}
    store.settle_checkpoints([job.id for job in jobs])
    for job in jobs:
        states = store.begin(job.id, job.experiment, job.identity)
        checkpoint = next((state for state in states if _leads_on(state, job, store, machine.keep)), None)
        if states and checkpoint is not states[0]:
            store.put_checkpoint_by(job.id)
            log.warning(
                "run %s goes on from round %d in place of %d: until there it was tested or kept less often than is asked for now",
                *(job.id, checkpoint.round if checkpoint else 0, states[0].round),
            )
        backend, workers = _backend(checkpoint, machine)
        key = (checkpoint.round if checkpoint else -1, backend, workers)
        group = groups.setdefault(key, Group(max(key[0], 0), backend, workers))
        group.jobs.append(job)
        group.checkpoints.append(checkpoint)
    return sorted(groups.values(), key=lambda group: -group.round)


def done(job: Job, store: Store, keep: Sequence[Moment] = (), *, locked: bool = False) -> bool:
    """Whether the store has all of a job that is asked for, the states of the moments `keep` among it."""
    run = store.get(job.id, locked=locked)
    run = None if run is None else run.answering(job.experiment)
    if run is None and not keep:
        return store.answer(job.id, job.experiment) is not None  # one that came with the package
    return run is not None and _to_keep(run, keep) <= set(store.states(job.id))


def _to_keep(run: Run, keep: Sequence[Moment]) -> set[int]:
    """The rounds of the moments that a run has come to; but round 0, after which nothing is trained."""
    return {run.round_of(moment) for moment in keep if isinstance(moment, str) or moment <= run.rounds} - {0}


def _leads_on(state: Checkpoint, job: Job, store: Store, keep: Sequence[Moment]) -> bool:
    """Whether the run can be continued from a state: what was to be tested and kept until there has been."""
    settings, tests = job.experiment.settings, state.history
    tested = tests.get("round", ())
    passed = [r for r in rounds_to_test(settings) if r <= state.round]
    if not set(passed) <= set(tested):
        return False
    wanted = {moment for moment in keep if isinstance(moment, int) and moment < state.round}
    if "best" in keep and len(tested):
        wanted.add(best_of(tested, tests["correct"].sum(1), settings.patience))
    return wanted <= {*store.states(job.id), state.round, 0}


def _backend(checkpoint: Checkpoint | None, machine: Machine) -> tuple[str, int | None]:
    """The backend and number of workers: as asked for, else as the run was begun on this device."""
    last = checkpoint.attempts[-1] if checkpoint and checkpoint.attempts else {}
    if last.get("device") != environment.device_name(machine.device):
        return machine.backend, machine.workers
    backend = last.get("backend") if machine.backend == "auto" else None
    workers = last.get("workers") if machine.workers is None else None
    return backend or machine.backend, workers or machine.workers


def _train_group(group: Group, store: Store, machine: Machine, watching: Watching) -> None:
    watching.start(group.jobs, group.round)
    runs: list[Run] = []
    try:
        runs += _trained(group, store, machine, watching)
    finally:
        watching.end(runs)


def _trained(group: Group, store: Store, machine: Machine, watching: Watching) -> list[Run]:
    """Train the group to its end and file its runs; none where the process was asked to end before."""
    version.commit()  # remembered from now on: what is edited while this trains did not make its numbers
    experiment, seeds = group.jobs[0].experiment, [job.experiment.seed for job in group.jobs]
    failures = Failures(experiment, seeds)
    with failures as where:
        where["simulation"] = simulation = _resumed(group, store, machine)
        keeper = Keeper(machine.keep, group.checkpoints, experiment.settings.patience)
    with stopping.saving_first():
        with failures:
            _run_to_the_end(simulation, group, store, machine, watching, keeper)
            # killed between two of the results below, the other seeds go on from here
            if len(seeds) > 1 and not stopping.asked:
                _save(simulation, group, store, machine, where["started"], keeper)
            histories = [simulation.history(index) for index in range(len(seeds))]
            attempts = _attempts(group, simulation, machine, where["started"])
        if stopping.asked and not simulation.finished:
            return []
        runs = []
        for index, (job, history, record) in enumerate(zip(group.jobs, histories, attempts, strict=True)):
            try:
                checked = check_history(history)
            except CorruptFile as error:
                raise RunFailed(f"{name_of(experiment, seeds)} gave no valid history: {error}") from None
            last = Checkpoint(simulation.round, simulation.state_of(index), record)
            runs.append(_file(job, checked, last, keeper.states[index], store, machine))
            store.drop_states(job.id, keeper.outdated(index) - {last.round})
    return runs


def _file(job: Job, history: dict[str, Any], last: Checkpoint, kept: States, store: Store, machine: Machine) -> Run:
    """Put a run that has come to its end into the store, its states and its history with what it had behind; gives the answer."""
    before = store.get(job.id, locked=True)
    if before is not None and not _one_training(history, last, before, job):
        log.warning(
            "run %s was trained anew with other numbers than before (on %s): what was known of it after %d rounds is replaced",
            *(job.id, before.environment.get("device"), before.rounds),
        )
        before = None
    if before is None:
        store.drop_others(job.id, history)
    whole = joined(history, None if before is None else before.history)
    for round, state in kept.items():
        store.keep_state(job.id, Checkpoint(round, state, last.attempts), asked=True)
    if whole["round"][-1] == last.round:
        store.keep_state(job.id, last, asked=last.round in kept)
    record = environment.environment(last.attempts, whole, job.experiment.dtype)
    run = store.finish(job.id, job.experiment, whole, record)
    answered = run.answering(job.experiment)
    if (
        before is not None and before.rounds < run.rounds
    ):  # the state it grew from; who kept it as a moment's asks again
        store.drop_states(job.id, {before.rounds} - _to_keep(answered, machine.keep))
    return answered


def _one_training(history: Mapping[str, Any], last: Checkpoint, before: Run, job: Job) -> bool:
    """Whether a history goes on from what is known of the run: by the tests of both, else by how both were made."""
    if shared_tests(history, before.history):
        return agree(history, before.history)
    return _made_alike(environment.environment(last.attempts, history, job.experiment.dtype), before.environment)


def _made_alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two records are of the same way on the same kind of machine, which gives the same numbers."""
    torch = [made.get("versions", {}).get("torch") for made in (one, other)]
    return torch[0] == torch[1] and all(one.get(name) == other.get(name) for name in MADE_ALIKE)


def _resumed(group: Group, store: Store, machine: Machine) -> Any:
    """The engine at the group's round; if a checkpoint does not fit it, the whole group starts afresh.

    Anything else that goes wrong, such as a lack of memory, leaves the checkpoints for the next try.
    """
    simulation = machine.simulation([job.experiment for job in group.jobs], group.backend, group.workers)
    if not any(group.checkpoints):
        return simulation
    try:
        for index, checkpoint in enumerate(group.checkpoints):
            simulation.restore_seed(index, dict(checkpoint.state))
        if simulation.round == group.round:
            return simulation
        reason = f"it is at round {simulation.round}, not {group.round}"
    except (KeyError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())
    for job in group.jobs:
        store.drop_checkpoint(job.id, reason)
    group.round, group.checkpoints = 0, [None] * len(group.jobs)
    return machine.simulation([job.experiment for job in group.jobs], machine.backend, machine.workers)


def _run_to_the_end(
    simulation: Any, group: Group, store: Store, machine: Machine, watching: Watching, keeper: Keeper
) -> None:
    """Step until the last round, until the stop rule holds for every run, or until the process is asked to end and all is saved.

    An engine or a callback that raises `Paused` ends it too: what was trained until then is saved.
    """
    patience, count = group.jobs[0].experiment.settings.patience, len(group.jobs)
    kept, started = group.round, time.monotonic()
    saved = looked = started
    interval = machine.checkpoint_every
    warned: set[str] = set()
    stops = _stops(simulation, count, patience)
    if keeper.keep and simulation.round:
        keeper.look(simulation)
    try:
        while not simulation.finished and None in stops:
            simulation.step()
            if keeper.keep:
                keeper.look(simulation)
            now = time.monotonic()
            if now - looked >= LOOK_EVERY or simulation.finished:
                looked = now
                _warn_of_divergence(simulation, group, warned)
                stops = _stops(simulation, count, patience)
                watching.look(simulation)
            if (stopping.asked or now - saved >= interval) and not simulation.finished:
                _save(simulation, group, store, machine, started, keeper)
                kept, saved = simulation.round, time.monotonic()
                interval = _interval(machine.checkpoint_every, saved - now)
            if stopping.asked:
                return
    except Paused:
        if simulation.round > group.round:
            _save(simulation, group, store, machine, started, keeper)
        raise
    except KeyboardInterrupt as interrupt:  # in the midst of a round
        interrupt.args = (f"what was trained until round {kept} {GOES_ON}" if kept else "no round was saved yet",)
        raise


def _interval(asked: float, seconds: float) -> float:
    """Seconds until the next checkpoint, after one that took `seconds`: what was asked for, or as long as keeps to the share."""
    return max(asked, seconds / CHECKPOINT_SHARE) if asked > 0 else 0.0


def _warn_of_divergence(simulation: Any, group: Group, warned: set[str]) -> None:
    """Say at once, and once a run, that a loss is infinite, NaN or huge: there may be long to go."""
    for index, job in enumerate(group.jobs):
        if job.id in warned:
            continue
        history = simulation.history(index)
        found = divergence(history) if "loss" in history else None
        if found is not None:
            warned.add(job.id)
            log.warning(
                "%s %s: its loss is infinite, NaN or huge", name_of(job.experiment, [job.experiment.seed]), found
            )


def _stops(simulation: Any, count: int, patience: int) -> list[int | None]:
    return [stops_at(_curve(simulation, index), patience) if patience else None for index in range(count)]


def _curve(simulation: Any, index: int) -> Any:
    history = simulation.history(index)
    return pooled(history) if "correct" in history else []


def _save(simulation: Any, group: Group, store: Store, machine: Machine, started: float, keeper: Keeper) -> None:
    """How far the runs are, and before it the states that they were asked to keep, without which they could not go on from there."""
    checkpoints = {}
    for index, (job, record) in enumerate(zip(group.jobs, _attempts(group, simulation, machine, started), strict=True)):
        states, saved = keeper.states[index], keeper.saved[index]
        for round in states.keys() - saved:
            store.keep_state(job.id, Checkpoint(round, states[round], record), asked=True)
        saved.update(states)
        record[-1][SAVED] = sorted(saved - keeper.outdated(index))
        checkpoints[job.id] = Checkpoint(simulation.round, simulation.state_of(index), record)
    store.save_checkpoints(checkpoints)
    for index, job in enumerate(group.jobs):
        outdated = keeper.outdated(index)
        store.drop_states(job.id, outdated)
        keeper.saved[index] -= outdated


def _attempts(group: Group, simulation: Any, machine: Machine, started: float) -> list[list[dict[str, Any]]]:
    """The records of each job: those of its checkpoint, and this process's, up to now."""
    seeds = [job.experiment.seed for job in group.jobs]
    device = environment.device_name(machine.device)
    this = environment.attempt(simulation.facts, device=device, seeds=seeds, started_at=group.round)
    this |= {
        "threads": environment.threads(),
        "asked": {name: getattr(group.jobs[0].experiment.settings, name) for name in RUN_LENGTH},
        "seconds": time.monotonic() - started,
        "peak_memory_bytes": environment.peak_memory(machine.device),
        "test_samples": int(simulation.history(0)["test_samples"].sum()),  # all seeds have the same clients
    }
    return [[*(checkpoint.attempts if checkpoint else []), dict(this)] for checkpoint in group.checkpoints]
