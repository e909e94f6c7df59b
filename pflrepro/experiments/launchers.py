"""Where the tasks of a sweep are trained: here, in processes, or on a cluster by Dask, Ray or SLURM.

A launcher is a function (tasks, work, jobs) -> iterator of (task, message or None), which calls `work(task)` for every task, in any
order and place; `work` can be pickled, trains the experiments of a task, and gives None or what went wrong. `jobs` is how many at a
time, None as many as there is room for. Results go through the store alone, which every worker must reach under the same path.

What spreads and starts again is the engine's: joblib with loky or Dask, Ray, and submitit. A task whose worker died is handed out
again, until `TRIES` passes in a row get no answer, and goes on from its last checkpoint; the runs that are done are not touched.
"""

from __future__ import annotations

import itertools
import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from pflrepro.cores import usable_cores
from pflrepro.device import resolve_device
from pflrepro.errors import UserError, check_range, unknown
from pflrepro.experiments.config import Experiment

TRIES = 3  # passes in a row in which no task is answered, before those that are left count as failed
CONNECT = 20  # seconds that a Dask scheduler may take to answer
RAY_GIVES_UP = "on a busy machine it gives up after 15 s; its own log is raylet.err in Ray's folder of the session"
POLL = 1.0  # seconds between looks at SLURM jobs; submitit asks the scheduler itself less often
ON_A_GPU = 2  # runs that share one: two small ones take each 1.1 to 1.6 times as long as alone; ten large ones gain nothing (an H100)
TIME_LIMITS = 100  # that a SLURM job may come to, before it counts as failed: each time it goes on where it was

Task = tuple[Experiment, ...]
Outcome = tuple[Task, str | None]
Answers = Iterator[tuple[int, str | None]]


class Work(Protocol):
    """What trains one task in whatever process it is called; gives None, or what went wrong in one line."""

    device: str
    workers: int | None

    def __call__(self, task: Task) -> str | None: ...


Launcher = Callable[[Sequence[Task], Work, int | None], Iterator[Outcome]]


def serial(tasks: Sequence[Task], work: Work, jobs: int | None) -> Iterator[Outcome]:
    """One task after another, here."""
    for task in tasks:
        yield task, work(task)


@dataclass(frozen=True)
class Processes:
    """A launcher for processes here, with one thread each, through joblib and loky.

    Attributes:
        number: how many, where a sweep has no `jobs`; None: one a core, on a GPU `ON_A_GPU`.
    """

    number: int | None = None

    def room(self, jobs: int | None, device: str) -> int:
        """How many tasks train at a time."""
        on_cpu = (resolve_device(device) if device == "auto" else device) == "cpu"
        return jobs or self.number or (usable_cores() if on_cpu else ON_A_GPU)

    def __call__(self, tasks: Sequence[Task], work: Work, jobs: int | None) -> Iterator[Outcome]:
        how = {"backend": "loky", "n_jobs": self.room(jobs, work.device), "inner_max_num_threads": 1}
        return _until_answered(partial(_by_joblib, partial(_alone, work, os.getpid()), how), tasks)


def dask(address: str) -> Launcher:
    """A launcher for the workers of a Dask cluster: `address` of its scheduler, or the path of its scheduler file (`*.json`)."""

    def launch(tasks: Sequence[Task], work: Work, jobs: int | None) -> Iterator[Outcome]:
        _needs("dask", "distributed")
        from distributed import Client

        place = {"scheduler_file": address} if address.endswith(".json") else {"address": address}
        try:
            client = Client(**place, timeout=CONNECT, set_as_default=False)
        except (OSError, ValueError) as error:
            raise UserError(f"no Dask scheduler answers at {address}: {_line(error)}") from None
        with client:  # its workers are as many as they are, and more may join
            how = {"backend": "dask", "client": client, "n_jobs": -1, "wait_for_workers_timeout": 0}
            yield from _until_answered(partial(_by_joblib, partial(_alone, work, 0), how), tasks)

    return launch


def ray(address: str = "") -> Launcher:
    """A launcher for a Ray cluster, or for this machine; one GPU a worker where `device` is one."""

    def launch(tasks: Sequence[Task], work: Work, jobs: int | None) -> Iterator[Outcome]:
        _needs("ray", "ray")
        import ray as engine

        ours = not engine.is_initialized()
        if ours:
            try:
                alone = {} if address else {"include_dashboard": False}
                engine.init(address=address or None, log_to_driver=False, **alone)
            except Exception as error:  # also its own failure to start is one
                raise UserError(
                    f"Ray cannot be {f'reached at {address}' if address else f'started here ({RAY_GIVES_UP})'}: {_line(error)}"
                ) from None
        try:
            gpus = int(work.device.startswith("cuda"))
            room = int(engine.cluster_resources().get("GPU" if gpus else "CPU", 0))
            if not room:
                raise UserError(f"Ray has no {'GPU' if gpus else 'CPU'} for the device {work.device!r}")
            train = engine.remote(num_cpus=1, num_gpus=gpus, max_retries=0)(_alone)
            yield from _until_answered(partial(_by_ray, partial(train.remote, work, 0), jobs or room), tasks)
        finally:
            if ours:
                engine.shutdown()

    return launch


def slurm(folder: str | Path | None = None, cluster: str = "slurm", **parameters: Any) -> Launcher:
    """A launcher that submits one SLURM job a task, as a job array, through submitit.

    A job that reaches its time limit, or is preempted, is put into the queue again and goes on from its last checkpoint.

    Args:
        folder: for submitit's files and the jobs' output, on a file system that the nodes reach and only the user writes to (the files
            are pickles); default: in the user's own state folder.
        cluster: `slurm`; `local` trains in processes here, to try.
        parameters: submitit's `timeout_min`, `mem_gb`, `gpus_per_node` ..., and what `sbatch` takes: `partition`, `account`, `qos` ...
    """

    def launch(tasks: Sequence[Task], work: Work, jobs: int | None) -> Iterator[Outcome]:
        _needs("slurm", "submitit")
        import submitit

        generic = submitit.AutoExecutor._typed_parameters()
        given = {name if name in generic else f"slurm_{name}": value for name, value in parameters.items()}
        given = {"name": "pflrepro", "cpus_per_task": work.workers or 1} | given
        given |= {"slurm_array_parallelism": jobs} if jobs else {}
        try:
            limits = {f"{each}_max_num_timeout": TIME_LIMITS for each in ("slurm", "local")}
            executor = submitit.AutoExecutor(folder=_pickles(folder), cluster=cluster, **limits)
            executor.update_parameters(**given)
        except (ValueError, NameError, TypeError, AssertionError, RuntimeError) as error:
            raise UserError(f"submitit refuses the launcher's parameters: {_line(error)}") from None
        yield from _until_answered(partial(_by_submitit, work, executor), tasks)

    return launch


FORMS = ("serial", "processes", "processes:N", "dask:ADDRESS", "ray", "ray:ADDRESS", "slurm", "slurm:NAME=VALUE,...")


def launcher_of(text: str) -> Launcher:
    """The launcher that a text names, see `FORMS`; `UserError` for another one.

    Example:
        >>> launcher_of("processes:2")
        Processes(number=2)
    """
    if not isinstance(text, str):
        raise unknown("launcher", text, FORMS)
    name, _, rest = text.partition(":")
    if text == "serial":
        return serial
    if text == "processes":
        return Processes()
    if name == "processes":
        return Processes(check_range("the number of processes", _number(rest), 1, integer=True))
    if name == "dask" and rest:
        return dask(rest)
    if name == "ray":
        return ray(rest)
    if name == "slurm":
        return slurm(**_parameters(rest))
    raise unknown("launcher", text, FORMS)


def _parameters(text: str) -> dict[str, Any]:
    """`partition=gpu,timeout_min=600` as a mapping; whole numbers are numbers."""
    found = {}
    for pair in filter(None, text.split(",")):
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            raise UserError(f"expected slurm:NAME=VALUE,..., not {pair!r}")
        found[name] = _number(value)
    return found


def _number(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


# ---- what the engines have in common ---------------------------------------------------------------------------------------
def _until_answered(once: Callable[[Mapping[int, Task]], Answers], tasks: Sequence[Task]) -> Iterator[Outcome]:
    """Hand out the tasks, and again those that no worker answered; what finished meanwhile is found in the store, not trained."""
    waiting, left, reason = dict(enumerate(tasks)), TRIES, "no answer"
    while waiting and left:
        before = len(waiting)
        try:
            for index, message in once(dict(waiting)):
                yield waiting.pop(index), message
        except UserError:
            raise
        except pickle.PicklingError as error:
            raise UserError(f"what the workers are to do cannot be sent to them: {_line(error)}") from None
        except Exception as error:  # a worker died, or the engine gave up on one
            reason = _line(error)
        left = TRIES if len(waiting) < before else left - 1
    for task in waiting.values():
        yield task, f"its worker died (out of memory?): {reason}"


def _by_joblib(call: Callable[[int, Task], tuple[int, str | None]], how: Mapping[str, Any], tasks: Any) -> Answers:
    from joblib import Parallel, delayed, parallel_config

    with parallel_config(**how):
        spread = Parallel(return_as="generator_unordered", pre_dispatch="all", batch_size=1)
        yield from spread(delayed(call)(index, task) for index, task in tasks.items())


def _by_ray(submit: Callable[[int, Task], Any], jobs: int, tasks: Mapping[int, Task]) -> Answers:
    """`jobs` tasks of Ray at a time; those whose worker died are left over. (Its back end for joblib answers when all are done.)"""
    import ray as engine

    left, running, died = iter(tasks.items()), set(), ""
    try:
        while True:
            running |= {submit(*each) for each in itertools.islice(left, jobs - len(running))}
            if not running:
                break
            for done in engine.wait(list(running))[0]:
                running.remove(done)
                try:
                    yield engine.get(done)
                except engine.exceptions.RayError as error:
                    died = _line(error)
    finally:
        for each in running:  # who takes the answers was interrupted
            engine.cancel(each, force=True)
    if died:
        raise RuntimeError(died)


def _alone(work: Work, parent: int, index: int, task: Task) -> tuple[int, str | None]:
    """A task in a process of its own, which ends with `parent` where that is on the same machine (else 0)."""
    import torch

    from pflrepro.simulation.lifetime import follow

    if parent != os.getpid():  # joblib may work where it is called, as within a thread of its own
        if parent:
            follow(parent)
        torch.set_num_threads(1)  # two threads a process on a shared machine cost up to 100 times
    return index, work(task)


def _by_submitit(work: Work, executor: Any, tasks: Mapping[int, Task]) -> Answers:
    from submitit.core.utils import UncompletedJobError
    from submitit.helpers import as_completed

    jobs = dict(zip(executor.map_array(work, list(tasks.values())), tasks, strict=True))
    died = ""
    try:
        for job in as_completed(list(jobs), poll_frequency=POLL):
            error = job.exception()
            if error is None:
                yield jobs[job], job.result()
            elif isinstance(error, UncompletedJobError):
                died = f"{_line(error)}; log: {job.paths.stderr}"
            else:
                yield jobs[job], f"{_line(error)}; log: {job.paths.stderr}"
    except KeyboardInterrupt:
        for job in jobs:
            job.cancel(check=False)
        raise
    if died:
        raise RuntimeError(died)


def _pickles(folder: str | Path | None) -> Path:
    """The folder for submitit's files, which nobody else may write to."""
    import platformdirs

    from pflrepro.places import named_folder

    chosen = platformdirs.user_state_path("pflrepro") / "slurm" if folder is None else folder
    path = named_folder(chosen, "the launcher's folder").absolute()
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = path.stat()
    except OSError as error:
        raise UserError(f"the launcher's folder {path} cannot be made: {error.strerror or error}") from None
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise UserError(f"others may write to the launcher's folder {path}, which is to hold pickles: chmod 700 it")
    return path


def _needs(extra: str, package: str) -> None:
    if find_spec(package) is None:
        raise UserError(f"the launcher {extra} needs the package {package}: pip install 'pflrepro[{extra}]'")


def _line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
