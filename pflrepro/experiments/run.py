"""`run(experiments)`: what the store has is given back at once, what is half done is resumed, the rest is trained."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, overload

from pflrepro.errors import Paused, RunFailed, UserError, check_range, check_word, is_several
from pflrepro.experiments.callbacks import Callback, Watching
from pflrepro.experiments.config import Experiment, check_experiment
from pflrepro.experiments.history import rounds_to_test
from pflrepro.experiments.identity import Job, fingerprint_of, identity, identity_digest
from pflrepro.experiments.progress import Progress
from pflrepro.experiments.result import Moment, Run
from pflrepro.experiments.runs import Runs
from pflrepro.experiments.stopping import listening
from pflrepro.experiments.store import Store
from pflrepro.experiments.training import Machine, done, train

log = logging.getLogger("pflrepro.run")


@overload
def run(experiments: Experiment, **how: Any) -> Run: ...
@overload
def run(experiments: Iterable[Experiment], **how: Any) -> Runs: ...
def run(
    experiments: Experiment | Iterable[Experiment],
    *,
    store: Store | str | Path | None = None,
    data_root: str | Path | None = None,
    backend: str = "auto",
    device: str = "cpu",
    workers: int | None = None,
    memory: int | None = None,
    progress: bool = True,
    checkpoint_every: float = 20.0,
    keep: Sequence[Moment] = (),
    callbacks: Sequence[Callback] = (),
    simulate: Callable[..., Any] | None = None,
) -> Run | Runs:
    """The finished runs of the experiments, in their order (one run for one experiment).

    Experiments that differ only in their seed train side by side. A run that was killed goes on at its last checkpoint and ends with
    the history that it would have had; a run that was made with fewer rounds goes on from its last state, one that was made with more
    is read as far as it is asked for. Runs that another process is making are waited for.

    Args:
        store: where runs are kept (a `Store` or its folder).
        data_root: where the data sets are.
        backend, workers, memory: see `pflrepro.simulation.Simulation`; device: `cpu`, `cuda`, `cuda:1` or `auto`. None of them is part
            of a run's identity.
        progress: show a bar, where there is a terminal or a notebook.
        checkpoint_every: seconds between checkpoints, written after a round; 0 = after every round.
        keep: moments whose states are kept besides the last: `best`, or rounds (see `pflrepro.revive`).
        callbacks: are told of what is trained, see `pflrepro.experiments.Callback`; no part of a run's identity.
        simulate: makes the engine in place of `Simulation` (same arguments).

    Raises `UserError` for bad input or missing data, before anything is trained; `RunFailed` (method, seeds, round, cause) if the
    engine fails, after all other runs are done; what was checkpointed until then is resumed by the next call. A process that gets
    SIGTERM or SIGHUP meanwhile finishes its round, writes where it is, and ends with exit code 75 (`Stopped`), unless the program
    handles these signals itself.

    Example:
        >>> from pflrepro import Experiment
        >>> seeds = [Experiment.for_dataset("fedper", "digits", clients=5, rounds=2, seed=seed) for seed in range(2)]
        >>> runs = run(seeds, progress=False)
        >>> runs[0].history["correct"].shape, len(runs)  # tests: before any training and after each round; clients
        ((3, 5), 2)
    """
    single = isinstance(experiments, Experiment)
    jobs = identify(experiments, data_root)
    store = open_store(store)
    machine = Machine(backend, device, workers, memory, checkpoint_every, simulate, data_root, moments(keep, jobs))
    missing = lacking(jobs, store, machine.keep)
    watching = Watching(callbacks)
    with listening(), Progress(progress and bool(missing)) as bar:
        bar.expect(sum(packed[0].experiment.settings.rounds for packed in packs(missing)))
        if bar.shown:
            watching.add(bar)
        train_all(missing, store, machine, watching)
    runs = [store.answer(job.id, job.experiment) for job in jobs]
    if None in runs:
        lost = jobs[runs.index(None)].id
        raise RunFailed(f"the run {lost} is not in the store any more: another process or hand removed it")
    return runs[0] if single else Runs(runs)


def moments(keep: Sequence[Moment], jobs: Sequence[Job]) -> tuple[Moment, ...]:
    """The moments but the last, whose state is kept anyway; `UserError` for one that a run will not have."""
    if not is_several(keep):
        one = keep if isinstance(keep, (str, int, float)) else "best"
        raise UserError(f"keep is a list of moments, such as keep=[{one!r}], not {keep!r}")
    keep = [each if isinstance(each, str) else check_range("a round of keep", each, 0, integer=True) for each in keep]
    for moment in keep:
        if isinstance(moment, str):
            check_word("moment", moment, ("best", "last"))
            continue
        for tested in {job.experiment.settings: rounds_to_test(job.experiment.settings) for job in jobs}.values():
            if moment not in tested:
                near = sorted(tested.tolist(), key=lambda each: abs(each - moment))[:3]
                raise UserError(f"no test is asked for after round {moment!r}, whose state is to be kept; near: {near}")
    return tuple(moment for moment in keep if moment != "last")


def open_store(store: Store | str | Path | None) -> Store:
    """The store given, or the one in that folder, or the default one."""
    return store if isinstance(store, Store) else Store(store)


def identify(experiments: Experiment | Iterable[Experiment], data_root: str | Path | None = None) -> list[Job]:
    """The experiments, or the one, with their ids; `UserError` for anything else, `MissingData` where data are not there."""
    jobs = []
    for experiment in experiments if is_several(experiments) else [experiments]:
        check_experiment(experiment, "run takes experiments")
        described = identity(experiment, fingerprint_of(experiment.data, data_root))
        jobs.append(Job(identity_digest(described), experiment, described))
    return jobs


def lacking(jobs: Iterable[Job], store: Store, keep: Sequence[Moment] = ()) -> list[Job]:
    """The jobs, each once, of which the store has not all that is asked for."""
    distinct = {job.experiment: job for job in jobs}
    return [job for job in distinct.values() if not done(job, store, keep)]


def packs(jobs: Sequence[Job]) -> list[list[Job]]:
    """The jobs that differ only in their seed, together; in the order in which they first come."""
    together: dict[str, list[Job]] = {}
    for job in jobs:
        together.setdefault(job.pack, []).append(job)
    return list(together.values())


def train_all(jobs: Sequence[Job], store: Store, machine: Machine, watching: Watching) -> None:
    """Train pack by pack; what other processes are making is left to the end, and waited for with no lock held.

    A pack that fails is told of at once, and raised when the others are done: hours of theirs must not hang on it.
    """
    failed: list[UserError | RunFailed] = []

    def trained(jobs: Sequence[Job]) -> list[Job]:
        busy: list[Job] = []
        for packed in packs(jobs):
            try:
                busy += train(packed, store, machine, watching)
            except Paused:
                raise
            except (UserError, RunFailed) as error:
                failed.append(error)
                if len(jobs) > len(packed):
                    log.warning("%s; the other runs go on", error)
        return busy

    busy = trained(jobs)
    while busy:
        wait_for(busy[0], store)
        busy = trained(busy)
    if len(failed) == 1:
        raise failed[0]
    if failed:
        kind = UserError if all(isinstance(error, UserError) for error in failed) else RunFailed
        said = "; ".join(map(str, failed))
        raise kind(f"{len(failed)} of {len(packs(jobs))} trainings failed: {said}") from failed[0]


def wait_for(job: Job, store: Store) -> None:
    """Return when nobody holds the run's lock."""
    log.warning("run %s is being made by another process: waiting for it", job.id)
    lock = store.lock(job.id)
    lock.acquire(wait=True)
    lock.release()
