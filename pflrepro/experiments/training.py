"""Training runs that differ in nothing but the seed side by side, from wherever they are, to the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pflrepro.errors import CorruptFile, RunFailed, UserError
from pflrepro.experiments import environment
from pflrepro.experiments.checkpoint import Checkpoint
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.history import check_history, cut, stops_at
from pflrepro.experiments.progress import Progress
from pflrepro.experiments.store import Store

LOOK_EVERY = (
    0.5  # seconds between looks at the curves: stacking a long history each round would cost more than a fast round
)
CHECKPOINT_SHARE = 0.05  # checkpoints may take this share of the time, whatever interval was asked for


@dataclass(frozen=True)
class Job:
    """One run to be made: its id, what is run, and the identity that the id is the digest of."""

    id: str
    experiment: Experiment
    identity: dict[str, Any]

    @property
    def pack(self) -> str:
        """Equal for jobs that differ only in the seed."""
        return replace(self.experiment, seed=0).canonical()


@dataclass(frozen=True)
class Machine:
    """How runs are computed, which changes their numbers by rounding at most.

    checkpoint_every: seconds between checkpoints, 0 = after every round. simulate: what makes the engine; None: `Simulation`.
    """

    backend: str = "auto"
    device: str = "cpu"
    workers: int | None = None
    memory: int | None = None
    checkpoint_every: float = 20.0
    simulate: Callable[..., Any] | None = None
    data_root: str | Path | None = None

    def simulation(self, experiments: Sequence[Experiment], backend: str, workers: int | None) -> Any:
        """The engine for these experiments, which differ in nothing but the seed, before its first round."""
        from pflrepro.experiments.identity import load_federation

        simulate = self.simulate
        if simulate is None:
            from pflrepro.simulation import Simulation as simulate
        experiment = experiments[0]
        return simulate(
            experiment.method(),
            load_federation(experiment.data, self.data_root, self.device),
            experiment.model,
            experiment.settings(),
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


def train(jobs: Sequence[Job], store: Store, machine: Machine, progress: Progress) -> list[Job]:
    """Make the runs of one pack that nobody else is making; gives back those that another process has its lock on.

    Raises `RunFailed` if the engine fails; checkpoints written until then stay.
    """
    with ExitStack() as held:
        mine, busy = [], []
        for job in sorted(jobs, key=lambda job: job.experiment.seed):
            lock = store.lock(job.id)
            if lock.acquire():
                held.callback(lock.release)
                mine.append(job)
            else:
                busy.append(job)
        # Another process may have finished one between the caller's look and the lock.
        groups = _groups([job for job in mine if store.get(job.id, held=True) is None], store, machine)
        for group in groups:
            _train_group(group, store, machine, progress)
    return busy


def _groups(jobs: Sequence[Job], store: Store, machine: Machine) -> list[Group]:
    """Jobs by the round they are at and the backend they were begun with, furthest first."""
    groups: dict[tuple, Group] = {}
    for job in jobs:
        checkpoint = store.begin(job.id, job.experiment, job.identity)
        backend, workers = _backend(checkpoint, machine)
        key = (checkpoint.round if checkpoint else -1, backend, workers)
        group = groups.setdefault(key, Group(max(key[0], 0), backend, workers))
        group.jobs.append(job)
        group.checkpoints.append(checkpoint)
    return sorted(groups.values(), key=lambda group: -group.round)


def _backend(checkpoint: Checkpoint | None, machine: Machine) -> tuple[str, int | None]:
    """The backend and number of workers: as asked for, else as the run was begun on this device."""
    last = checkpoint.sittings[-1] if checkpoint and checkpoint.sittings else {}
    if last.get("device") != environment.device_name(machine.device):
        return machine.backend, machine.workers
    backend = last.get("backend") if machine.backend == "auto" else None
    workers = last.get("workers") if machine.workers is None else None
    return backend or machine.backend, workers or machine.workers


def _train_group(group: Group, store: Store, machine: Machine, progress: Progress) -> None:
    experiment, seeds = group.jobs[0].experiment, [job.experiment.seed for job in group.jobs]
    many = f"{len(seeds)} seeds" if len(seeds) > 1 else f"seed {seeds[0]}"
    progress.start(f"{experiment.algorithm} on {experiment.data.dataset}, {many}", experiment.rounds, group.round)
    with _Failures(experiment, seeds) as where:
        simulation = _resumed(group, store, machine)
        where["simulation"] = simulation
        stops = _run_to_the_end(simulation, group, store, machine, progress)
        histories = [simulation.history(index) for index in range(len(seeds))]
        sittings = _sittings(group, simulation, machine, where["started"])
    for job, history, stop, record in zip(group.jobs, histories, stops, sittings, strict=True):
        try:
            final = cut(check_history(history), stop if stop is not None else len(history["round"]))
        except CorruptFile as error:
            raise RunFailed(f"{_name(experiment, seeds)} gave no valid history: {error}") from None
        store.finish(job.id, final, environment.environment(record, final, experiment.dtype))
    progress.end()


def _resumed(group: Group, store: Store, machine: Machine) -> Any:
    """The engine at the group's round; if a checkpoint does not fit it, the whole group starts afresh."""
    simulation = machine.simulation([job.experiment for job in group.jobs], group.backend, group.workers)
    if not any(group.checkpoints):
        return simulation
    try:
        for index, checkpoint in enumerate(group.checkpoints):
            simulation.restore_seed(index, dict(checkpoint.state))
        if simulation.round == group.round:
            return simulation
        reason = f"it is at round {simulation.round}, not {group.round}"
    except (KeyError, ValueError, TypeError, RuntimeError) as error:
        reason = " ".join(str(error).split())
    for job in group.jobs:
        store.drop_checkpoint(job.id, reason)
    group.round, group.checkpoints = 0, [None] * len(group.jobs)
    return machine.simulation([job.experiment for job in group.jobs], machine.backend, machine.workers)


def _run_to_the_end(
    simulation: Any, group: Group, store: Store, machine: Machine, progress: Progress
) -> list[int | None]:
    """Step until the last round, or until every run has stopped; gives the number of evaluations of each that stopped early."""
    patience, count = group.jobs[0].experiment.patience, len(group.jobs)
    started = saved = looked = time.monotonic()
    interval = machine.checkpoint_every
    stops = _stops(simulation, count, patience)
    while not simulation.finished and None in stops:
        simulation.step()
        now = time.monotonic()
        if now - looked >= LOOK_EVERY or simulation.finished:
            looked = now
            stops = _stops(simulation, count, patience)
            progress.to(simulation.round, _mean_accuracy(simulation, count) if progress.shown else None)
        if now - saved >= interval and not simulation.finished:
            _save(simulation, group, store, machine, started)
            saved = time.monotonic()
            interval = (
                max(machine.checkpoint_every, (saved - now) / CHECKPOINT_SHARE) if machine.checkpoint_every > 0 else 0.0
            )
    return stops


def _stops(simulation: Any, count: int, patience: int) -> list[int | None]:
    return [stops_at(_curve(simulation, index), patience) if patience else None for index in range(count)]


def _curve(simulation: Any, index: int) -> Any:
    from pflrepro.metrics.accuracy import pooled

    history = simulation.history(index)
    return pooled(history) if "correct" in history else []


def _mean_accuracy(simulation: Any, count: int) -> float:
    return sum(float(_curve(simulation, index)[-1]) for index in range(count)) / count


def _save(simulation: Any, group: Group, store: Store, machine: Machine, started: float) -> None:
    for index, (job, record) in enumerate(zip(group.jobs, _sittings(group, simulation, machine, started), strict=True)):
        store.save_checkpoint(job.id, Checkpoint(simulation.round, simulation.state_of(index), record))


def _sittings(group: Group, simulation: Any, machine: Machine, started: float) -> list[list[dict[str, Any]]]:
    """The records of each job: those of its checkpoint, and this process's, up to now."""
    seeds = [job.experiment.seed for job in group.jobs]
    device = environment.device_name(machine.device)
    this = environment.sitting(simulation.facts, device=device, seeds=seeds, started_at=group.round)
    this |= {
        "threads": environment.threads(),
        "seconds": time.monotonic() - started,
        "peak_memory_bytes": environment.peak_memory(machine.device),
    }
    return [[*(checkpoint.sittings if checkpoint else []), this] for checkpoint in group.checkpoints]


class _Failures:
    """Turns what goes wrong inside the engine into a `RunFailed` that names the method, the seeds and the round."""

    def __init__(self, experiment: Experiment, seeds: Sequence[int]) -> None:
        self.experiment, self.seeds = experiment, seeds
        self.where: dict[str, Any] = {"started": time.monotonic()}

    def __enter__(self) -> dict[str, Any]:
        return self.where

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if not isinstance(error, Exception) or isinstance(error, (UserError, RunFailed)):
            return
        simulation = self.where.get("simulation")
        when = "before its first round" if simulation is None else f"in round {simulation.round + 1}"
        reason = " ".join(str(error).split()) or "no message"
        raise RunFailed(
            f"{_name(self.experiment, self.seeds)} failed {when}: {type(error).__name__}: {reason}"
        ) from error


def _name(experiment: Experiment, seeds: Sequence[int]) -> str:
    return f"{experiment.algorithm} on {experiment.data.dataset} ({'seeds' if len(seeds) > 1 else 'seed'} {', '.join(map(str, seeds))})"
