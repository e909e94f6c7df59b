"""A sweep: a list of experiments and a launcher. Only what is missing runs, and one failure does not stop the others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pflrepro.cores import may_start_processes
from pflrepro.data.root import data_root as chosen_root
from pflrepro.errors import Paused, RunFailed, UserError, check_range, in_short, is_several
from pflrepro.experiments import compact
from pflrepro.experiments.callbacks import Callback, Watching
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.identity import Job
from pflrepro.experiments.launchers import Launcher, Outcome, Processes, Task, launcher_of, serial
from pflrepro.experiments.progress import Progress
from pflrepro.experiments.result import Moment
from pflrepro.experiments.run import identify, lacking, moments, open_store, packs, run
from pflrepro.experiments.runs import Runs
from pflrepro.experiments.stopping import listening, saved_first_in_a_job
from pflrepro.experiments.store import Store
from pflrepro.experiments.training import Machine


@dataclass(frozen=True)
class Work:
    """Trains one task in whatever process it is called; gives None, or what went wrong in one line."""

    store: Path
    behind: Path | None  # of the store, where it is not the package's own, which may lie elsewhere on another machine
    data_root: Path | None
    backend: str
    device: str
    workers: int | None
    progress: bool
    checkpoint_every: float
    here: bool = False  # in the process that asked for the sweep
    keep: Sequence[Moment] = ()
    callbacks: Sequence[Callback] = ()

    def __call__(self, task: Task) -> str | None:
        with saved_first_in_a_job():
            return self._outcome(task)

    def _outcome(self, task: Task) -> str | None:
        try:
            run(
                task,
                store=Store(self.store, self.behind),
                data_root=self.data_root,
                backend=self.backend,
                device=self.device,
                workers=self.workers,
                progress=self.progress,
                checkpoint_every=self.checkpoint_every,
                keep=self.keep,
                callbacks=self.callbacks,
            )
        except (RunFailed, UserError) as error:
            if self.here and isinstance(error, Paused):
                raise  # it stops all of them; elsewhere its own task, whose callbacks are copies
            return str(error)
        except Exception as error:  # a bug of ours in one run must not lose the others
            return f"{type(error).__name__}: {' '.join(str(error).split())}"
        return None

    def checkpoint(self, task: Task) -> Any:
        """What submitit puts into the queue in place of a task that it interrupts: the same, which goes on where it was."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, task)


def sweep(
    experiments: Experiment | Iterable[Experiment],
    launcher: str | Launcher = "serial",
    *,
    jobs: int | None = None,
    store: Store | str | Path | None = None,
    data_root: str | Path | None = None,
    backend: str = "auto",
    device: str = "cpu",
    workers: int | None = None,
    progress: bool = True,
    checkpoint_every: float = 20.0,
    keep: Sequence[Moment] = (),
    callbacks: Sequence[Callback] = (),
) -> Runs:
    """The finished runs of all experiments, in their order; of one experiment, a list of one.

    Args:
        launcher: `serial`, `processes`, `processes:N`, `dask:ADDRESS`, `ray`, `ray:ADDRESS`, `slurm:NAME=VALUE,...`, or a function, see
            `pflrepro.experiments.launchers`.
        jobs: tasks at a time; default: the launcher's N, else one a core, two on a GPU, on a cluster as many as there is room for.
        callbacks: as `run`'s, called where a task is trained: with several processes each task has copies of them, made by pickling.
        the rest: see `run`. With several processes each has one worker by default and shows no bar; one bar shows the sweep.

    Raises `UserError` for bad input, before anything runs; `RunFailed` that names every run that failed, after all others are done.
    """
    launch = launcher if callable(launcher) else launcher_of(launcher)
    if jobs is not None:
        check_range("jobs", jobs, 1, integer=True)
    room = launch.room(jobs, device) if isinstance(launch, Processes) else jobs or math.inf
    if isinstance(launch, Processes) and (room == 1 or not may_start_processes()):
        launch = serial  # the single process is this one
    # what each task would refuse; which devices there are is known where it runs
    Machine(backend, workers=workers, checkpoint_every=checkpoint_every)
    watching = Watching(callbacks)
    store = open_store(store)
    identified = identify(experiments, data_root)
    kept = moments(keep, identified)
    missing = lacking(identified, store, kept)
    together = packs(missing)
    here = launch is serial
    if not here and (isinstance(launcher, str) or isinstance(launch, Processes)):  # a function may train anywhere
        _check_importable(missing)
    if not here and len(together) < room:
        together = [[job] for job in missing]  # too few packs to go round: one seed a task
    tasks = [tuple(job.experiment for job in packed) for packed in together]
    work = Work(
        store=store.root.absolute(),
        behind=None if store.behind == compact.shipped() else store.behind.absolute(),
        data_root=chosen_root(data_root).absolute(),
        backend=backend,
        device=device,
        here=here,
        workers=workers if here or workers is not None else 1,
        progress=progress and here,
        checkpoint_every=checkpoint_every,
        keep=kept,
        callbacks=tuple(watching.callbacks),
    )
    with listening():
        outcomes = _launched(launch, tasks, work, jobs, _Shown(missing, store, progress and not here)) if tasks else []
    failed = [(task, message) for task, message in outcomes if message is not None]
    if failed:
        raise RunFailed(
            f"{len(failed)} of {len(tasks)} tasks failed: " + "; ".join(_told(*outcome) for outcome in failed)
        )
    runs = [store.answer(job.id, job.experiment) for job in identified]
    if None in runs:
        raise RunFailed(
            "a run of the sweep is not in the store: another process or hand removed it, or a file of your own says something else "
            "by now than this session loaded (importlib.reload, or a new session)"
        )
    return Runs(runs)


def _check_importable(jobs: Sequence[Job]) -> None:
    """`UserError` for a method or network that stands in a script or notebook: no other process can import it from there."""
    for job in jobs:
        for given in (job.experiment.algorithm, job.experiment.model):
            module, _, name = given.partition(":")
            if module == "__main__":
                raise UserError(
                    f"{name} stands in this script or notebook, which other processes cannot import: write it into a module, "
                    f"such as my_module.py beside it, and give my_module:{name}, or train here (launcher='serial')"
                )


def _launched(launch: Launcher, tasks: Sequence[Task], work: Work, jobs: int | None, shown: _Shown) -> list[Outcome]:
    outcomes = []
    with shown.bar:
        shown.tell()
        found = launch(tasks, work, jobs)
        for pair in found if is_several(found) else [found]:
            if not (isinstance(pair, tuple) and len(pair) == 2):
                raise UserError(f"a launcher gives a pair a task, (task, what work(task) gave), not {in_short(pair)}")
            task, message = pair
            outcomes.append((task, message))
            shown.count(len(task), message)
    return outcomes


class _Shown:
    """One line for a sweep elsewhere: runs done and failed of all that lacked, those begun, and how long it may take."""

    def __init__(self, missing: Sequence[Job], store: Store, wanted: bool) -> None:
        self.bar, self._missing, self._store = Progress(wanted), missing, store
        self._done = self._failed = 0
        self.bar.expect(len(missing), "run")

    def count(self, runs: int, message: str | None) -> None:
        """So many runs have come to their end."""
        self._done += runs
        self._failed += 0 if message is None else runs
        self.tell()

    def tell(self) -> None:
        if self.bar.shown:
            begun = sum(self._store.begun(job.id) for job in self._missing)
            self.bar.label(f"sweep: {begun} running, {self._failed} failed")
            self.bar.to(self._done)


def _told(task: Task, message: str) -> str:
    first = task[0]
    seeds = ", ".join(str(experiment.seed) for experiment in task)
    name = f"{first.algorithm} on {first.data.dataset}"
    return message if message.startswith(name) else f"{name} (seeds {seeds}): {message}"
