"""A sweep: a list of experiments and a launcher. Only what is missing runs, and one failure does not stop the others.

A launcher is a function (tasks, work, jobs) -> iterator of (task, message or None), which calls `work(task)` for every task, in any
order and place; `work` can be pickled, trains the experiments of a task, and gives None or what went wrong. Results go through
the store alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pflrepro.cores import usable_cores
from pflrepro.errors import RunFailed, UserError, check_range, check_word
from pflrepro.experiments.config import Experiment
from pflrepro.experiments.run import identify, lacking, open_store, packs, run
from pflrepro.experiments.runs import Runs
from pflrepro.experiments.stopping import listening

if TYPE_CHECKING:
    from pflrepro.experiments.store import Store

Task = tuple[Experiment, ...]
Outcome = tuple[Task, str | None]
Launcher = Callable[[Sequence[Task], Callable[[Task], str | None], int], Iterator[Outcome]]


@dataclass(frozen=True)
class Work:
    """Trains one task in whatever process it is called; gives None, or what went wrong in one line."""

    store: Path
    data_root: Path | None
    backend: str
    device: str
    workers: int | None
    progress: bool
    checkpoint_every: float

    def __call__(self, task: Task) -> str | None:
        try:
            run(
                task,
                store=self.store,
                data_root=self.data_root,
                backend=self.backend,
                device=self.device,
                workers=self.workers,
                progress=self.progress,
                checkpoint_every=self.checkpoint_every,
            )
        except (RunFailed, UserError) as error:
            return str(error)
        except Exception as error:  # a bug of ours in one run must not lose the others
            return f"{type(error).__name__}: {' '.join(str(error).split())}"
        return None


def serial(tasks: Sequence[Task], work: Callable[[Task], str | None], jobs: int) -> Iterator[Outcome]:
    """One task after another, here."""
    for task in tasks:
        yield task, work(task)


def processes(tasks: Sequence[Task], work: Callable[[Task], str | None], jobs: int) -> Iterator[Outcome]:
    """`jobs` processes with one thread each, through joblib."""
    from joblib import Parallel, delayed, parallel_config
    from joblib.externals.loky.process_executor import BrokenProcessPool

    waiting = list(tasks)
    with parallel_config(backend="loky", n_jobs=jobs, inner_max_num_threads=1):
        try:
            for index, message in Parallel(return_as="generator_unordered")(
                delayed(_alone)(os.getpid(), work, index, task) for index, task in enumerate(tasks)
            ):
                waiting.remove(tasks[index])
                yield tasks[index], message
        except BrokenProcessPool as error:
            for task in waiting:
                yield task, f"a worker process died (out of memory?): {' '.join(str(error).split())[:200]}"


def _alone(parent: int, work: Callable[[Task], str | None], index: int, task: Task) -> tuple[int, str | None]:
    import torch

    from pflrepro.simulation.lifetime import follow

    follow(parent)
    torch.set_num_threads(1)  # two threads a process on a shared machine cost up to 100 times
    return index, work(task)


LAUNCHERS: dict[str, Launcher] = {"serial": serial, "processes": processes}


def sweep(
    experiments: Iterable[Experiment],
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
) -> Runs:
    """The finished runs of all experiments, in their order.

    Args:
        launcher: `serial`, `processes`, or a function as described above.
        jobs: processes at a time; default: one a core.
        the rest: see `run`. With several processes each has one worker by default and shows no bar.

    Raises `UserError` for bad input, before anything runs; `RunFailed` that names every run that failed, after all others are done.
    """
    launch = launcher if callable(launcher) else LAUNCHERS[check_word("launcher", launcher, LAUNCHERS)]
    jobs = check_range("jobs", usable_cores() if jobs is None else jobs, 1, integer=True)
    store = open_store(store)
    identified = identify(experiments, data_root)
    missing = lacking(identified, store)
    together = packs(missing)
    here = launch is serial
    if not here and len(together) < jobs:  # too few packs to go round: one seed a process
        together = [[job] for job in missing]
    tasks = [tuple(job.experiment for job in packed) for packed in together]
    work = Work(
        store=store.root.absolute(),
        data_root=None if data_root is None else Path(data_root).absolute(),
        backend=backend,
        device=device,
        workers=workers if here or workers is not None else 1,
        progress=progress and here,
        checkpoint_every=checkpoint_every,
    )
    with listening():
        outcomes = list(launch(tasks, work, jobs)) if tasks else []
    failed = [(task, message) for task, message in outcomes if message is not None]
    if failed:
        raise RunFailed(
            f"{len(failed)} of {len(tasks)} tasks failed: " + "; ".join(_told(*outcome) for outcome in failed)
        )
    runs = [store.answer(job.id, job.experiment) for job in identified]
    if None in runs:
        raise RunFailed("a run of the sweep is not in the store any more: another process or hand removed it")
    return Runs(runs)


def _told(task: Task, message: str) -> str:
    first = task[0]
    seeds = ", ".join(str(experiment.seed) for experiment in task)
    name = f"{first.algorithm} on {first.data.dataset}"
    return message if message.startswith(name) else f"{name} (seeds {seeds}): {message}"
